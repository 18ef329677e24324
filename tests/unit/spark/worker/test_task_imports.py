"""The modules that each new Python worker imports for a task."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Installed with extras, or large: pandas alone takes longer than all else together.
OTHERS = ("pandas", "msgpack", "rocksdict", "duckdb", "typer", "rich", "fsspec")


@pytest.mark.parametrize("engine", ["arrow_engine", "rows_engine"])
def test_a_task_imports_nothing_that_it_may_not_need(engine: str) -> None:
    script = (
        "import sys, pyspark.worker\n"
        "before = set(sys.modules)\n"
        f"import hdfsstore.spark.worker.task, hdfsstore.spark.worker.{engine}\n"
        "print(*(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert f"hdfsstore.spark.worker.{engine}" in imported
    assert not imported & set(OTHERS)
