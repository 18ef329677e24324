"""Stateful queries with their checkpoints on HDFS, with both of its clients, and on s3a are killed and go on there.

Credentials are in HADOOP_CONF_DIR alone. Output and state are those of a run without kills (tests/chaos).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.cases import run_cases
from tests.chaos.killed import killed_history
from tests.chaos.query import Settings
from tests.chaos.storage import environ_of
from tests.services.hdfs_node import write_xml
from tests.services.places import Place
from tests.spark.support.java import use_java

pytestmark = pytest.mark.spark
# Tasks and their workers; the last is killed when its state is committed.
TASKS = ("raise-function", "kill-function", "kill-output")


@pytest.fixture(autouse=True)
def storage(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf_dir = tmp_path / "conf"
    conf_dir.mkdir()
    hadoop = {name: value for name, value in place.storage_options.items() if name not in ("client", "timeout")}
    if place.storage_options.get("client") == "libhdfs":
        hadoop["dfs.client.socket-timeout"] = "60000"  # as it is: for each other configuration there is another client
        without_hdfs_native(tmp_path / "modules", monkeypatch)
    write_xml(conf_dir / "core-site.xml", hadoop)
    for name, value in environ_of(place.uri, conf_dir).items():
        monkeypatch.setenv(name, value)
    use_java(monkeypatch)


def without_hdfs_native(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started from now on have no such module: drivers and workers find libhdfs, or fail."""
    folder.mkdir()
    (folder / "hdfs_native.py").write_text("raise ImportError('none here')")
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.parametrize(
    ("place", "tasks"), [("hdfs", TASKS), ("libhdfs", TASKS[-1:]), ("minio", TASKS)], indirect=["place"]
)
def test_tasks_and_workers(tasks: tuple[str, ...], tmp_path: Path) -> None:
    assert run_cases("local", tmp_path, *tasks) == dict.fromkeys(tasks)


@pytest.mark.parametrize(
    ("place", "step"), [("hdfs", "in the sink"), ("minio", "before Spark's commit")], indirect=["place"]
)
def test_drivers(step: str, tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    killed_history(tmp_path, 1, done, [step], Settings("mapWithState", "EventTimeTimeout"))
    assert done == {f"SIGKILL of the driver {step}": 1}
