"""Fixtures of the contract: each test runs for every backend, checkpoint format, and with and without row checksums.

On storages that are no local disk (--places), those marked local_disk do not run, nor those of row checksums: what
these tests try there is the storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hdfsstore.state.protocols import StateStoreProvider
from tests.contract.backends import VARIANTS, Variant
from tests.services.places import Place
from tests.support.partition import Partition

HERE = Path(__file__).parent


@pytest.fixture(params=VARIANTS, ids=str)
def variant(request: pytest.FixtureRequest) -> Variant:
    value = request.param
    assert isinstance(value, Variant)
    return value


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if HERE in item.path.parents and not _runs(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _runs(item: pytest.Item) -> bool:
    params: dict[str, Any] = getattr(item, "callspec").params if hasattr(item, "callspec") else {}  # noqa: B009
    if params.get("place", "local") == "local":
        return True
    return item.get_closest_marker("local_disk") is None and not params["variant"].conf.row_checksum_enabled


@pytest.fixture
def partition(tmp_path: Path, variant: Variant, place: Place) -> Iterator[Partition]:
    partition = Partition(tmp_path, variant.backend, variant.conf, place=place)
    yield partition
    partition.close()


@pytest.fixture
def provider(partition: Partition) -> StateStoreProvider:
    return partition.open()
