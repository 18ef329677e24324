"""The state of Spark's streaming queries, opened from Python at native speed."""

from hdfsstore.checkpoint.batch import Batch
from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.checkpoint.commit_log import CommitLog
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.errors import (
    BatchAlreadyLoggedError,
    BatchNotAvailableError,
    CheckpointIdMismatchError,
    CheckpointNotFoundError,
    CorruptFileError,
    LogMismatchError,
    MissingFileError,
    SchemaMismatchError,
    SizeLimitError,
    StateStoreClosedError,
    StateStoreError,
    UnsupportedProviderError,
    UnsupportedQueryError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from hdfsstore.state.store_id import StateStoreId

__all__ = [
    "Batch",
    "BatchAlreadyLoggedError",
    "BatchNotAvailableError",
    "Checkpoint",
    "CheckpointIdMismatchError",
    "CheckpointNotFoundError",
    "CommitLog",
    "CorruptFileError",
    "LogMismatchError",
    "MissingFileError",
    "Operator",
    "SchemaMismatchError",
    "SizeLimitError",
    "StateStoreCheckpointInfo",
    "StateStoreClosedError",
    "StateStoreConf",
    "StateStoreError",
    "StateStoreId",
    "Store",
    "UnsupportedProviderError",
    "UnsupportedQueryError",
    "UnsupportedTypeError",
    "UnsupportedVersionError",
    "open_provider",
]
