"""What sinks do with the output of a batch: those of tests/spark/test_stateful_sinks.py."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "spark"))

from test_stateful_sinks import SINKS as SHAPES

__all__ = ["SHAPES"]
