"""Faults while a query runs: afterwards its output and state are those of a run without them (tests/chaos).

A SparkContext is one a process, and these need others than the rest of the tests: sessions run all their cases in a
process of their own.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.chaos.cases import cases, run_cases
from tests.chaos.deaths import STEPS
from tests.chaos.killed import killed_history
from tests.chaos.query import Settings
from tests.spark.support.java import use_java

_run = cache(run_cases)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    use_java(monkeypatch)


@pytest.mark.parametrize("case", list(cases("local")))
def test_in_a_local_session(folder: Path, case: str) -> None:
    wrong = _run("local", folder / "local")[case]
    assert not wrong, wrong


@pytest.mark.parametrize("case", list(cases("speculation")))
def test_on_a_cluster_that_speculates(folder: Path, case: str) -> None:
    wrong = _run("speculation", folder / "cluster")[case]
    assert not wrong, wrong


def test_no_image_is_left_by_a_cluster_whose_executors_were_killed(folder: Path) -> None:
    _run("speculation", folder / "cluster")
    assert not list((folder / "cluster" / "spark").rglob("*.image"))


def test_a_driver_killed_at_each_step(folder: Path) -> None:
    # Each costs the starts of a Python and a JVM: CI takes every third, and has `make chaos` for the others.
    steps = STEPS[1::3] if os.environ.get("CI") == "true" else STEPS
    done: Counter[str] = Counter()
    killed_history(folder / "killed", 1, done, steps, Settings("mapInArrowWithState", "EventTimeTimeout"))
    assert done == {f"SIGKILL of the driver {step}": 1 for step in steps}
