"""Tests the driver's log: kills at each point, rewinds, fences, retention."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import hdfsstore
from hdfsstore import (
    BatchAlreadyLoggedError,
    CheckpointIdMismatchError,
    CorruptFileError,
    LogMismatchError,
    MissingFileError,
    StateStoreError,
)
from hdfsstore.checkpoint.commit_log import read_commit_log
from hdfsstore.checkpoint.conf import COMPRESSION_CODEC, PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.fs.location import resolve
from hdfsstore.spark.querylog import driver_log
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.querylog.log_entries import Finished, Start, settings_of
from hdfsstore.state.conf import StateStoreConf

PARTITIONS = 2
SETTINGS = settings_of(StateStoreConf(), PARTITIONS)


@dataclass(frozen=True)
class Report:
    base_id: str | None
    new_id: str | None


class Spark:
    """What Spark writes of its side of the checkpoint."""

    def __init__(self, checkpoint: Path) -> None:
        self.checkpoint = checkpoint
        self.rocksdb = False
        checkpoint.mkdir()
        (checkpoint / "metadata").write_text('{"id":"the-query"}')
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir()

    def offsets(self, batch_id: int, run: str = "first") -> bytes:
        """Writes the entry, or leaves it as it is, as Spark does when it runs a batch again."""
        path = self.checkpoint / "offsets" / str(batch_id)
        if not path.exists():
            conf = {**SETTINGS, PROVIDER: ROCKSDB_PROVIDER, "other": "kept"} if self.rocksdb else SETTINGS
            times = {"batchWatermarkMs": 10 * batch_id, "batchTimestampMs": 1000 * (batch_id + 1), "conf": conf}
            path.write_text(f'v1\n{json.dumps(times)}\n{{"run":"{run}"}}')
        return path.read_bytes()

    def commit(self, batch_id: int) -> None:
        (self.checkpoint / "commits" / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def set_back(self, batch_id: int) -> None:
        """What a user does who rewinds: no entry from the batch on is left."""
        for path in self.checkpoint.glob("*s/*"):
            if path.parent.name in ("offsets", "commits") and int(path.name) >= batch_id:
                path.unlink()

    def log(self, **options: object) -> DriverLog:
        return DriverLog(self.checkpoint, PARTITIONS, StateStoreConf(**options))  # type: ignore[arg-type]

    def ours(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self.checkpoint / "hdfsstore" / folder).glob("*"))


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    return Spark(tmp_path / "checkpoint")


def new_id(batch_id: int, attempt: str = "a") -> str:
    return f"{attempt}{batch_id}"


def reports(start: Start, attempt: str = "a") -> dict[int, Report]:
    return {p: Report(base, new_id(start.batch_id, attempt)) for p, base in enumerate(start.base_ids)}


def run(spark: Spark, log: DriverLog, batch_id: int, attempt: str = "a", run: str = "first") -> Start:
    """A batch from start to end."""
    spark.offsets(batch_id, run)
    start = log.begin(batch_id)
    if not start.already_done:
        log.finish(batch_id, reports(start, attempt))
    spark.commit(batch_id)
    return start


def test_batches_one_after_the_other(spark: Spark) -> None:
    log = spark.log()
    assert log.last_finished() is None
    assert run(spark, log, 0) == Start(0, False, (None, None), 0, 1000, 0)
    assert run(spark, log, 1) == Start(1, False, ("a0", "a0"), 10, 2000, 0)
    spark.offsets(2)
    start = log.begin(2)
    assert start == Start(2, False, ("a1", "a1"), 20, 3000, 10)
    log.finish(2, reports(start), next_timeout_ms=77)
    assert log.last_finished() == spark.log().last_finished() == Finished(2, 20, 3000, 77)
    for batch_id in range(3):
        copy = spark.checkpoint / f"hdfsstore/offsets/{batch_id}"
        assert copy.read_bytes() == spark.offsets(batch_id)
    checkpoint = hdfsstore.Checkpoint(spark.checkpoint / "hdfsstore")
    assert checkpoint.query_id == "the-query"
    assert [(b.batch_id, b.committed, b.next_watermark_ms) for b in checkpoint.batches] == [
        (0, True, 0),
        (1, True, 10),
        (2, True, 20),
    ]
    assert checkpoint.batch(2).state_unique_ids == {0: [["a2"], ["a2"]]}


def test_a_batch_is_told_what_is_known_of_those_before_and_whether_it_has_begun(spark: Spark) -> None:
    log = spark.log()
    spark.offsets(0)
    first = log.begin(0)
    assert (first.next_timeout_ms, first.shapes, first.is_repeated) == (None, None, False)
    assert spark.log().begin(0).is_repeated
    log.finish(0, reports(first), next_timeout_ms=77, shapes={"of": [1]})
    spark.commit(0)
    spark.offsets(1)
    for each, is_repeated in ((log, False), (spark.log(), True)):  # the second is a driver after a kill
        start = each.begin(1)
        assert (start.next_timeout_ms, start.shapes, start.is_repeated) == (77, {"of": [1]}, is_repeated)
    log.finish(1, reports(start))
    spark.offsets(2)
    start = spark.log().begin(2)
    assert (start.next_timeout_ms, start.shapes, start.is_repeated) == (None, None, False)


def test_the_copy_says_how_our_state_is_kept(spark: Spark) -> None:
    """Readers of a checkpoint go by the conf of its offsets."""
    spark.rocksdb = True
    run(spark, spark.log(compression_codec="zstd"), 0)
    spark.offsets(1)
    first = spark.log(compression_codec="zstd").begin(1)
    copy = hdfsstore.Checkpoint(spark.checkpoint / "hdfsstore").batch(1)
    assert copy.conf == {**SETTINGS, COMPRESSION_CODEC: "zstd", "other": "kept"}
    assert (copy.watermark_ms, copy.timestamp_ms, copy.offsets) == (10, 2000, ['{"run":"first"}'])
    log = spark.log(compression_codec="lz4")  # of a driver that would write another copy
    assert log.begin(1) == first
    log.finish(1, reports(first))
    assert spark.log().begin(1).already_done
    assert run(spark, spark.log(), 2).base_ids == ("a1", "a1")
    assert not (spark.checkpoint / "hdfsstore/rewound").exists()


def test_killed_at_each_step(spark: Spark) -> None:
    """A new driver after each step of batch 1; batch 0 likewise, by the first lines."""
    spark.offsets(0)
    spark.log().begin(0)  # killed before anything was committed
    start = run(spark, spark.log(), 0)
    assert start.base_ids == (None, None)
    spark.offsets(1)  # killed before step 1
    first = spark.log().begin(1)  # killed after step 1
    leftover = spark.checkpoint / "hdfsstore/commits/.1.12345678-1234-1234-1234-123456789abc.tmp"
    leftover.write_text("half of it")  # killed in step 3
    log = spark.log()
    again = log.begin(1)
    assert first == again == Start(1, False, ("a0", "a0"), 10, 2000, 0)
    log.finish(1, reports(again, "b"))  # killed before step 5
    for _ in range(2):
        done = spark.log().begin(1)
        assert done.already_done
        assert (done.watermark_ms, done.processing_time_ms) == (10, 2000)
    spark.commit(1)
    assert run(spark, spark.log(), 2).base_ids == ("b1", "b1")
    assert not (spark.checkpoint / "hdfsstore/rewound").exists()


def test_a_batch_that_failed_runs_again_in_the_same_driver(spark: Spark) -> None:
    log = spark.log()
    run(spark, log, 0)
    spark.offsets(1)
    assert log.begin(1) == log.begin(1)
    with pytest.raises(CheckpointIdMismatchError, match="and the log holds a0 for it"):
        log.finish(1, {0: Report("a0", "x"), 1: Report("b0", "x")})
    with pytest.raises(StateStoreError, match="2 partitions, and \\[0\\] have reported"):
        log.finish(1, {0: Report("a0", "x")})
    log.finish(1, {0: Report("a0", "x"), 1: Report("a0", "y")})
    with pytest.raises(ValueError, match="batch 1 was not begun"):
        log.finish(1, {})
    assert run(spark, log, 2).base_ids == ("x", "y")


@pytest.mark.parametrize("first_wins", [True, False])
def test_of_two_drivers_one_loses(spark: Spark, first_wins: bool) -> None:
    one, other = spark.log(), spark.log()
    run(spark, one, 0)
    spark.offsets(1)
    starts = [log.begin(1) for log in (one, other)]
    assert starts[0] == starts[1]
    winner, loser = (one, other) if first_wins else (other, one)
    winner.finish(1, reports(starts[0], "winner"))
    with pytest.raises(BatchAlreadyLoggedError, match="Only one may"):
        loser.finish(1, reports(starts[0], "loser"))
    spark.offsets(2)
    assert winner.begin(2).base_ids == ("winner1",) * 2


def test_a_batch_is_prepared_while_its_entry_is_written(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    log = spark.log()
    run(spark, log, 0)
    spark.offsets(1)
    prepared, add = threading.Event(), MetadataLog.add

    def add_when_prepared(self: MetadataLog[Any], batch_id: int, content: bytes) -> None:
        assert prepared.wait(60)
        add(self, batch_id, content)

    monkeypatch.setattr(MetadataLog, "add", add_when_prepared)
    starts: list[Start] = []

    def prepare(start: Start) -> None:
        starts.append(start)
        assert spark.ours("offsets") == ["0"]
        prepared.set()

    assert [log.begin(1, prepare)] == starts
    assert spark.ours("offsets") == ["0", "1"]


def test_a_batch_whose_preparation_fails_has_begun(spark: Spark) -> None:
    """Its error is not lost, and the next attempt knows that the batch has begun."""
    log = spark.log()
    run(spark, log, 0)
    spark.offsets(1)
    with pytest.raises(ZeroDivisionError):
        log.begin(1, lambda start: start.batch_id / 0)
    assert spark.ours("offsets") == ["0", "1"]
    with pytest.raises(ValueError, match="batch 1 was not begun"):
        log.finish(1, {})
    assert log.begin(1).is_repeated


@pytest.mark.parametrize("is_done", [False, True])
def test_a_batch_is_prepared_again_if_another_driver_was_quicker(spark: Spark, is_done: bool) -> None:
    log, other = spark.log(), spark.log()
    run(spark, log, 0)
    spark.offsets(1)
    start = other.begin(1)
    if is_done:
        other.finish(1, reports(start))
    starts: list[Start] = []
    assert log.begin(1, starts.append).already_done == is_done
    assert [each.is_repeated for each in starts] == ([False] if is_done else [False, True])


def test_a_driver_that_comes_late_leaves_the_other_s_entries(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    """One has looked whether the batch is done, and the other one finishes it and begins the next."""
    run(spark, spark.log(), 0)
    spark.offsets(1)
    slow, fast = spark.log(), spark.log()
    looked = driver_log.is_done  # type: ignore[attr-defined]

    def overtaken(*args: Any) -> bool:
        found = looked(*args)
        monkeypatch.setattr(driver_log, "is_done", looked)
        run(spark, fast, 1, attempt="fast")
        spark.offsets(2)
        fast.begin(2)
        return found

    monkeypatch.setattr(driver_log, "is_done", overtaken)
    with pytest.raises(BatchAlreadyLoggedError, match="another driver has finished this batch"):
        slow.begin(1)
    assert spark.ours("offsets") == ["0", "1", "2"]
    assert spark.ours("commits") == ["0", "1"]


@pytest.mark.parametrize("batches", [3, 5])
def test_a_rewind(spark: Spark, caplog: pytest.LogCaptureFixture, batches: int) -> None:
    log = spark.log()
    for batch_id in range(batches):
        run(spark, log, batch_id)
    before = {p.name: p.read_bytes() for p in (spark.checkpoint / "hdfsstore/commits").iterdir()}
    spark.set_back(2)
    spark.offsets(2, "second")
    with caplog.at_level(logging.WARNING, "hdfsstore"):
        start = spark.log().begin(2)
    assert "Spark's log was set back to batch 2" in caplog.text
    assert start == Start(2, False, ("a1", "a1"), 20, 3000, 10)
    (folder,) = (spark.checkpoint / "hdfsstore/rewound").iterdir()
    moved = [str(number) for number in range(2, batches)]
    assert sorted(p.name for p in (folder / "commits").iterdir()) == moved
    assert sorted(p.name for p in (folder / "offsets").iterdir()) == moved
    assert all((folder / "commits" / name).read_bytes() == before[name] for name in moved)
    assert spark.ours("offsets") == ["0", "1", "2"]
    assert spark.ours("commits") == ["0", "1"]
    assert run(spark, spark.log(), 2, "b", "second").base_ids == ("a1", "a1")
    assert run(spark, spark.log(), 3, "b").base_ids == ("b2", "b2")


def test_a_rewind_to_the_start(spark: Spark) -> None:
    run(spark, spark.log(), 0)
    spark.set_back(0)
    assert run(spark, spark.log(), 0, "b", "second").base_ids == (None, None)
    assert run(spark, spark.log(), 1).base_ids == ("b0", "b0")


@pytest.mark.parametrize("kept", range(6))
def test_a_driver_killed_while_it_moves_entries(spark: Spark, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    log = spark.log()
    for batch_id in range(5):
        run(spark, log, batch_id)
    spark.set_back(2)
    spark.offsets(2, "second")
    moves = 0

    def killed(*_: object, **__: object) -> None:
        nonlocal moves
        if moves == kept:
            raise KeyboardInterrupt
        moves += 1
        publish(*_, **__)  # type: ignore[arg-type]

    from hdfsstore.spark.querylog import rewind

    publish = rewind.publish  # type: ignore[attr-defined]
    monkeypatch.setattr(rewind, "publish", killed)
    with pytest.raises(KeyboardInterrupt):
        spark.log().begin(2)
    monkeypatch.undo()
    assert run(spark, spark.log(), 2, "b", "second").base_ids == ("a1", "a1")
    assert run(spark, spark.log(), 3, "b", "second").base_ids == ("b2", "b2")
    rewound = sorted(str(p.relative_to(p.parents[1])) for p in spark.checkpoint.glob("hdfsstore/rewound/*/*/*"))
    assert set(rewound) == {f"{folder}/{n}" for folder in ("commits", "offsets") for n in (2, 3, 4)}


@pytest.mark.parametrize("moved", range(6))
def test_a_driver_that_still_moves_entries_leaves_those_of_a_quicker_one(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    log = spark.log()
    for batch_id in range(5):
        run(spark, log, batch_id)
    spark.set_back(2)
    spark.offsets(2, "second")
    left = moved

    def overtaken(*args: Any, **options: Any) -> None:
        nonlocal left
        publish(*args, **options)
        left -= 1
        if left == -1:
            quick = spark.log()
            run(spark, quick, 2, "quick", "second")
            run(spark, quick, 3, "quick", "second")

    from hdfsstore.spark.querylog import rewind

    publish = rewind.publish  # type: ignore[attr-defined]
    monkeypatch.setattr(rewind, "publish", overtaken)
    with pytest.raises(BatchAlreadyLoggedError, match="another driver has begun this batch just now"):
        spark.log().begin(2)
    monkeypatch.undo()
    assert spark.ours("offsets") == spark.ours("commits") == ["0", "1", "2", "3"]
    assert run(spark, spark.log(), 4).base_ids == ("quick3", "quick3")


@pytest.mark.parametrize("hung_at", [0, 2])
def test_a_driver_that_hung_while_another_one_purged_its_batch_moves_nothing(
    spark: Spark, monkeypatch: pytest.MonkeyPatch, hung_at: int
) -> None:
    log = spark.log(min_versions_to_retain=2)
    for batch_id in range(hung_at):
        run(spark, log, batch_id)
    spark.offsets(hung_at)

    def overtaken(*args: Any) -> None:
        monkeypatch.undo()
        for batch_id in range(hung_at, 8):
            run(spark, log, batch_id)
        copy_metadata(*args)

    copy_metadata = driver_log.copy_metadata  # type: ignore[attr-defined]
    monkeypatch.setattr(driver_log, "copy_metadata", overtaken)
    with pytest.raises(BatchAlreadyLoggedError, match=f"no longer at batch {hung_at}: another driver"):
        spark.log().begin(hung_at)
    assert spark.ours("offsets") == spark.ours("commits") == ["4", "5", "6", "7"]
    assert run(spark, spark.log(), 8).base_ids == ("a7", "a7")


def test_entries_that_lack_what_was_before_them(spark: Spark) -> None:
    """Ours is ahead of Spark's, with gaps."""
    log = spark.log()
    for batch_id in range(6):
        run(spark, log, batch_id)
    for name in ("offsets/3", "offsets/4", "commits/4"):
        (spark.checkpoint / "hdfsstore" / name).unlink()
    spark.set_back(3)
    spark.offsets(3, "second")
    assert spark.log().begin(3).base_ids == ("a2", "a2")
    assert spark.ours("commits") == ["0", "1", "2"]
    assert spark.ours("offsets") == ["0", "1", "2", "3"]


