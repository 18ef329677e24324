"""A stateful query with its checkpoint on s3a, and credentials given the Hadoop way alone. The key is in nothing that
the run leaves behind or says, and the checkpoint is opened in place."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import hdfsstore
from tests.services import java, s3a
from tests.services.fixtures import needed
from tests.services.hdfs_node import write_xml
from tests.services.minio import PASSWORD, Minio
from tests.services.places import BUCKET

ROOT = Path(__file__).parents[2]
# Two executors, each in a JVM of its own.
_MASTER = "local-cluster[2,1,1024]"
# What a key looks like in files of Java and Python: as it is, and in UTF-16.
KEYS = (PASSWORD.encode(), PASSWORD.encode("utf-16-le"), PASSWORD.encode("utf-16-be"))


@pytest.fixture(scope="module")
def run(minio: Minio, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, str]:
    """The checkpoint, the folder with all that the driver and the executors wrote, and what the driver said."""
    needed(s3a.jars)
    folder = tmp_path_factory.mktemp("s3a")
    conf, left = folder / "conf", folder / "left"
    conf.mkdir()
    for name in ("events", "input", "tmp"):
        (left / name).mkdir(parents=True)
    # Executors have their folders in Spark's.
    home = left / "spark"
    home.mkdir()
    for entry in java.spark_jars().parent.iterdir():
        (home / entry.name).symlink_to(entry)
    write_xml(conf / "core-site.xml", minio.storage_options())
    checkpoint = f"s3a://{BUCKET}/{uuid.uuid4()}/cp"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")} | {
        "HADOOP_CONF_DIR": str(conf),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(left / "tmp"),
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, "-m", "tests.integration.s3a_driver", _MASTER, checkpoint, str(left)]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if " DEBUG " not in line)[-5000:]
    return checkpoint, left, done.stdout + done.stderr


def test_the_key_is_in_no_file_log_or_message_of_a_run(run: tuple[str, Path, str], minio: Minio) -> None:
    _, left, said = run
    assert PASSWORD not in said
    files = [path for path in left.rglob("*") if path.is_file() and not path.is_symlink()]
    for kind in ("seen-*", "rest-*", "events/**/*"):
        assert [path for path in left.glob(kind) if path in files], kind
    assert any("hdfsstore" in path.read_text("utf-8", "replace") for path in files if path.name == "driver.log")
    assert any(b"SparkListenerTaskEnd" in path.read_bytes() for path in left.glob("events/**/*") if path in files)
    assert [path for path in files if any(key in path.read_bytes() for key in KEYS)] == []
    in_bucket = [path for path in minio.data.rglob("*") if path.is_file() and ".minio.sys" not in path.parts]
    assert len(in_bucket) > 10
    assert [path for path in in_bucket if any(key in path.read_bytes() for key in KEYS)] == []


def test_the_checkpoint_is_opened_in_place(run: tuple[str, Path, str], minio: Minio) -> None:
    checkpoint, _, _ = run
    opened = hdfsstore.Checkpoint(f"{checkpoint}/hdfsstore", storage_options=minio.storage_options())
    rows = opened.read_state().to_pylist()
    assert {row["key"]["user"]: row["value"]["groupState"]["total"] for row in rows} == {"ann": 3, "bob": 30}
    assert PASSWORD not in repr(opened)
