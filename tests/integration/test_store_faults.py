"""A store on HDFS and S3 whose connections break: each commit succeeds, or is a typed error in time; none is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TypeVar

import pytest

import hdfsstore
from hdfsstore.state.protocols import StateStoreProvider
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.places import Place, on_hdfs, on_minio
from tests.services.toxiproxy import Proxy, Toxiproxy
from tests.support.partition import EMPTY, Ref, contents, write

TIMEOUT_S = 6.0
# What a loaded machine needs beside the deadline, and the calls of one commit or load that meet it one after the other.
IN_TIME_S = 60.0

T = TypeVar("T")
Fault = Callable[[Proxy], AbstractContextManager[None]]
# Before MinIO the bodies of files pass the proxy too, before a NameNode only calls do.
FAULTS: dict[str, Fault] = {
    "connections are reset": lambda proxy: proxy.toxic("reset_peer", timeout=0),
    "half of the connections are reset": lambda proxy: proxy.toxic("reset_peer", toxicity=0.5, timeout=0),
    "answers are lost": lambda proxy: proxy.toxic("timeout", timeout=0),
    "requests are lost": lambda proxy: proxy.toxic("timeout", stream="upstream", timeout=0),
    "answers are cut": lambda proxy: proxy.toxic("limit_data", bytes=100),
    "requests are cut": lambda proxy: proxy.toxic("limit_data", stream="upstream", bytes=1000),
    "connections are refused": lambda proxy: proxy.down(),
    "the link is slow": lambda proxy: proxy.toxic("latency", latency=200, jitter=100),
}


@pytest.fixture(params=["hdfs", "minio"])
def proxy(request: pytest.FixtureRequest, hdfs: Hdfs, minio: Minio, toxiproxy: Toxiproxy) -> Iterator[Proxy]:
    with toxiproxy.before(hdfs.rpc_ports[0] if request.param == "hdfs" else minio.port) as running:
        yield running


@pytest.fixture
def behind(request: pytest.FixtureRequest, proxy: Proxy, hdfs: Hdfs, minio: Minio) -> Place:
    """A place that is reached through the proxy alone."""
    if request.node.callspec.params["proxy"] == "hdfs":
        return on_hdfs(hdfs, port=proxy.port, timeout_s=TIMEOUT_S)
    return on_minio(minio, port=proxy.port, timeout_s=TIMEOUT_S)


def open_store(place: Place, local_dir: Path) -> StateStoreProvider:
    conf = hdfsstore.StateStoreConf(local_dir=str(local_dir), maintenance_interval=0, min_deltas_for_snapshot=3)
    store_id = hdfsstore.StateStoreId(f"{place.uri}/state", 0, 0, storage_options=place.storage_options)
    return hdfsstore.open_provider(store_id, conf=conf)


@pytest.mark.parametrize("fault", FAULTS)
def test_commits_and_loads_while_connections_break(proxy: Proxy, behind: Place, fault: str, tmp_path: Path) -> None:
    model = {b"key 0": bytes(1000)}
    with open_store(behind, tmp_path / "writer") as writer:
        last = write(writer, EMPTY, model)
        for number in range(1, 4):
            update = {b"key %d" % number: bytes([number]) * 1000}
            with FAULTS[fault](proxy):
                committed = in_time(lambda base=last, update=update: write(writer, base, update))
            if committed is not None:
                last = committed
                model.update(update)
            assert read_anew(behind, last, tmp_path / f"reader {number}") == model
        with FAULTS[fault](proxy):
            found = in_time(lambda: read_anew(behind, last, tmp_path / "reader beside"))
        assert found in (None, model)
        in_time(writer.do_maintenance)
        with FAULTS[fault](proxy):
            in_time(writer.do_maintenance)
        # And it goes on.
        last = write(writer, last, {b"last": b"1"})
    assert read_anew(behind, last, tmp_path / "last reader") == {**model, b"last": b"1"}


def test_what_only_slows_fails_nothing(proxy: Proxy, behind: Place, tmp_path: Path) -> None:
    with open_store(behind, tmp_path / "writer") as writer, proxy.toxic("latency", latency=100):
        last = write(writer, EMPTY, {b"key": b"value"})
        assert read_anew(behind, last, tmp_path / "reader") == {b"key": b"value"}


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
