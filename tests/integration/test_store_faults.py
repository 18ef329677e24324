"""A store on HDFS and S3 whose connections break: each commit succeeds, or is a typed error in time; none is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

import hdfsstore
from hdfsstore.state.protocols import StateStoreProvider
from tests.services.places import Place
from tests.services.toxiproxy import BREAKING, Proxy
from tests.support.partition import EMPTY, Ref, contents, write

pytestmark = pytest.mark.parametrize("place", ["hdfs", "minio"], indirect=True)

TIMEOUT_S = 6.0
# What a loaded machine needs beside the deadline, and the calls of one commit or load that meet it one after the other.
IN_TIME_S = 60.0

T = TypeVar("T")


def open_store(place: Place, local_dir: Path) -> StateStoreProvider:
    conf = hdfsstore.StateStoreConf(local_dir=str(local_dir), maintenance_interval=0, min_deltas_for_snapshot=3)
    store_id = hdfsstore.StateStoreId(f"{place.uri}/state", 0, 0, storage_options=place.storage_options)
    return hdfsstore.open_provider(store_id, conf=conf)


@pytest.mark.parametrize("fault", BREAKING)
def test_commits_and_loads_while_connections_break(
    link: Proxy, behind: Callable[[float], Place], fault: str, tmp_path: Path
) -> None:
    model = {b"key 0": bytes(1000)}
    place = behind(TIMEOUT_S)
    with open_store(place, tmp_path / "writer") as writer:
        last = write(writer, EMPTY, model)
        for number in range(1, 4):
            update = {b"key %d" % number: bytes([number]) * 1000}
            with BREAKING[fault](link):
                committed = in_time(lambda base=last, update=update: write(writer, base, update))
            if committed is not None:
                last = committed
                model.update(update)
            assert read_anew(place, last, tmp_path / f"reader {number}") == model
        with BREAKING[fault](link):
            found = in_time(lambda: read_anew(place, last, tmp_path / "reader beside"))
        assert found in (None, model)
        in_time(writer.do_maintenance)
        with BREAKING[fault](link):
            in_time(writer.do_maintenance)
        # And it goes on.
        last = write(writer, last, {b"last": b"1"})
    assert read_anew(place, last, tmp_path / "last reader") == {**model, b"last": b"1"}


def test_what_only_slows_fails_nothing(link: Proxy, behind: Callable[[float], Place], tmp_path: Path) -> None:
    place = behind(TIMEOUT_S)
    with open_store(place, tmp_path / "writer") as writer, link.toxic("latency", latency=100):
        last = write(writer, EMPTY, {b"key": b"value"})
        assert read_anew(place, last, tmp_path / "reader") == {b"key": b"value"}


def read_anew(place: Place, version: Ref, local_dir: Path) -> dict[bytes, bytes]:
    with open_store(place, local_dir) as reader, reader.get_read_store(*version) as store:
        return contents(store)


def in_time(work: Callable[[], T]) -> T | None:
    """What the work returns; None where it fails with a typed error. Neither takes too long."""
    start = time.monotonic()
    try:
        return work()
    except hdfsstore.StateStoreError:
        return None
    finally:
        assert time.monotonic() - start < IN_TIME_S
