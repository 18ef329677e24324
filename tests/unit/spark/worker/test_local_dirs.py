"""Spark's folders on a host, beside which local images are stored."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from hdfsstore.spark.worker import local_dirs
from hdfsstore.spark.worker.local_dirs import local_dir, spark_dirs, temporary_dir


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    made = [str(tmp_path / name) for name in ("a", "b", "c")]
    for folder in made:
        Path(folder).mkdir()
    return made


def test_the_folders_are_those_that_spark_takes(folders: list[str]) -> None:
    a, b, c = folders
    yarn = {"CONTAINER_ID": "container_1", "LOCAL_DIRS": f"{a},{b}"}
    standalone = {"SPARK_EXECUTOR_DIRS": f"{b}{os.pathsep}{c}"}
    assert spark_dirs(yarn | standalone, ".") == [a, b]
    assert spark_dirs({"LOCAL_DIRS": a} | standalone, ".") == [b, c]
    assert spark_dirs({"SPARK_LOCAL_DIRS": f"{c}/blockmgr-1,{a}/blockmgr-2"}, ".") == [c, a]
    assert spark_dirs({"SPARK_LOCAL_DIRS": f"{c}/blockmgr-1"}, f"{a}/userFiles-1") == [a]  # local mode
    assert spark_dirs({"SPARK_LOCAL_DIRS": f"{a}/none/blockmgr-1,{b}/blockmgr-2"}, ".") == [b]
    assert spark_dirs({}, ".") == []


def test_each_user_and_application_has_a_folder_and_a_disk_comes_before_memory(
    folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", os.pathsep.join(folders))
    monkeypatch.setattr("pyspark.SparkFiles.getRootDirectory", lambda: ".")
    name = f"hdfsstore-{os.geteuid()}-app-1"
    assert local_dir("app-1") == f"{folders[0]}/{name}"
    assert {temporary_dir() for _ in range(200)} == set(folders)
    monkeypatch.setattr(local_dirs, "is_in_memory", lambda folder: folder == folders[0])
    assert local_dir("app-1") == f"{folders[1]}/{name}"
    assert {temporary_dir() for _ in range(200)} == set(folders[1:])
    monkeypatch.setattr(local_dirs, "is_in_memory", lambda _: True)
    assert local_dir("app-1") == f"{folders[0]}/{name}"
    monkeypatch.delenv("SPARK_EXECUTOR_DIRS")
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert local_dir("app-1") is None
    assert temporary_dir() == tempfile.gettempdir()
