"""What the benchmarks share: `--smoke`, Spark, and the checkpoint that both sides read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench import big_state
from bench.report import Report
from tests.services.fixtures import running
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio

SMOKE_SHARE = 100
BUCKET = "bench"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smoke", action="store_true", help=f"sizes / {SMOKE_SHARE} and one round: does it still run?")


@pytest.fixture(scope="session")
def smoke(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--smoke"))


@pytest.fixture(scope="session")
def rounds(smoke: bool) -> int:
    """How often to time each piece of work."""
    return 1 if smoke else 5


@pytest.fixture(scope="session")
def num_keys(smoke: bool) -> int:
    return big_state.NUM_KEYS // SMOKE_SHARE if smoke else big_state.NUM_KEYS


@pytest.fixture(scope="module")
def minio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minio]:
    """A running MinIO with the bucket `bench`, which ends with the module: no other bench runs beside it."""
    with running(lambda: Minio(tmp_path_factory.mktemp("minio"))) as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A running HDFS, which ends with the module."""
    with running(lambda: Hdfs(tmp_path_factory.mktemp("hdfs"))) as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = big_state.spark_session()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def checkpoint(num_keys: int) -> Path:
    return big_state.checkpoint(num_keys=num_keys)


_REPORT = Report()


@pytest.fixture(scope="session")
def report() -> Report:
    """What the run found, shown at its end."""
    return _REPORT


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _REPORT.rows:
        terminalreporter.section("side by side")
        terminalreporter.write_line("\n".join(_REPORT.lines()))
