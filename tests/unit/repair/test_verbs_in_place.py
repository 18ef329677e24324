"""Repartition, convert and edit in place: a batch is added, and an undo takes it away."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint
from hdfsstore.errors import CorruptFileError, RepairError, RepairUnderWayError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.repair import in_place
from hdfsstore.repair.backup import DONE, FOLDER, Backup
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.plan import Plan, Report
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.sink_log import SinkLog
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import convert, edit, repartition
from hdfsstore.repair.verify import verify
from tests.support.rows import counted
from tests.unit.repair.folders import content, copy_of, records

Verb = Callable[..., Plan]
CASES = ("aggregation", "join_left_outer", "rocksdb_aggregation", "rocksdb_unique_ids", "transform_with_state")
VERBS: dict[str, tuple[str, Verb]] = {
    **{f"repartition {case}": (case, partial(repartition, partitions=3)) for case in CASES},
    "convert to RocksDB": ("aggregation", partial(convert, provider="rocksdb")),
    "convert to HDFS-backed": ("rocksdb_aggregation", partial(convert, provider="hdfs")),
    "edit": ("aggregation", partial(edit, change=Edit(remove="partition_id = 0"))),
}


def rows(root: Path, batch_id: int) -> list[Any]:
    """The rows of every plain store after a batch, wherever they are."""
    checkpoint = Checkpoint(root)
    return [
        counted(checkpoint.read_state(operator.operator_id, store.name, batch_id).drop_columns(["partition_id"]))
        for operator in checkpoint.operators
        for store in operator.stores
        if not store.has_families
    ]


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_in_place_adds_a_batch_and_an_undo_takes_it_away(name: str, tmp_path: Path) -> None:
    case, verb = VERBS[name]
    root = copy_of(case, tmp_path / "copy")
    before, newest = content(root), Checkpoint(root).latest_batch_id
    state = rows(root, newest)
    plan = verb(root, None, dry_run=True)
    assert not isinstance(plan, Report)
    assert content(root) == before
    report = verb(root, None)
    assert isinstance(report, Report)
    assert report.verified
    assert report.to is None
    assert report.files == plan.files
    assert Checkpoint(root).latest_batch_id == newest + 1
    assert before.items() <= content(root).items(), "a file was replaced"
    assert rows(root, newest) == state
    if name == "edit":
        assert 0 in Checkpoint(root).read_state(batch_id=newest)["partition_id"].to_pylist()
        assert 0 not in Checkpoint(root).read_state()["partition_id"].to_pylist()
    else:
        assert rows(root, newest + 1) == state
    conf = Checkpoint(root).batch(newest + 1).conf
    assert {key: (Checkpoint(root).batch(newest).conf.get(key), conf[key]) for key in report.conf} == report.conf
    undo(root)
    assert content(root) == before
    assert rows(root, newest) == state


@pytest.mark.parametrize("name", VERBS)
def test_a_damaged_source_is_left_as_it_is(name: str, tmp_path: Path) -> None:
    case, verb = VERBS[name]
    root = copy_of(case, tmp_path / "copy")
    changes = [path for path in root.glob("state/0/0/**/[0-9]*") if path.suffix in (".delta", ".changelog")]
    changes = changes or list(root.glob("state/0/0/*.zip"))  # where a query writes no changelogs
    state = max(changes, key=lambda path: int(path.name.partition(".")[0].partition("_")[0]))
    data = bytearray(state.read_bytes())
    data[len(data) // 2] ^= 1
    state.write_bytes(data)
    damaged = content(root)
    for to in (None, tmp_path / "new"):
        with pytest.raises(CorruptFileError) as raised:
            verb(root, to)
        assert raised.value.path
        assert raised.value.path.startswith(str(root / "state"))
    assert content(root) == damaged
    assert not (root / FOLDER).exists()
    with pytest.raises(RepairUnderWayError, match="a new checkpoint is being written"):
        Checkpoint(tmp_path / "new").read_state()


def test_a_killed_verb_is_ended_by_the_same_one_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    before = content(root)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Backup, "note_written", killed)
        with pytest.raises(KeyboardInterrupt):
            repartition(root, None, 3)
    assert "`repartition` is changing the checkpoint" in str(Checkpoint(root).repair)
    for other in (partial(repartition, partitions=4), partial(convert, provider="rocksdb")):
        with pytest.raises(RepairUnderWayError):
            other(root, None)
    report = repartition(root, None, 3)
    assert in_place.RESUMED in report.notes
    assert Checkpoint(root).operator().store().num_partitions == 3
    undo(root)
    assert content(root) == before


@pytest.mark.parametrize("end", ["the same verb", "undo"])
def test_a_verb_that_was_killed_right_before_it_lifts_its_guard_is_ended_or_undone(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    before = content(root)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(in_place, "publish", killed)  # all is written, and the backup is marked as done
        with pytest.raises(KeyboardInterrupt):
            repartition(root, None, 3)
    assert list(root.glob(f"{FOLDER}/*/{DONE}"))
    checked = verify(root)
    assert checked.sound
    assert any("`repartition` is changing the checkpoint" in note for note in checked.notes)
    with pytest.raises(RepairUnderWayError):
        repartition(root, None, 4)
    if end == "undo":
        assert "`repartition` has not ended" in undo(root).notes
        assert content(root) == before
        return
    assert in_place.RESUMED in repartition(root, None, 3).notes
    assert Checkpoint(root).operator().store().num_partitions == 3
    assert verify(root).sound
    undo(root)
    assert content(root) == before


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_aggregation", "rocksdb_unique_ids"])
def test_an_undo_by_force_keeps_all_that_was_written_since(case: str, tmp_path: Path) -> None:
    root = copy_of(case, tmp_path / "copy")
    before, newest = content(root), Checkpoint(root).latest_batch_id
    repartition(root, None, 3)
    edit(root, None, Edit(remove="partition_id = 0"))
    shutil.rmtree(max((root / FOLDER).iterdir()))  # so it is a batch that the query has run
    gone_on, state = content(root), records(root, newest + 2)
    with pytest.raises(RepairError, match=f"gone on since `repartition`: batch {newest + 2}"):
        undo(root)
    undo(root, force=True)
    assert content(root) == before
    for backup in (root / FOLDER).iterdir():
        for kept in ("moved", "new"):
            if (backup / kept / "checkpoint").is_dir():
                shutil.copytree(backup / kept / "checkpoint", root, dirs_exist_ok=True)
    assert content(root) == gone_on
    assert records(root, newest + 2) == state


def test_the_last_repair_is_undone_first_whatever_the_clocks_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one is of another machine, whose clock is behind."""
    root = copy_of("rocksdb_unique_ids", tmp_path / "copy")
    before, newest = content(root), Checkpoint(root).latest_batch_id
    repartition(root, None, 3)
    between = content(root)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 1_000_000_000_000_000_000)
        rewind(root, newest, sink_accepts_batches_again=True)
        assert Checkpoint(root).latest_batch_id == newest
    undo(root)
    assert content(root) == between
    undo(root)
    assert content(root) == before


