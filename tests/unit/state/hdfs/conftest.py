"""One partition of a store, in each checkpoint format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.state.hdfs.executors import Executors


@pytest.fixture
def executors(tmp_path: Path) -> Iterator[Executors]:
    """With unique ids."""
    opened = Executors(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def executors_v1(tmp_path: Path) -> Iterator[Executors]:
    """Without."""
    opened = Executors(tmp_path, checkpoint_format_version=1)
    yield opened
    opened.close()


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def any_executors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Executors]:
    opened = Executors(tmp_path, checkpoint_format_version=request.param)
    yield opened
    opened.close()
