"""Fixtures of the contract: each test runs for every backend, checkpoint format, and with and without row checksums."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfsstore.state.protocols import StateStoreProvider
from tests.contract.backends import VARIANTS, Variant
from tests.support.partition import Partition


@pytest.fixture(params=VARIANTS, ids=str)
def variant(request: pytest.FixtureRequest) -> Variant:
    value = request.param
    assert isinstance(value, Variant)
    return value


@pytest.fixture
def partition(tmp_path: Path, variant: Variant) -> Iterator[Partition]:
    partition = Partition(tmp_path, variant.backend, variant.conf)
    yield partition
    partition.close()


@pytest.fixture
def provider(partition: Partition) -> StateStoreProvider:
    return partition.open()