def test_a_function_that_makes_other_rows_does_not_end_the_work_of_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    before, rows = content(root), Checkpoint(root).read_state(unique_names=True)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Backup, "note_written", killed)
        with pytest.raises(KeyboardInterrupt):
            edit(root, None, Edit(function=lambda rows: rows.slice(0, 1)))
    for other in (Edit(function=lambda rows: rows.slice(1, 1)), Edit(rows=rows.slice(0, 1))):
        with pytest.raises(RepairUnderWayError):
            edit(root, None, other)
    calls: list[int] = []
    edit(root, None, Edit(function=lambda rows: calls.append(len(rows)) or rows.slice(0, 1)))
    assert calls == [len(rows)], "what was planned is what is written"
    assert counted(Checkpoint(root).read_state(unique_names=True)) == counted(rows.slice(0, 1))
    undo(root)
    assert content(root) == before


def test_progress_tells_of_how_many_rows_where_that_is_known(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    told: Counter[tuple[str, int | None]] = Counter()

    def tell(what: str, rows: int, total: int | None = None, /) -> None:
        told[what.removeprefix("operator 0, default: "), total] += rows

    repartition(root, None, 3, progress=tell)
    assert told == {("reading", None): 8, ("reading", 8): 8, ("writing", None): 0, ("reading back", 8): 8}


@pytest.mark.parametrize(
    ("case", "may"),
    [("aggregation", False), ("window_aggregation", True), ("drop_duplicates", True), ("query_evolution", False)],
)
def test_the_plan_speaks_of_a_file_sink_where_there_may_be_one(case: str, may: bool, tmp_path: Path) -> None:
    notes = repartition(copy_of(case, tmp_path / "copy"), None, 3, dry_run=True).notes
    assert any("--file-sink" in note for note in notes) == may


def test_a_function_without_a_name_edits_in_place(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    edit(root, None, Edit(function=partial(pa.Table.slice, length=1)))
    assert Checkpoint(root).read_state().num_rows == 1


def test_a_batch_that_was_begun_is_refused_unless_it_is_dropped(tmp_path: Path) -> None:
    root = copy_of("unfinished_batch", tmp_path / "copy")
    before = content(root)
    with pytest.raises(RepairError, match="--drop-begun"):
        repartition(root, None, 3)
    with pytest.raises(RepairError, match="cannot be kept"):
        repartition(root, None, 3, keep_begun=True)
    repartition(root, None, 3, drop_begun=True)
    checkpoint = Checkpoint(root)
    assert checkpoint.latest_batch_id == 3
    assert checkpoint.batch(3).offsets == checkpoint.batch(2).offsets
    undo(root)
    assert content(root) == before


@pytest.mark.parametrize(
    ("there", "batch_id", "name", "lines"),
    [
        (["0", "1"], 2, "2", []),
        ([str(number) for number in range(9)], 9, "9.compact", [f"of {number}" for number in range(9)]),
        (["0", "1", "2.compact", "3", "4"], 5, "5.compact", ["of 2", "of 3", "of 4"]),
        (["9.compact", "19.compact", "20"], 21, "21", []),
        (["2.compact", "5.compact", "6", "7"], 8, "8.compact", ["of 5", "of 6", "of 7"]),
    ],
)
def test_the_entry_of_a_batch_in_a_sinks_log(
    tmp_path: Path, there: list[str], batch_id: int, name: str, lines: list[str]
) -> None:
    folder = tmp_path / "_spark_metadata"
    folder.mkdir()
    for each in there:
        (folder / each).write_text(f"v1\nof {each.removesuffix('.compact')}")
    [(path, entry)] = SinkLog(LocalFileManager(), str(tmp_path)).empty_entries([batch_id])
    assert path == f"_spark_metadata/{name}"
    assert entry.decode().split("\n") == ["v1", *lines]


def test_a_sinks_log_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "_spark_metadata"
    folder.mkdir()
    for name in ("0", "2", "3"):
        (folder / name).write_text("v1")
    log = SinkLog(LocalFileManager(), str(tmp_path))
    assert log.later(1) == ["_spark_metadata/3", "_spark_metadata/2"]
    with pytest.raises(RepairError, match="no entry of batch 1"):
        log.after(2)
