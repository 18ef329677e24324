"""Where libhdfs and what it needs are looked for."""

from __future__ import annotations

import os
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs import libhdfs_library
from hdfsstore.fs.hdfs.choose_client import choose
from hdfsstore.fs.hdfs.libhdfs_library import find_libhdfs, prepare_environment
from hdfsstore.fs.hdfs.settings import HdfsSettings


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ARROW_LIBHDFS_DIR", "HADOOP_HOME", "CLASSPATH", "HADOOP_CONF_DIR", "SPARK_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    libhdfs_library.classes.cache_clear()


def test_without_a_library_hdfs_native_is_chosen() -> None:
    assert find_libhdfs() is None
    assert choose(HdfsSettings.of("nn:8020", {})).name.startswith("hdfs-native ")


def test_a_file_that_is_no_library_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libhdfs.so").write_bytes(b"no library")
    monkeypatch.setenv("ARROW_LIBHDFS_DIR", str(tmp_path))
    assert find_libhdfs() is None


def test_libhdfs_that_is_asked_for_and_missing_is_an_error_with_a_remedy() -> None:
    with pytest.raises(StateStoreError, match="HADOOP_HOME"):
        choose(HdfsSettings.of("nn:8020", {}, client="libhdfs"))


def test_classes_are_those_of_hadoop_before_those_of_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "hadoop"
    command.parent.mkdir()
    command.write_text('#!/bin/sh\necho "$*:/opt/hadoop.jar"\n')
    command.chmod(0o755)
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    prepare_environment()
    assert os.environ["CLASSPATH"] == "classpath --glob:/opt/hadoop.jar"


def test_a_hadoop_that_cannot_be_run_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "bin" / "hadoop"
    command.parent.mkdir()
    command.write_text("no command")
    monkeypatch.setenv("HADOOP_HOME", str(tmp_path))
    prepare_environment()
    assert "hadoop-client-api" in os.environ["CLASSPATH"]


def test_classes_of_pyspark_stand_behind_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    prepare_environment()
    first, *jars = os.environ["CLASSPATH"].split(":")
    assert first == "/etc/hadoop"
    assert any("hadoop-client-api" in jar for jar in jars)


def test_a_worker_of_spark_whose_pyspark_is_in_a_zip_file_finds_the_jars_of_its_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModuleSpec("pyspark", None, origin=str(tmp_path / "python/lib/pyspark.zip/pyspark/__init__.py"))
    monkeypatch.setattr(libhdfs_library, "find_spec", lambda _: spec)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert libhdfs_library.classes() is None  # not the configuration alone
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "hadoop-client-api.jar").touch()
    libhdfs_library.classes.cache_clear()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert libhdfs_library.classes() == f"/etc/hadoop:{tmp_path}/jars/hadoop-client-api.jar"


def test_a_class_path_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLASSPATH", "/mine.jar")
    prepare_environment()
    assert os.environ["CLASSPATH"] == "/mine.jar"
