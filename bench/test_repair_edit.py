"""An edit of 1,000 rows in place, beside a look at every row of the stores that it edits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hdfsstore
from bench import big_rocksdb, big_state
from bench.cache import work_folder
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore.repair import Edit, edit, undo

NUM_KEYS = (20_000, 2_000_000)
ROWS = 1_000


def opened(checkpoint: Path) -> int:
    """Reads the raw rows of the newest version, and keeps none."""
    state = hdfsstore.Checkpoint(checkpoint).operator_state()
    (store,) = state.operator.stores
    return sum(sum(state.files(store, i).stream(state.version, len)) for i in store.partition_ids)


@pytest.mark.parametrize("provider", ["HDFS-backed", "RocksDB"])
def test_edit_of_few_rows(benchmark: BenchmarkFixture, report: Report, smoke: bool, rounds: int, provider: str) -> None:
    work_of: dict[str, Callable[[], object]] = {}
    outside: dict[str, Callable[[], object]] = {}
    with work_folder() as work:
        for num_keys in NUM_KEYS:
            keys = num_keys // 100 if smoke else num_keys
            made = (
                big_state.checkpoint(big_state.SMALL_DELTAS, keys)
                if provider == "HDFS-backed"
                else big_rocksdb.checkpoint(big_rocksdb.CHANGELOGS, keys)
            )
            copy = shutil.copytree(made, work / str(num_keys))
            change = Edit(rows=hdfsstore.Checkpoint(copy).read_state(unique_names=True).slice(0, ROWS))
            name = f"{keys:,} rows, {provider}"
            work_of[f"{name}: read"] = partial(opened, copy)
            work_of[f"{name}: edit"] = partial(edit, copy, None, change)
            outside[f"{name}: edit"] = partial(undo, copy)
        seconds = side_by_side(work_of, rounds, outside)
        benchmark.pedantic(partial(opened, copy), rounds=1)
    for name in [name.removesuffix(": edit") for name in outside]:
        more = seconds[f"{name}: edit"] - seconds[f"{name}: read"]
        report.add(
            f"{name}: an edit of {ROWS:,}, more than reading the stores", f"{more * 1e3:.0f} ms", "goal: at most 1 s"
        )
