"""The commit log as the driver writes it: what it refuses, and what Spark would find."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hdfsstore import (
    BatchAlreadyLoggedError,
    Checkpoint,
    CheckpointIdMismatchError,
    CommitLog,
    MissingFileError,
    StateStoreError,
)
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from hdfsstore.state.store_id import StateStoreId
from tests.unit.checkpoint.build import offsets, put

Infos = dict[int, dict[int, list[StateStoreCheckpointInfo]]]


def reported(version: int, new: str | None, base: str | None, *, partitions: int = 2, stores: int = 1) -> Infos:
    """One operator, whose ids are `new` and `base` and the numbers of partition and store behind them."""

    def at(text: str | None, place: str) -> str | None:
        return None if text is None else text + place

    return {
        0: {
            p: [
                StateStoreCheckpointInfo(p, version, at(new, f"-{p}-{s}"), at(base, f"-{p}-{s}")) for s in range(stores)
            ]
            for p in range(partitions)
        }
    }


def with_info(infos: Infos, partition: int, **changes: object) -> Infos:
    info = infos[0][partition][0]
    fields = {name: getattr(info, name) for name in StateStoreCheckpointInfo.__slots__} | changes
    infos[0][partition][0] = StateStoreCheckpointInfo(**fields)
    return infos


def test_the_file_is_sparks(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    log.add(0, 7, reported(1, "a", None, stores=2))
    assert (tmp_path / "commits/0").read_text() == (
        'v2\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a-0-0","a-0-1"],["a-1-0","a-1-1"]]}}'
    )
    assert [path.name for path in (tmp_path / "commits").iterdir()] == ["0"]


def test_a_log_of_several_batches(tmp_path: Path) -> None:
    log = CommitLog(str(tmp_path))
    assert log.latest() is None
    for batch_id in range(4):
        base = f"id{batch_id - 1}" if batch_id else None
        entry = log.add(batch_id, 10 * batch_id, reported(batch_id + 1, f"id{batch_id}", base))
        assert log.get(batch_id) == entry
        assert log.latest() == (batch_id, entry)
    assert CommitLog(tmp_path).latest() == (3, entry)
    assert entry.state_unique_ids == {0: [["id3-0-0"], ["id3-1-0"]]}
    put(tmp_path / "commits/.1.crc", "of Hadoop")
    log.purge(2)
    assert log.get(1) is None
    assert log.get(2) is not None
    assert sorted(path.name for path in (tmp_path / "commits").iterdir()) == ["2", "3"]
    for batch_id in (2, 3):
        offsets(tmp_path, batch_id)
    put(tmp_path / "metadata", '{"id":"the-query"}')
    assert [b.state_unique_ids for b in Checkpoint(tmp_path).batches] == [
        {0: [[f"id{b}-0-0"], [f"id{b}-1-0"]]} for b in (2, 3)
    ]


def test_an_entry_is_written_once(tmp_path: Path) -> None:
    log = CommitLog(tmp_path)
    log.add(0, 0, reported(1, "a", None))
    with pytest.raises(BatchAlreadyLoggedError, match="never replaced") as caught:
        CommitLog(tmp_path).add(0, 0, reported(1, "b", None))
    assert caught.value.path == f"{tmp_path}/commits/0"
    assert "a-0-0" in (tmp_path / "commits/0").read_text()
    assert [path.name for path in (tmp_path / "commits").iterdir()] == ["0"]


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        (reported(2, "b", "x"), CheckpointIdMismatchError, r"partition 0 .* x-0-0, .* a-0-0"),
        (
            with_info(reported(2, "b", "a"), 1, base_checkpoint_unique_id="z"),
            CheckpointIdMismatchError,
            r"partition 1 .* z, .* a-1-0",
        ),
        (reported(2, "b", None), CheckpointIdMismatchError, r"unique id None, .* a-0-0"),
        (reported(2, None, "a"), CheckpointIdMismatchError, r"unique id None; .* version 2"),
        (reported(2, "../b", "a"), CheckpointIdMismatchError, r"'../b-0-0', which is not a unique id"),
        (reported(2, "b", "a", partitions=1), StateStoreError, r"2 partitions, and \[0\] have reported"),
        (reported(2, "b", "a", partitions=3), StateStoreError, r"2 partitions, and \[0, 1, 2\]"),
        (reported(2, "b", "a", stores=2), StateStoreError, r"1 stores, and 2"),
        ({0: {**reported(2, "b", "a")[0], 1: []}}, StateStoreError, r"1 stores, and 0"),
        (reported(3, "b", "a"), StateStoreError, r"version 3 of partition 0; batch 1 writes version 2"),
        (with_info(reported(2, "b", "a"), 1, partition_id=0), StateStoreError, r"version 2 of partition 0"),
        ({}, StateStoreError, r"operators \[\] have reported; the batch before has \[0\]"),
        ({1: reported(2, "b", "a")[0]}, StateStoreError, r"operators \[1\]"),
    ],
)
def test_what_does_not_fit_the_batch_before_is_not_committed(
    tmp_path: Path, wrong: Infos, error: type[StateStoreError], match: str
) -> None:
    log = CommitLog(tmp_path)
    log.add(0, 0, reported(1, "a", None))
    with pytest.raises(error, match=match) as caught:
        log.add(1, 0, wrong)
    assert caught.value.path == f"{tmp_path}/commits/1"
    assert log.get(1) is None
    log.add(1, 0, reported(2, "b", "a"))


def test_an_operator_has_a_partition(tmp_path: Path) -> None:
    with pytest.raises(StateStoreError, match=r"1 partitions, and \[\]"):
        CommitLog(tmp_path).add(0, 0, {0: {}})


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (reported(1, "a", "x"), r"x-0-0, .* holds None"),
        (reported(1, "a", None, partitions=1), r"2 partitions, and \[0\]"),
        ({0: {}}, r"2 partitions, and \[\]"),
        ({0: {0: [], 1: reported(1, "a", None)[0][1]}}, r"partition 1 has 0 stores, and 1"),
    ],
)
def test_the_first_batch(tmp_path: Path, wrong: Infos, match: str) -> None:
    with pytest.raises(StateStoreError, match=match):
        CommitLog(tmp_path, num_partitions=2).add(0, 0, wrong)
    assert not (tmp_path / "commits").exists()


def test_the_entry_before_is_needed(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError) as caught:
        CommitLog(tmp_path).add(3, 0, reported(4, "a", "b"))
    assert caught.value.path == f"{tmp_path}/commits/2"


def test_version_1_and_switching_back_and_forth(tmp_path: Path) -> None:
    old, new = CommitLog(tmp_path, checkpoint_format_version=1), CommitLog(tmp_path)
    old.add(0, 5, reported(1, None, None))
    assert (tmp_path / "commits/0").read_text() == 'v1\n{"nextBatchWatermarkMs":5}'
    with pytest.raises(CheckpointIdMismatchError, match=r"unique id b-0-0; .* version 1"):
        old.add(1, 0, reported(2, "b", None))
    new.add(1, 0, reported(2, "b", None))
    old.add(2, 0, reported(3, None, "b"))
    assert json.loads((tmp_path / "commits/2").read_text()[3:]) == {"nextBatchWatermarkMs": 0}
    new.add(3, 0, reported(4, "d", None))
    with pytest.raises(CheckpointIdMismatchError, match=r"x-0-0, .* d-0-0"):
        old.add(4, 0, reported(5, None, "x"))
    old.add(4, 0, reported(5, None, None))
    assert old.latest() == new.latest()


def test_with_a_store(tmp_path: Path) -> None:
    """Of two attempts the next batch has to start from the one that was committed; then both formats in turns."""
    store_id = StateStoreId(str(tmp_path / "state"), 0, 0)

    conf = StateStoreConf(maintenance_interval=0, local_dir=str(tmp_path / "local"))

    def attempt(version: int, unique_id: str | None, value: bytes, format_version: int = 2) -> Infos:
        with open_provider(store_id, conf=replace(conf, checkpoint_format_version=format_version)) as provider:
            store = provider.get_store(version, unique_id)
            store.put(b"key", value)
            return {0: {0: [store.commit()]}}

    def committed(batch_id: int) -> str:
        entry = log.get(batch_id)
        assert entry is not None
        return entry.state_unique_ids[0][0][0]

    log, old_log = CommitLog(tmp_path), CommitLog(tmp_path, checkpoint_format_version=1)
    lost, chosen = attempt(0, None, b"lost"), attempt(0, None, b"chosen")
    log.add(0, 0, chosen)
    after_lost = attempt(1, lost[0][0][0].checkpoint_unique_id, b"after lost")
    base = after_lost[0][0][0].base_checkpoint_unique_id
    with pytest.raises(CheckpointIdMismatchError, match=f"{base}, and the log holds {committed(0)}"):
        log.add(1, 0, after_lost)
    log.add(1, 0, attempt(1, committed(0), b"after chosen"))
    old_log.add(2, 0, attempt(2, committed(1), b"without id", format_version=1))
    log.add(3, 0, attempt(3, None, b"with id"))
    log.add(4, 0, attempt(4, committed(3), b"last"))
    with open_provider(store_id, conf=conf) as provider:
        assert provider.get_read_store(5, committed(4)).get(b"key") == b"last"
