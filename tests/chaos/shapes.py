"""What sinks do with the output of a batch: those of tests/spark/test_stateful_sinks.py."""

from __future__ import annotations

from tests.spark.support.sinks import SINKS as SHAPES

__all__ = ["SHAPES"]
