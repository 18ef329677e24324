"""Repairs that are killed at each call that writes.

After each kill the checkpoint is the old one, or the new one, or has a guard that makes Spark refuse it. A second run
ends the work, and an undo takes it back. A new checkpoint is not there, or whole, or has a guard.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import Checkpoint
from hdfsstore.repair.backup import FOLDER
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import edit, fork, repartition
from tests.faults import needs, repairs
from tests.faults.server import Server
from tests.faults.shim import Action, Fault
from tests.support.truth import DATA
from tests.unit.repair.folders import content, records, swapped

pytestmark = needs.shim

AGAIN = {"sink_accepts_batches_again": True}
# The batch, and how.
REWINDS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "moved": ("aggregation", 2, AGAIN),
    "merged": ("aggregation", 1, {"replay_merged": True, **AGAIN}),
    "added": ("aggregation", 1, {"continue_numbers": True}),
    "added behind a begun batch": ("unfinished_batch", 1, {"continue_numbers": True}),
    "moved in RocksDB": ("rocksdb_unique_ids", 1, AGAIN),
    "added to RocksDB": ("rocksdb_unique_ids", 1, {"continue_numbers": True}),
}
# Each n-th call is one at which a process is killed. The others are for the long run.
STEP = 1 if os.environ.get("HDFSSTORE_REPAIR_MATRIX") else 11


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("tests.faults.repairs") as started:
        yield started


def without_times(files: dict[str, bytes]) -> dict[str, bytes]:
    """Without what is another in each run: unique ids, and the names and the zips that have them."""
    return {name: data for name, data in files.items() if name.partition("/")[0] in ("offsets", "metadata", "sources")}


def committed(root: Path) -> list[int]:
    return [batch.batch_id for batch in Checkpoint(root).batches if batch.committed]


def kills(server: Server, root: Path, begin: Path, *call: Any) -> Iterator[str]:
    """Kills a call at each STEP-th call that writes, before it and half-way through; a new copy each time."""
    at = 1
    while True:
        for action in (Action.KILL_BEFORE, Action.KILL_HALF_WAY):
            shutil.rmtree(root, ignore_errors=True)
            shutil.copytree(begin, root)
            outcome = server.run(*call, fault=Fault(str(root), action, at))
            assert outcome.error is None, outcome.error
            if not outcome.killed:
                return
            yield outcome.what
        at += STEP


@pytest.mark.parametrize("name", REWINDS)
def test_a_rewind_is_killed_at_any_call(server: Server, tmp_path: Path, name: str) -> None:
    case, to, options = REWINDS[name]
    begin, root, ended = DATA / "spark-4.3.0" / case / "checkpoint", tmp_path / "checkpoint", tmp_path / "ended"
    old = content(begin)
    shutil.copytree(begin, ended)
    rewind(ended, to, **options)
    new, batches = without_times(content(ended)), committed(ended)
    seen: Counter[str] = Counter()
    for number, what in enumerate(kills(server, root, begin, repairs.set_back, str(root), to, options)):
        guarded = Checkpoint(root).repair is not None
        state = "guarded" if guarded else "old" if content(root) == old else "new"
        seen[state] += 1
        if state == "new":
            assert without_times(content(root)) == new, what
        if number % 2 and state != "old":
            undo(root)
            assert content(root) == old, what
        else:
            if state != "new":
                rewind(root, to, **options)
            assert without_times(content(root)) == new, what
            assert committed(root) == batches
            for batch_id in batches:
                Checkpoint(root).read_state(batch_id=batch_id)
            undo(root)
            assert content(root) == old, what
    assert min(seen["guarded"], seen["old"]) > 0


@pytest.mark.parametrize("name", ["moved", "added to RocksDB"])
def test_a_rewind_that_loses_its_rights_at_any_call(server: Server, tmp_path: Path, name: str) -> None:
    case, to, options = REWINDS[name]
    begin, root = DATA / "spark-4.3.0" / case / "checkpoint", tmp_path / "checkpoint"
    old, seen = content(begin), Counter[str]()
    for at in itertools.count(1, STEP):
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(begin, root)
        fault = Fault(str(root), Action.FAIL_FROM, at, errno.EACCES)
        error = server.run(repairs.set_back, str(root), to, options, fault=fault).error
        if error is None:
            break
        assert "hdfsstore.errors.StateStoreError" in error
        assert "Permission denied" in error
        seen["guarded" if Checkpoint(root).repair is not None else "other"] += 1
        if content(root) == old or at % 2:
            rewind(root, to, **options)
        undo(root)
        assert content(root) == old
    assert min(seen["guarded"], seen["other"]) > 0


@pytest.mark.parametrize("name", ["merged", "added to RocksDB"])
def test_an_undo_is_killed_at_any_call(server: Server, tmp_path: Path, name: str) -> None:
    case, to, options = REWINDS[name]
    whole, begin, root = DATA / "spark-4.3.0" / case / "checkpoint", tmp_path / "begin", tmp_path / "checkpoint"
    shutil.copytree(whole, begin)
    rewind(begin, to, **options)
    old, new = content(whole), content(begin)
    seen: Counter[str] = Counter()
    for what in kills(server, root, begin, repairs.take_back, str(root)):
        guarded = Checkpoint(root).repair is not None
        seen["guarded" if guarded else "other"] += 1
        if not guarded:
            assert content(root) in (old, new), what
        if guarded or content(root) == new:
            undo(root)
        assert content(root) == old, what
    assert seen["guarded"] > 0


@pytest.mark.parametrize("case", ["unfinished_batch", "rocksdb_unique_ids"])
def test_a_new_checkpoint_is_killed_at_any_call(server: Server, tmp_path: Path, case: str) -> None:
    source, begin, root = DATA / "spark-4.3.0" / case / "checkpoint", tmp_path / "begin", tmp_path / "new"
    options = {"keep_query_id": True, "keep_begun": True}
    begin.mkdir()
    fork(source, tmp_path / "whole", **options)
    whole, newest = without_times(content(tmp_path / "whole")), committed(tmp_path / "whole")[-1]
    state = records(tmp_path / "whole", newest)
    seen: Counter[str] = Counter()
    for what in kills(server, root, begin, repairs.copy, str(source), str(root), options):
        kind = "nothing" if not content(root) else "whole" if Checkpoint(root).repair is None else "guarded"
        seen[kind] += 1
        if kind != "whole":
            fork(source, root, **options)
        assert without_times(content(root)) == whole, what
        assert records(root, newest) == state, what
    assert seen["guarded"] > 0


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_unique_ids"])
@pytest.mark.parametrize("verb", ["edit", "repartition", "convert"])
def test_what_adds_a_batch_is_killed_at_any_call(server: Server, tmp_path: Path, verb: str, case: str) -> None:
    begin, root, ended = DATA / "spark-4.3.0" / case / "checkpoint", tmp_path / "checkpoint", tmp_path / "ended"
    change: Any = {
        "edit": Edit(rows=swapped(Checkpoint(begin).read_state(unique_names=True))),
        "repartition": 3,
        "convert": "rocksdb" if case == "aggregation" else "hdfs",
    }[verb]
    shutil.copytree(begin, ended)
    repairs.add_batch(None, str(ended), verb, change)
    old, new, newest = content(begin), without_times(content(ended)), committed(ended)[-1]
    state = records(ended, newest)
    seen: Counter[str] = Counter()
    for number, what in enumerate(kills(server, root, begin, repairs.add_batch, str(root), verb, change)):
        kind = "guarded" if Checkpoint(root).repair is not None else "old" if content(root) == old else "new"
        seen[kind] += 1
        if number % 2 == 0 or kind == "old":
            if kind != "new":
                repairs.add_batch(None, str(root), verb, change)
            assert without_times(content(root)) == new, what
            assert records(root, newest) == state, what
        undo(root)
        assert content(root) == old, what
    assert seen["guarded"] > 0


def test_an_undo_by_force_is_killed_at_any_call(server: Server, tmp_path: Path) -> None:
    """The query has gone on from another number of partitions."""
    whole, begin, root = DATA / "spark-4.3.0/rocksdb_unique_ids/checkpoint", tmp_path / "begin", tmp_path / "checkpoint"
    shutil.copytree(whole, begin)
    repartition(begin, None, 3)
    edit(begin, None, Edit(remove="partition_id = 0"))
    shutil.rmtree(max((begin / FOLDER).iterdir()))
    old, gone_on = content(whole), content(begin)
    for what in kills(server, root, begin, repairs.take_back, str(root), True):
        repair, there = Checkpoint(root).repair, content(root)
        if repair is None and there not in (old, gone_on):
            newest = committed(root)[-1]
            assert newest == committed(begin)[-1] - 1, what  # what came since is set aside
            assert records(root, newest) == records(begin, newest), what
        if repair is not None or there != old:
            undo(root, force=True)
        assert content(root) == old, what
        kept = {path.read_bytes() for path in root.rglob("*") if path.is_file()}
        assert not set(gone_on.values()) - kept, what
