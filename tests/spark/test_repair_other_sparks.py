"""Other Sparks than the newest go on from what the verbs write. Only `make test-all` gets these Sparks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hdfsstore.repair import Report, convert, fork, repartition, rewind
from tests.data.generate.environments import ENVIRONMENTS
from tests.spark.support.java import use_java
from tests.spark.support.repairs import middle_of, states, stopped

ROOT = Path(__file__).parents[2]
Outputs = dict[int, list[str]]
CASES = {
    "3.5.9": ("aggregation", "rocksdb_join_left_outer", "rocksdb_session_window"),
    "4.1.4": ("aggregation", "rocksdb_join_format3", "transform_structures"),
}


class OtherSpark:
    """A process of another Spark."""

    def __init__(self, release: str, folder: Path) -> None:
        environment = ENVIRONMENTS[release]
        environment.create()
        environ = {**os.environ, "PYTHONPATH": str(ROOT), "TZ": "UTC"}
        for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
            environ.pop(name, None)
        command = [str(environment.interpreter), "-m", "tests.spark.support.other_spark", str(folder)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, case: str, checkpoint: Path, confs: dict[str, str] | None = None) -> Outputs:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"case": case, "checkpoint": str(checkpoint), "confs": confs or {}}
        self._process.stdin.write(f"{json.dumps(asked)}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"Spark has ended while it ran {case} on {checkpoint}"
        return {int(number): rows for number, rows in json.loads(line).items()}

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@pytest.fixture(scope="module", params=CASES)
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, OtherSpark]]:
    with pytest.MonkeyPatch.context() as environ:
        use_java(environ)
        spark = OtherSpark(request.param, tmp_path_factory.mktemp("other"))
        yield request.param, spark
        spark.close()


@pytest.mark.parametrize("at", range(3))
def test_another_spark_goes_on(other: tuple[str, OtherSpark], tmp_path: Path, at: int) -> None:
    release, spark = other
    case = CASES[release][at]
    whole = tmp_path / "whole"
    outputs, state, middle = spark.run(case, whole), states(whole), middle_of(whole)

    def rest(outputs: Outputs) -> list[list[str]]:
        return [rows for number, rows in sorted(outputs.items()) if number > middle and rows]

    expected = rest(outputs)
    assert expected, "the query puts something out after a restart"

    to_new: dict[str, Callable[[Path, Path], object]] = {
        "fork": fork,
        "repartition": lambda old, new: repartition(old, new, 3),
    }
    if "format3" not in case and not case.startswith("transform_"):
        to_new["convert"] = lambda old, new: convert(old, new, "hdfs" if case.startswith("rocksdb") else "rocksdb")
    for name, verb in to_new.items():
        source, new = stopped(whole, middle, tmp_path / f"{name} source"), tmp_path / name
        report = verb(source, new)
        assert isinstance(report, Report)
        assert rest(spark.run(case, new, report.session)) == expected, name
        assert states(new) == state, name

    back = shutil.copytree(whole, tmp_path / "rewind")
    rewind(back, middle, replay=True, sink_accepts_batches_again=True)
    assert rest(spark.run(case, back)) == expected
    assert states(back) == state

    added = stopped(whole, middle, tmp_path / "in place")
    repartition(added, None, 3)
    assert rest(spark.run(case, added)) == expected
    assert states(added) == state
