"""The state of Spark's streaming queries, opened from Python at native speed."""

from hdfsstore.errors import StateStoreError

__all__ = ["StateStoreError"]
