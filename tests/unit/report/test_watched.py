"""What `hdfsstore watch` shows, without a terminal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyarrow.fs import FileInfo

from hdfsstore import Checkpoint, CheckpointNotFoundError
from hdfsstore.cli.inspection import examine
from hdfsstore.errors import FileSystemTimeoutError
from hdfsstore.fs.file_manager import OpenFile
from hdfsstore.report.watched import BYTES, FOLDERS, NEWEST_BATCHES, REQUESTS, Moment, Watched
from tests.support.checkpoints import Replayed, of_many_partitions
from tests.support.remote_files import RemoteFiles
from tests.support.truth import DATA


def case(name: str, spark: str = "4.3.0") -> Path:
    return DATA / f"spark-{spark}" / name / "checkpoint"


def watched(path: Path) -> Watched:
    return Watched(lambda: Checkpoint(path))


def committed(moment: Moment) -> int | None:
    return None if moment.committed is None else moment.committed.batch_id


@pytest.mark.parametrize(
    "path",
    [
        case("aggregation"),
        case("snapshots"),
        case("join_inner"),
        case("chained_windows"),
        case("global_limit"),
        case("rocksdb_aggregation"),
        case("rocksdb_unique_ids_zips"),
        case("rocksdb_join_format4"),
        case("rocksdb_fewer_partitions"),
        case("transform_structures"),
        case("snapshots", "3.5.9"),
        case("aggregation", "2.4.8"),
    ],
    ids=lambda path: f"{path.parent.name}-{path.parent.parent.name}",
)
def test_rows_and_bytes_are_those_of_inspect(path: Path) -> None:
    watch = watched(path)
    watch.look()
    stores = {(store.operator_id, store.name): store for store in watch.count(limited=False).stores}
    report = examine(Checkpoint(path), count_rows=True)
    inspected = {(of.operator_id, store.name): store for of in report.operators for store in of.stores}
    assert stores.keys() == inspected.keys() != set()
    for key, store in stores.items():
        assert [(each.partition_id, each.bytes) for each in store.partitions] == [
            (each.partition_id, each.bytes) for each in inspected[key].partitions
        ]
        if inspected[key].note is None:
            assert [each.rows for each in store.partitions] == [each.rows for each in inspected[key].partitions]
            assert store.rows_batch == max(report.committed_batches)


def test_it_waits_for_the_first_batch(tmp_path: Path) -> None:
    query = Replayed(case("aggregation"), tmp_path / "checkpoint")
    shutil.rmtree(query.path / "state")
    watch = watched(query.path)
    assert (watch.look().batches, watch.count().stores) == ([], [])
    query.begin(0)
    moment = watch.look()
    assert moment.running is not None
    assert (moment.running.batch_id, committed(moment), moment.stores) == (0, None, [])
    shutil.copytree(case("aggregation") / "state", query.path / "state")
    query.commit(0)
    moment = watch.look()
    assert (moment.running, committed(moment), len(moment.stores)) == (None, 0, 1)


def test_batches_that_come_one_by_one(tmp_path: Path) -> None:
    query = Replayed(case("snapshots"), tmp_path / "checkpoint")
    query.commit(0, 1)
    watch = watched(query.path)
    for newest in (1, 2, 5, 11):
        query.commit(*range(newest + 1))
        if newest < 11:
            query.begin(newest + 1)
        moment = watch.look()
        assert committed(moment) == newest
        assert (moment.running is not None) == (newest < 11)
        assert [batch.batch_id for batch in moment.batches] == list(range(newest + (newest < 11) + 1))[-NEWEST_BATCHES:]
        [store] = watch.count(limited=False).stores
        table = Checkpoint(query.path).read_state(batch_id=newest)
        assert (store.rows, store.rows_batch, store.bytes_batch) == (table.num_rows, newest, newest)
        deltas = [query.path / f"state/0/{number}/{newest + 1}.delta" for number in (0, 1)]
        assert store.changed_bytes == sum(delta.stat().st_size for delta in deltas)
        assert store.first_rows == (1, Checkpoint(query.path).read_state(batch_id=1).num_rows)


def test_another_number_of_partitions(tmp_path: Path) -> None:
    query = Replayed(case("rocksdb_fewer_partitions"), tmp_path / "checkpoint")
    watch = watched(query.path)
    numbers = []
    for batch_id in range(5):
        query.commit(batch_id)
        watch.look()
        [store] = watch.count(limited=False).stores
        assert store.rows == Checkpoint(query.path).read_state().num_rows
        numbers.append(len(store.partitions))
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == 2


def test_a_repartition_that_is_not_done() -> None:
    [warning] = watched(case("rocksdb_repartition_unfinished")).look().warnings
    assert "a repartition from" in warning


def test_files_that_retention_removes_meanwhile(tmp_path: Path) -> None:
    query = Replayed(case("snapshots"), tmp_path / "checkpoint")
    query.commit(0)
    watch = watched(query.path)
    watch.look()
    for delta in query.path.glob("state/0/*/1.delta"):
        delta.unlink()
    [store] = watch.count(limited=False).stores
    assert store.rows is None
    assert store.note is not None
    assert "1.delta" in store.note or "retention" in store.note
    query.commit(*range(1, 12))
    watch.look()
    [store] = watch.count(limited=False).stores
    assert (store.rows, store.note) == (Checkpoint(query.path).read_state().num_rows, None)


def test_a_checkpoint_that_disappears_and_one_that_begins_anew(tmp_path: Path) -> None:
    query = Replayed(case("snapshots"), tmp_path / "checkpoint")
    query.commit(*range(4))
    watch = watched(query.path)
    assert committed(watch.look()) == 3
    shutil.rmtree(query.path)
    again = Replayed(case("aggregation"), query.path)
    again.commit(0)
    moment = watch.look()
    assert (committed(moment), len(moment.batches)) == (0, 1)
    shutil.rmtree(query.path)
    with pytest.raises(CheckpointNotFoundError) as caught:
        watch.look()
    assert str(query.path) in str(caught.value)


@pytest.mark.parametrize("newest", [1, 3])
def test_one_that_was_made_anew_between_two_looks(newest: int, tmp_path: Path) -> None:
    query = Replayed(case("snapshots"), tmp_path / "checkpoint")
    query.commit(0, 1)
    watch = watched(query.path)
    watch.look()
    watch.count(limited=False)
    shutil.rmtree(query.path)
    again = Replayed(case("join_inner" if newest == 1 else "aggregation"), query.path)
    again.commit(*range(newest + 1))
    watch.look()
    stores = watch.count(limited=False).stores
    for store in stores:
        table = Checkpoint(query.path).read_state(store.operator_id, store.name)
        assert (store.rows, store.note) == (table.num_rows, None)
        assert store.first_rows == (newest, table.num_rows)
    [operator] = Checkpoint(query.path).operators
    assert [store.name for store in stores] == [store.name for store in operator.stores]


def test_a_query_of_hdfsstore_spark_makes_its_own_folder_in_its_first_batch(tmp_path: Path) -> None:
    query = Replayed(case("aggregation"), tmp_path / "checkpoint")
    shutil.rmtree(query.path / "state")
    query.begin(0)
    watch = watched(query.path)
    assert watch.look().path == str(query.path)
    own = Replayed(case("aggregation"), query.path / "hdfsstore")
    own.commit(0)
    query.commit(0)
    moment = watch.look()
    assert (moment.path, len(moment.stores), committed(moment)) == (str(own.path), 1, 0)
    assert moment.remark is not None
    assert "hdfsstore.spark" in moment.remark


def test_a_log_that_is_cut_off_is_told(tmp_path: Path) -> None:
    query = Replayed(case("aggregation"), tmp_path / "checkpoint")
    query.commit(0, 1)
    (query.path / "commits/.1.crc").unlink()
    (query.path / "commits/1").write_bytes(b"")
    moment = watched(query.path).look()
    assert committed(moment) == 0
    assert "commits/1" in " ".join(moment.warnings)


class Unanswered(RemoteFiles):
    """A storage that does not answer whenever a request is for one of these names."""

    def __init__(self) -> None:
        super().__init__()
        self.names: tuple[str, ...] = ()

    def list_folder(self, folder: str) -> list[FileInfo]:
        self._check(folder)
        return super().list_folder(folder)

    def open_file(self, path: str, size: int | None = None) -> OpenFile:
        self._check(path)
        return super().open_file(path, size)

    def _check(self, path: str) -> None:
        if any(name in path for name in self.names):
            raise FileSystemTimeoutError("`LIST` has failed 7 times in 120.0 s", path)


@pytest.mark.parametrize("names", [("",), ("commits",), ("offsets/3",), ("state/0/1",)], ids=str)
def test_a_storage_that_does_not_answer_for_a_while(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Replayed(case("snapshots"), tmp_path / "checkpoint")
    files = Unanswered()
    monkeypatch.setattr("hdfsstore.checkpoint.checkpoint.resolve", lambda *_: (files, str(query.path)))
    watch = watched(query.path)
    files.names = ("commits",)
    with pytest.raises(FileSystemTimeoutError):
        watch.look()
    files.names = ()
    query.commit(0, 1, 2)
    watch.look()
    before = watch.count(limited=False)
    query.commit(3)
    files.names = names
    for _ in range(3):
        told = [*watch.look().warnings, *watch.count(limited=False).warnings]
        assert any("does not answer" in warning and "7 times" in warning for warning in told)
        [store] = watch.look().stores
        assert store.rows == before.stores[0].rows or store.rows_batch == 3
    files.names = ()
    query.commit(4)
    watch.look()
    moment = watch.count(limited=False)
    [store] = moment.stores
    assert (committed(moment), moment.warnings, store.note) == (4, [], None)
    assert (store.rows, store.rows_batch) == (Checkpoint(query.path).read_state().num_rows, 4)


def test_rows_are_counted_when_the_storage_answers_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without a further batch. And no partition is waited for after one that was not answered."""
    query = Replayed(of_many_partitions(tmp_path, 40), tmp_path / "replayed")
    query.commit(0, 1)
    files = Unanswered()
    monkeypatch.setattr("hdfsstore.checkpoint.checkpoint.resolve", lambda *_: (files, str(query.path)))
    watch = watched(query.path)
    watch.look()
    files.names = (".delta",)
    before = files.requests.snapshot().requests["LIST"]
    assert any("does not answer" in warning for warning in watch.count(limited=False).warnings)
    assert files.requests.snapshot().requests["LIST"] - before <= 2
    files.names = ()
    assert watch.look().warnings == []
    [store] = watch.count(limited=False).stores
    assert (store.rows, store.note) == (Checkpoint(query.path).read_state().num_rows, None)