def test_a_commit_that_came_after_a_rewind(spark: Spark) -> None:
    """A driver that hung is overtaken by a rewind and finishes: its batch is not that of the number."""
    hung = spark.log()
    run(spark, hung, 0)
    spark.offsets(1)
    start = hung.begin(1)
    spark.set_back(1)
    spark.offsets(1, "second")
    log = spark.log()
    second = log.begin(1)
    hung.finish(1, reports(start, "hung"))
    with pytest.raises(BatchAlreadyLoggedError):
        log.finish(1, reports(second, "b"))
    assert spark.log().last_finished() == Finished(0, 0, 1000, None)
    assert not run(spark, spark.log(), 1, "c").already_done
    assert run(spark, spark.log(), 2).base_ids == ("c1", "c1")


def test_without_a_log(spark: Spark) -> None:
    spark.offsets(0)
    spark.offsets(1)
    with pytest.raises(MissingFileError, match=r"ran without hdfsstore\.spark until now") as caught:
        spark.log().begin(1)
    assert str(caught.value.path).endswith("hdfsstore/commits/0")
    assert not (spark.checkpoint / "hdfsstore").exists()
    with pytest.raises(MissingFileError, match="asyncProgressTrackingEnabled"):
        spark.log().begin(2)


@pytest.mark.parametrize("lost", ["commits", "offsets"])
def test_without_the_entry_before(spark: Spark, lost: str) -> None:
    log = spark.log()
    for batch_id in range(3):
        run(spark, log, batch_id)
    (spark.checkpoint / "hdfsstore" / lost / "2").unlink()
    spark.offsets(3)
    with pytest.raises(MissingFileError, match="or set the query back") as caught:
        spark.log().begin(3)
    assert str(caught.value.path).endswith(f"hdfsstore/{lost}/2")


