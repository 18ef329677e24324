"""Hadoop's FileSystem, as it is called in the JVM that libhdfs starts (hdfsstore/fs/hdfs/java_files.py)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hdfsstore.fs.hdfs.libhdfs_library import classes, prepare_environment
from tests.spark.support.java import use_java


def test_files_of_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_java(monkeypatch)
    monkeypatch.setenv("CLASSPATH", "")
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    if not os.environ["JAVA_HOME"]:
        monkeypatch.delenv("JAVA_HOME")
    classes.cache_clear()  # a test of where they are may have left others
    prepare_environment()
    call = [sys.executable, "-m", "tests.spark.support.java_files", str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    outcomes = {"new": "done", "taken": "FileExistsError", "over": "done", "gone": "FileNotFoundError"}
    names = ["plain", "\u00fc", "\U0001f986"]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        **{f"{name} {what}": each for name in names for what, each in outcomes.items()},
        "threads": "done",
        "infos": ["File 1 True", "Directory None True", "FileNotFoundError"],
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "race"])
    assert [(tmp_path / name).read_text() for name in names] == ["2"] * 3