def test_few_requests_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = of_many_partitions(tmp_path, 400)
    query = Replayed(whole, tmp_path / "replayed")
    query.commit(0, 1, 2)
    files = RemoteFiles()
    monkeypatch.setattr("hdfsstore.checkpoint.checkpoint.resolve", lambda *_: (files, str(query.path)))
    watch = watched(query.path)

    def spent(look: bool = True) -> int:
        before = sum(files.requests.snapshot().requests.values())
        if look:
            watch.look()
        else:
            watch.count()
        return sum(files.requests.snapshot().requests.values()) - before

    assert spent() < 400 + 40  # the first one lists all partitions
    assert [spent() for _ in range(3)] == [2, 2, 2]
    query.commit(3)
    assert spent() <= 4 + FOLDERS + 4
    looks = [spent() for _ in range(400 // FOLDERS)]
    assert all(look <= 2 + FOLDERS for look in looks)
    assert looks[-1] == 2
    before = files.requests.snapshot().bytes_read
    counts = [spent(look=False) for _ in range(40)]
    partition = 12  # no count of a partition takes more: a snapshot and some deltas, with their checksums
    assert sum(counts) <= 40 * REQUESTS + partition
    assert max(counts) <= REQUESTS + partition
    assert files.requests.snapshot().bytes_read - before <= 40 * BYTES
    [store] = watch.count().stores
    counted = [each.rows for each in store.partitions if each.rows is not None]
    assert 0 < len(counted) < 400
    assert store.rows is None