@pytest.mark.parametrize("content", [b"", b"v1", b"v2\n", b'v1\n{"nextBatch', b"\xff\xfe"])
@pytest.mark.parametrize("lost", ["commits", "offsets"])
@pytest.mark.parametrize("ran", ["before", "now"])
def test_a_damaged_entry_says_how_to_go_on(spark: Spark, lost: str, content: bytes, ran: str) -> None:
    """That of the batch before, and that of the batch which Spark gives again; and what the message says works."""
    log = spark.log()
    for batch_id in range(3):
        run(spark, log, batch_id)
    path = spark.checkpoint / "hdfsstore" / lost / "2"
    path.write_bytes(content)
    batch_id = 3 if ran == "before" else 2
    spark.offsets(batch_id)
    with pytest.raises(CorruptFileError, match=r"set the query back to batch 2 \(delete Spark's") as caught:
        spark.log().begin(batch_id)
    assert str(caught.value).startswith(str(path))
    path.unlink()
    spark.set_back(2)
    assert run(spark, spark.log(), 2, "b", "second").base_ids == ("a1", "a1")
    assert run(spark, spark.log(), 3).base_ids == ("b2", "b2")


def test_batches_that_ran_without_us(spark: Spark) -> None:
    log = spark.log()
    for batch_id in range(3):
        run(spark, log, batch_id)
    spark.set_back(1)
    for batch_id in (1, 2, 3):
        spark.offsets(batch_id, "Spark's own operator")
    with pytest.raises(LogMismatchError, match=r"without hdfsstore\.spark"):
        spark.log().begin(3)
    assert spark.ours("commits") == ["0", "1", "2"]


