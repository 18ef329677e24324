"""What tests on MinIO and on a real Spark share."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hdfsstore.fs.hdfs.settings import CLIENT_NAMES, ClientName
from tests.integration.s3_managers import BUCKET
from tests.services import java, s3a
from tests.services.certificates import make_trust_store
from tests.services.fault_proxy import FaultProxy
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.spark.support.java import use_java

ROOT = Path(__file__).parents[2]
PARTITIONS = 2


@pytest.fixture
def folder() -> str:
    """A folder of the bucket that no other test uses. Tests of other places have their own."""
    return f"{BUCKET}/{uuid.uuid4()}"


@pytest.fixture
def proxy(minio: Minio) -> Iterator[FaultProxy]:
    """Stands before MinIO, and writes down the requests."""
    with FaultProxy(minio.port) as running:
        yield running


@pytest.fixture(params=CLIENT_NAMES)
def client(request: pytest.FixtureRequest) -> ClientName:
    """Each client of HDFS in turn."""
    if request.param == "libhdfs":
        request.getfixturevalue("libhdfs")
    name: ClientName = request.param
    return name


@pytest.fixture(scope="session")
def spark(
    tmp_path_factory: pytest.TempPathFactory, hdfs: Hdfs, minio: Minio, secure_minio: Minio
) -> Iterator[SparkSession]:
    """The one session of a run, with Hadoop's settings of both storages. It trusts the MinIO with TLS, too."""
    folder = tmp_path_factory.mktemp("spark")
    trust, ca = folder / "trust", secure_minio.ca_file
    assert ca is not None
    make_trust_store(trust, ca)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(
            [*java.QUICK_START, "-Duser.timezone=UTC", f"-Djavax.net.ssl.trustStore={trust}"]
        ),
        **java.TINY_PLANS,
        "spark.executorEnv.AWS_CA_BUNDLE": str(ca),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.jars": ",".join(map(str, s3a.jars())),
        "spark.hadoop.dfs.replication": hdfs.client_conf["dfs.replication"],
        **{f"spark.hadoop.{name}": value for name, value in minio.storage_options().items()},
    }
    with pytest.MonkeyPatch.context() as environ:
        use_java(environ)
        environ.setenv("PYSPARK_PYTHON", sys.executable)
        environ.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        environ.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Spark's workers import the modules that hold the tests' functions.
        environ.setenv("PYTHONPATH", str(ROOT))
        builder = SparkSession.builder.master("local[2]").appName("hdfsstore tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
