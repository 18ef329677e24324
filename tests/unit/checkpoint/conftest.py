"""Where checkpoints are: on a local disk, or on the storages of --places, where only tests run that take a place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hdfsstore.checkpoint.row_converter import RowConverter
from hdfsstore.codecs.records import RecordChunk
from tests.services.places import Place
from tests.support.remote_path import RemotePath
from tests.support.truth import NEWEST
from tests.unit.checkpoint.build import copy_to

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("places") == "local":
        return
    read: set[tuple[str, ...]] = set()
    left_out = [item for item in items if HERE in item.path.parents and not _runs(item, read)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _runs(item: pytest.Item, read: set[tuple[str, ...]]) -> bool:
    """On real servers: with a place, of the newest Spark's checkpoints, and one of Spark's reads of each."""
    if not isinstance(item, pytest.Function) or "place" not in item.fixturenames:
        return False
    named = item.name.partition("[")[2]
    if "spark-" in named and NEWEST not in named:
        return False
    params: dict[str, Any] = item.callspec.params
    if "read" in params:
        case = (params["place"], str(params["read"].case))
        if case in read:
            return False
        read.add(case)
    return True


@pytest.fixture
def root(place: Place, tmp_path: Path) -> Any:
    """A folder of the test's own for a checkpoint, as a path of pathlib."""
    return tmp_path if place.uri.startswith("file:") else RemotePath(place.files, place.path)


@pytest.fixture(scope="session")
def uploads() -> dict[tuple[str, Path], RemotePath]:
    """Storage and local checkpoint -> its copy there."""
    return {}


@pytest.fixture
def placed(place: Place, uploads: dict[tuple[str, Path], RemotePath]) -> Callable[[Path], Any]:
    """Gives the copy of a local checkpoint on the test's storage, which is not to be changed."""

    def placed_copy(source: Path) -> Any:
        if place.uri.startswith("file:"):
            return source
        copy = place.files.identity, source
        if copy not in uploads:
            uploads[copy] = RemotePath(place.files, f"{place.path}/{source.parent.name}")
            copy_to(source, uploads[copy])
        return uploads[copy]

    return placed_copy


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of stored rows in each chunk that is decoded."""
    sizes: list[int] = []
    decode = RowConverter.decode

    def watched(rows: RowConverter, chunk: RecordChunk) -> Any:
        sizes.append(len(chunk))
        return decode(rows, chunk)

    monkeypatch.setattr(RowConverter, "decode", watched)
    return sizes
