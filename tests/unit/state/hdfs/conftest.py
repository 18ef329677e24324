"""One partition of a store, in each checkpoint format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.partition import Partition

MakePartition = Callable[..., Partition]


@pytest.fixture
def executors(tmp_path: Path) -> Iterator[Partition]:
    """With unique ids."""
    opened = Partition(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def executors_v1(tmp_path: Path) -> Iterator[Partition]:
    """Without."""
    opened = Partition(tmp_path, checkpoint_format_version=1)
    yield opened
    opened.close()


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def any_executors(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Partition]:
    opened = Partition(tmp_path, checkpoint_format_version=request.param)
    yield opened
    opened.close()


@pytest.fixture
def make_partition(tmp_path: Path) -> Iterator[MakePartition]:
    """Makes partitions by conf, with unique ids unless told otherwise. Their maintenance is called by hand."""
    made: list[Partition] = []

    def make(**conf: Any) -> Partition:
        root = tmp_path / str(len(made))
        made.append(Partition(root, **conf))
        return made[-1]

    yield make
    for partition in made:
        partition.close()


@pytest.fixture
def partition(make_partition: MakePartition) -> Partition:
    return make_partition()
