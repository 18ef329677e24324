"""The servers, each started once a run by the first test that asks for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import pytest

from hdfsstore.fs.hdfs.libhdfs_library import classes
from tests.services import libhdfs as libhdfs_library
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.missing import ServiceMissingError
from tests.services.places import BUCKET, Place, on_hdfs, on_local_disk, on_minio
from tests.services.toxiproxy import Proxy, Toxiproxy


class Service(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


S = TypeVar("S", bound=Service)
T = TypeVar("T")


def needed(find: Callable[[], T]) -> T:
    """What a test needs. Where it cannot be had the test is skipped, and fails under CI."""
    try:
        return find()
    except ServiceMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@contextmanager
def running(make: Callable[[], S]) -> Iterator[S]:
    """A started server, where it can be had."""
    server = needed(make)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """A running MinIO with the bucket `checkpoints`."""
    with running(lambda: Minio(tmp_path_factory.mktemp("minio"))) as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="session")
def secure_minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """A running MinIO that speaks TLS alone, and can encrypt. It has no bucket."""
    with running(lambda: Minio(tmp_path_factory.mktemp("secure-minio"), secure=True)) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A running HDFS with one NameNode."""
    with running(lambda: Hdfs(tmp_path_factory.mktemp("hdfs"))) as server:
        yield server


@pytest.fixture(scope="session")
def hdfs_ha(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A running HDFS with two NameNodes, of which one is active."""
    with running(lambda: Hdfs(tmp_path_factory.mktemp("hdfs-ha"), pair=True)) as server:
        yield server


@pytest.fixture
def libhdfs(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of libhdfs.so, which this process finds while the test runs. Its JVM stays until the process ends."""
    folder = needed(libhdfs_library.folder)
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", str(folder))
    monkeypatch.setenv("LIBHDFS_OPTS", "-Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    for name in ("CLASSPATH", "JAVA_HOME"):  # which the package sets if they are not there
        monkeypatch.setenv(name, os.environ.get(name, ""))
    classes.cache_clear()  # a test of where they are may have left others
    return folder


@pytest.fixture(scope="session")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toxiproxy]:
    """A running toxiproxy: `with toxiproxy.before(minio.port) as proxy, proxy.toxic("latency", latency=20): ...`."""
    with running(lambda: Toxiproxy(tmp_path_factory.mktemp("toxiproxy"))) as server:
        yield server


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes a place runs on those of --places, unless it names its own."""
    places = metafunc.config.getoption("places").split(",")
    own = any("place" in str(mark.args[0]) for mark in metafunc.definition.iter_markers("parametrize"))
    if "place" in metafunc.fixturenames and not own and places != ["local"]:
        metafunc.parametrize("place", places, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder of the test's own: on a local disk, or where its parameter says."""
    name = getattr(request, "param", "local")
    if name == "local":
        return on_local_disk(tmp_path)
    if name == "libhdfs":
        request.getfixturevalue("libhdfs")
    if name.endswith("hdfs"):
        return on_hdfs(request.getfixturevalue("hdfs"), client="libhdfs" if name == "libhdfs" else None)
    return on_minio(request.getfixturevalue("minio"))


@pytest.fixture
def link(place: Place, request: pytest.FixtureRequest, toxiproxy: Toxiproxy) -> Iterator[Proxy]:
    """Stands before the server of the test's place; on HDFS that is the NameNode."""
    is_hdfs = place.uri.startswith("hdfs:")
    port = request.getfixturevalue("hdfs").rpc_ports[0] if is_hdfs else request.getfixturevalue("minio").port
    with toxiproxy.before(port) as running:
        yield running


@pytest.fixture
def behind(place: Place, request: pytest.FixtureRequest, link: Proxy) -> Callable[[float], Place]:
    """Gives a place that is reached over the link alone, by the seconds of its timeout."""
    if place.uri.startswith("hdfs:"):
        hdfs = request.getfixturevalue("hdfs")
        return lambda timeout_s: on_hdfs(hdfs, port=link.port, timeout_s=timeout_s)
    minio = request.getfixturevalue("minio")
    return lambda timeout_s: on_minio(minio, port=link.port, timeout_s=timeout_s)