def test_another_number_of_partitions(spark: Spark) -> None:
    run(spark, spark.log(), 0)
    spark.offsets(1)
    with pytest.raises(CheckpointIdMismatchError, match="ids of 2 partitions, and the state has 3"):
        DriverLog(spark.checkpoint, 3, StateStoreConf()).begin(1)


def test_formats_that_change(spark: Spark) -> None:
    one = {"checkpoint_format_version": 1}
    first = spark.log(**one)
    spark.offsets(0)
    first.finish(0, {p: Report(None, None) for p, _ in enumerate(first.begin(0).base_ids)})
    spark.offsets(1)
    second = spark.log()
    assert second.begin(1).base_ids == (None, None)
    second.finish(1, {p: Report(None, "x") for p in range(2)})
    spark.offsets(2)
    third = spark.log(**one)
    assert third.begin(2).base_ids == ("x", "x")
    third.finish(2, {p: Report("x", None) for p in range(2)})
    fs, root = resolve(spark.checkpoint)
    assert [read_commit_log(fs, f"{root}/hdfsstore/commits/{n}").version for n in range(3)] == [1, 2, 1]


def test_old_entries_go(spark: Spark) -> None:
    log = spark.log(min_versions_to_retain=3)
    for batch_id in range(9):
        run(spark, log, batch_id)
        # The batches that wrote the versions that are retained: version 8 - 3, on which batch 8 is the third, and on.
        oldest = max(0, batch_id - 3 - 1)
        assert spark.ours("commits") == spark.ours("offsets") == [str(n) for n in range(oldest, batch_id + 1)]
    for batch_id in range(9, 11):  # drivers that retain fewer
        run(spark, spark.log(min_versions_to_retain=1), batch_id)
    assert set(spark.ours("commits")) == set(spark.ours("offsets")) == {"8", "9", "10"}


