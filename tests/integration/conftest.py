"""What tests on MinIO share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.fault_proxy import FaultProxy
from tests.services.minio import Minio


@pytest.fixture
def proxy(minio: Minio) -> Iterator[FaultProxy]:
    """Stands before MinIO, and writes down the requests."""
    with FaultProxy(minio.port) as running:
        yield running