def test_what_cannot_be_deleted_is_left(spark: Spark, caplog: pytest.LogCaptureFixture) -> None:
    log = spark.log(min_versions_to_retain=1, maintenance_interval=0)
    for batch_id in range(3):
        run(spark, log, batch_id)
    (spark.checkpoint / "hdfsstore/offsets/1").unlink()
    (spark.checkpoint / "hdfsstore/offsets/1").mkdir()
    with caplog.at_level(logging.WARNING, "hdfsstore"):
        for batch_id in range(3, 6):
            run(spark, log, batch_id)
    [said] = caplog.messages
    assert "old entries of the log are left" in said
    assert spark.log().last_finished() == Finished(5, 50, 6000, None)
    (spark.checkpoint / "hdfsstore/offsets/1").rmdir()
    run(spark, log, 6)  # the right to delete is back: so is what was left
    assert spark.ours("commits") == ["4", "5", "6"]


@pytest.mark.parametrize("emptied", ["commits", "."])
def test_an_emptied_log_is_no_new_query(spark: Spark, emptied: str) -> None:
    """The folders are there, and no file is."""
    run(spark, spark.log(), 0)
    for path in (spark.checkpoint / "hdfsstore" / emptied).rglob("*"):
        if path.is_file():
            path.unlink()
    spark.offsets(1)
    with pytest.raises(
        MissingFileError, match=r"there is no log of its state.* Put the checkpoint's folder hdfsstore back"
    ):
        spark.log().begin(1)


@pytest.mark.parametrize("content", [None, ""])
def test_the_copy_of_the_query_s_id_is_made_anew(spark: Spark, content: str | None) -> None:
    run(spark, spark.log(), 0)
    copy = spark.checkpoint / "hdfsstore/metadata"
    copy.unlink()
    if content is not None:
        copy.write_text(content)
    run(spark, spark.log(), 1)
    assert copy.read_bytes() == (spark.checkpoint / "metadata").read_bytes()


def test_the_query_s_id_follows_spark_s(spark: Spark) -> None:
    run(spark, spark.log(), 0)
    spark.set_back(0)
    (spark.checkpoint / "metadata").write_text('{"id":"another"}')
    run(spark, spark.log(), 0, "b", "second")
    assert hdfsstore.Checkpoint(spark.checkpoint / "hdfsstore").query_id == "another"
