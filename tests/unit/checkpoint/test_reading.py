"""What read_state, open_state and read_changes refuse, choose and share, on real checkpoints."""

from __future__ import annotations

import json
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import hdfsstore
from hdfsstore._cext.records import encode_records
from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.metadata_log import Listing, MetadataLog
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.records import RecordFormat, read_chunks
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.reading import open_input
from tests.support.rows import counted
from tests.support.truth import DATA, Case, cases, few_cases
from tests.unit.checkpoint.build import copy_to, opened

SPARK = DATA / "spark-4.3.0"
READABLE = [case for case in cases() if not case.families]


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str], Path]:
    """Copies a case's checkpoint to a folder that may be changed."""

    def copied(case: str) -> Path:
        return Path(shutil.copytree(SPARK / case / "checkpoint", tmp_path / case))

    return copied


@pytest.mark.parametrize("case", few_cases(READABLE), ids=str)
def test_open_state_gives_the_rows_of_read_state(case: Case, placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(case.checkpoint))
    for operator in checkpoint.operators:
        for store in operator.stores:
            table = checkpoint.read_state(operator.operator_id, store.name) if store.key_schema is not None else None
            if table is not None:
                reader = checkpoint.open_state(operator.operator_id, store.name)
                assert reader.schema == table.schema
                assert counted(reader.read_all()) == counted(table)


@pytest.mark.parametrize("case", ["types_keys", "session_window", "rocksdb_unique_ids", "row_checksum"])
def test_one_key(case: str) -> None:
    checkpoint = hdfsstore.Checkpoint(SPARK / case / "checkpoint")
    rows = checkpoint.read_state().combine_chunks()
    keys = rows["key"].combine_chunks()
    for i in range(0, len(rows), max(1, len(rows) // 10)):
        for key in (keys.slice(i, 1), dict(zip((f.name for f in keys.type), keys.slice(i, 1).flatten(), strict=True))):
            plain = {name: value[0].as_py() for name, value in key.items()} if isinstance(key, dict) else key
            found = checkpoint.read_state(key=plain)
            assert counted(found) == counted(rows.slice(i, 1))
            assert counted(checkpoint.open_state(key=plain).read_all()) == counted(found)


def test_of_one_key_in_sst_files_no_other_row_is_decoded(decoded: list[int]) -> None:
    checkpoint = hdfsstore.Checkpoint(SPARK / "rocksdb_many_levels/checkpoint")
    rows = checkpoint.read_state()
    assert sum(decoded) == len(rows)
    for key in rows["key"].to_pylist()[::8]:
        where = f"key.n = {key['n']} and key.word = '{key['word']}'"
        arguments: list[dict[str, Any]] = [{"key": key}, {"where": where}]
        for wanted in arguments:
            decoded.clear()
            assert checkpoint.read_state(**wanted)["key"].to_pylist() == [key]
            assert checkpoint.open_state(**wanted).read_all()["key"].to_pylist() == [key]
            assert sum(decoded) == 2, wanted


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_unique_ids"])
def test_what_is_no_key(case: str) -> None:
    checkpoint = hdfsstore.Checkpoint(SPARK / case / "checkpoint")
    assert checkpoint.read_state(key={"k": "nobody"}).num_rows == 0
    for key in ({"other": 1}, {}, {"k": 1.5}, pa.array([{"a": 1, "b": 2}]), pa.array([{"k": "a"}, {"k": "b"}])):
        with pytest.raises(hdfsstore.SchemaMismatchError, match="is no key of the store"):
            checkpoint.read_state(key=key)
    with pytest.raises(hdfsstore.StateStoreError, match="Leave the key or the join side out"):
        hdfsstore.Checkpoint(SPARK / "join_inner/checkpoint").read_state(join_side="left", key={"k": 1})


@pytest.mark.parametrize("side", ["left", "right"])
def test_join_sides_as_a_stream(side: str, placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / "join_inner/checkpoint"))
    assert counted(checkpoint.open_state(join_side=side).read_all()) == counted(checkpoint.read_state(join_side=side))


def test_locations() -> None:
    path = SPARK / "aggregation/checkpoint"
    expected = counted(hdfsstore.Checkpoint(path).read_state())
    subtree = SubTreeFileSystem(str(path.parent), LocalFileSystem())
    for location in (
        str(path),
        path.as_uri(),
        os.path.relpath(path),
        (LocalFileSystem(), str(path)),
        (subtree, "checkpoint"),
    ):
        assert counted(hdfsstore.Checkpoint(location).read_state()) == expected


def test_partitions(placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / "aggregation/checkpoint"))
    whole = checkpoint.read_state()
    parts = [checkpoint.read_state(partitions=[i]) for i in range(checkpoint.operator(0).store().num_partitions)]
    assert counted(pa.concat_tables(parts)) == counted(whole)
    assert {i for i, part in enumerate(parts) if set(part["partition_id"].to_pylist()) <= {i}} == set(range(len(parts)))
    assert checkpoint.read_state(partitions=[]).num_rows == 0
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match="no partition 7"):
        checkpoint.read_state(partitions=[7])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_give_the_same_rows(threads: int, placed: Callable[[Path], Any]) -> None:
    path = placed(SPARK / "snapshots/checkpoint")
    expected = counted(opened(path, num_threads=1).read_state())
    checkpoint = opened(path, num_threads=threads)
    assert counted(checkpoint.read_state()) == expected
    assert counted(checkpoint.open_state().read_all()) == expected


def test_a_join_has_no_default_store_and_names_its_sides() -> None:
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match="give join_side to read what a side"):
        hdfsstore.Checkpoint(SPARK / "join_inner/checkpoint").read_state()
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match=r"Its stores are default$"):
        hdfsstore.Checkpoint(SPARK / "aggregation/checkpoint").read_state(0, "left")


def test_what_is_not_there(placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / "aggregation/checkpoint"))
    latest = checkpoint.latest_batch_id
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match="no operator 3"):
        checkpoint.read_state(3)
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match="no store 'left'"):
        checkpoint.read_state(0, "left")
    with pytest.raises(hdfsstore.StateStoreError, match="no stream-stream join"):
        checkpoint.read_state(join_side="left")
    with pytest.raises(hdfsstore.StateStoreError, match="no side 'middle'"):
        checkpoint.read_state(join_side="middle")
    for batch_id in (latest + 1, -1):
        with pytest.raises(hdfsstore.BatchNotAvailableError, match=f"newest committed batch is {latest}"):
            checkpoint.read_state(batch_id=batch_id)
    with pytest.raises(hdfsstore.StateStoreError, match="comes after"):
        checkpoint.read_changes(2, 1)


def test_an_unfinished_batch_is_not_read(placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / "unfinished_batch/checkpoint"))
    [unfinished] = [batch.batch_id for batch in checkpoint.batches if not batch.committed]
    assert unfinished == checkpoint.latest_batch_id + 1
    with pytest.raises(hdfsstore.BatchNotAvailableError, match=f"batch {unfinished} was begun and is not committed"):
        checkpoint.read_state(batch_id=unfinished)
    with pytest.raises(hdfsstore.BatchNotAvailableError, match="not committed"):
        checkpoint.read_changes(0, unfinished)


def test_a_batch_whose_logs_are_purged_and_whose_state_is_there(root: Any) -> None:
    copy_to(SPARK / "snapshots/checkpoint", root)
    expected = counted(opened(root).read_state(batch_id=1))
    for log in ("offsets", "commits"):
        for batch in range(5):
            (root / log / str(batch)).unlink()
    checkpoint = opened(root)
    assert min(batch.batch_id for batch in checkpoint.batches) == 5
    assert counted(checkpoint.read_state(batch_id=1)) == expected


def test_a_batch_that_retention_has_passed(placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / "snapshots_purged/checkpoint"))
    with pytest.raises(hdfsstore.BatchNotAvailableError, match="retention has removed"):
        checkpoint.read_state(batch_id=0)


@pytest.mark.parametrize(
    ("case", "has_changes"),
    [("join_inner", True), ("rocksdb_join_left_outer", True), ("rocksdb_join_right_outer", False)],
)
def test_a_moved_checkpoint_that_may_only_be_read(
    case: str, has_changes: bool, copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written into it, nor into a temporary file: there is no folder for those."""
    path, temporary = copy(case), tmp_path / "temporary"
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    expected = counted(hdfsstore.Checkpoint(SPARK / case / "checkpoint").read_state(join_side="left"))
    before = modified(path)
    for file in (path, *path.rglob("*")):
        file.chmod(stat.S_IRUSR | (stat.S_IXUSR if file.is_dir() else 0))
    try:
        checkpoint = hdfsstore.Checkpoint(path)
        assert counted(checkpoint.read_state(join_side="left")) == expected
        assert counted(checkpoint.open_state(join_side="left").read_all()) == expected
        assert checkpoint.history({}, join_side="left").num_rows > 0
        if has_changes:
            checkpoint.read_changes(0, checkpoint.latest_batch_id, store_name="left-keyToNumValues")
        assert modified(path) == before
        assert not temporary.exists()
    finally:
        for file in (path, *path.rglob("*")):
            file.chmod(stat.S_IRWXU)


def modified(folder: Path) -> dict[Path, int]:
    """When each file, and each folder with the names in it, was changed."""
    return {path: path.stat().st_mtime_ns for path in (folder, *folder.rglob("*"))}


def test_schemas_of_the_users(copy: Callable[[str], Path]) -> None:
    path = copy("aggregation")
    declared = hdfsstore.Checkpoint(path)
    expected = declared.read_state()
    key_schema, value_schema = (getattr(declared.operator(0).store(), f"{part}_schema") for part in ("key", "value"))
    shutil.rmtree(path / "state/0/0/_metadata")
    checkpoint = hdfsstore.Checkpoint(path)
    assert checkpoint.operator(0).store().key_schema is None
    with pytest.raises(
        hdfsstore.SchemaMismatchError, match=r"no schema file; keys: \d+ rows of .* bytes.*key_schema="
    ) as error:
        checkpoint.read_state()
    assert "value_schema=" in str(error.value)
    with pytest.raises(hdfsstore.SchemaMismatchError, match="no schema file") as error:
        checkpoint.read_state(key_schema=key_schema)
    assert "key_schema=" not in str(error.value)
    assert counted(checkpoint.read_state(key_schema=key_schema, value_schema=value_schema)) == counted(expected)
    wrong = pa.schema([("a", pa.int64())])
    with pytest.raises(
        hdfsstore.SchemaMismatchError, match=r"value schema does not fit.*rows of \d+ to \d+ bytes: at most \d fields"
    ):
        checkpoint.read_state(key_schema=key_schema, value_schema=wrong)


def test_a_type_that_is_not_known_spoils_its_store_alone(copy: Callable[[str], Path]) -> None:
    path = copy("join_inner")
    schema = path / "state/0/0/left-keyWithIndexToValue/_metadata/schema"
    content = schema.read_bytes()
    assert content.count(b'"long"') == 1
    schema.with_name(".schema.crc").unlink()
    schema.write_bytes(content.replace(b'"long"', b'"lang"'))
    checkpoint = hdfsstore.Checkpoint(path)
    with pytest.raises(hdfsstore.UnsupportedTypeError, match=r"'index'.*lang") as error:
        checkpoint.read_state(0, "left-keyWithIndexToValue")
    assert error.value.path == schema.as_posix()
    assert checkpoint.read_state(0, "left-keyToNumValues").num_rows > 0
    assert checkpoint.read_state(join_side="right").num_rows > 0
    assert [store.name for store in checkpoint.operator(0).stores if store.key_schema is not None][
        1
    ] == "left-keyWithIndexToValue"


def test_rocksdb_is_streamed_and_its_logs_are_read(placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / "rocksdb_unique_ids/checkpoint"))
    assert checkpoint.batches[-1].state_unique_ids
    assert checkpoint.operator(0).store().value_schema is not None
    assert counted(checkpoint.open_state().read_all()) == counted(checkpoint.read_state())


def test_a_partition_without_its_folder(copy: Callable[[str], Path]) -> None:
    path = copy("aggregation")
    shutil.rmtree(path / "state/0/1")
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match="no partition 1"):
        hdfsstore.Checkpoint(path).read_state()


@pytest.mark.parametrize("case", ["global_limit", "aggregation_complete"])
def test_an_operator_without_keys_has_partition_0_alone(case: str, placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / case / "checkpoint"))
    assert any(store.partition_ids == [0] for operator in checkpoint.operators for store in operator.stores)
    for operator in checkpoint.operators:
        assert checkpoint.read_state(operator.operator_id).num_rows > 0


def test_a_folder_without_any_file_is_read_as_empty_with_a_warning(
    copy: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = copy("aggregation")
    for file in (path / "state/0/1").glob("*.delta"):
        file.unlink()
    with caplog.at_level(logging.WARNING):
        table = hdfsstore.Checkpoint(path).read_state()
    assert set(table["partition_id"].to_pylist()) == {0}
    assert "read as empty" in caplog.text


def test_a_store_without_a_folder_does_not_exist(copy: Callable[[str], Path]) -> None:
    path = copy("join_inner")
    metadata = path / "state/0/_metadata/metadata"
    metadata.with_name(".metadata.crc").unlink()
    metadata.write_text(metadata.read_text().replace("left-keyToNumValues", "left-kayToNumValues"))
    with pytest.raises(hdfsstore.StateStoreError, match="left-kayToNumValues"):
        hdfsstore.Checkpoint(path).read_state(
            0, "left-kayToNumValues", key_schema=pa.schema([]), value_schema=pa.schema([])
        )


def test_one_record_is_bounded(placed: Callable[[Path], Any]) -> None:
    checkpoint = opened(placed(SPARK / "aggregation/checkpoint"), max_record_bytes=8)
    with pytest.raises(hdfsstore.CorruptFileError, match=r"more than the 8 allowed.*max_record_bytes"):
        checkpoint.read_state()


def test_deduplicated_rows_of_spark_3_2_after_an_upgrade(tmp_path: Path) -> None:
    """Spark 4 writes operator metadata when it goes on with a query, and keeps the schema file."""
    source = DATA / "spark-3.2.1/drop_duplicates/checkpoint"
    path = Path(shutil.copytree(source, tmp_path / "cp"))
    expected = hdfsstore.Checkpoint(source).read_state()
    metadata = path / "state/0/_metadata/metadata"
    metadata.parent.mkdir()
    stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}]
    operator = {"operatorInfo": {"operatorId": 0, "operatorName": "dedupe"}, "stateStoreInfo": stores}
    metadata.write_text(f"v1\n{json.dumps(operator)}")
    table = hdfsstore.Checkpoint(path).read_state()
    assert table.schema == expected.schema
    assert counted(table) == counted(expected)


def test_the_schema_of_the_user_tells_that_there_are_no_keys(copy: Callable[[str], Path]) -> None:
    path = copy("global_limit")
    store = next(op for op in hdfsstore.Checkpoint(path).operators if op.name == "globalLimit").store()
    schemas = {"key_schema": store.key_schema, "value_schema": store.value_schema}
    expected = hdfsstore.Checkpoint(path).read_state(store.operator_id)
    shutil.rmtree(path / f"state/{store.operator_id}/0/_metadata")
    assert counted(hdfsstore.Checkpoint(path).read_state(store.operator_id, **schemas)) == counted(expected)


def test_a_partition_without_its_folder_that_is_asked_for(copy: Callable[[str], Path]) -> None:
    path = copy("aggregation")
    shutil.rmtree(path / "state/0/1")
    checkpoint = hdfsstore.Checkpoint(path)
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match="no partition 1"):
        checkpoint.read_state(partitions=[1])
    assert checkpoint.read_state(partitions=[0]).num_rows > 0


def test_any_declared_partition_of_an_operator_without_keys_may_be_asked_for() -> None:
    checkpoint = hdfsstore.Checkpoint(SPARK / "global_limit/checkpoint")
    declared = checkpoint.operator(0).store().num_partitions
    assert declared > 1
    assert checkpoint.read_state(partitions=[declared - 1]).num_rows == 0


def test_a_huge_declared_number_of_partitions(copy: Callable[[str], Path]) -> None:
    path = copy("aggregation")
    for entry in path.glob("offsets/[0-9]*"):
        entry.with_name(f".{entry.name}.crc").unlink()
        entry.write_text(entry.read_text().replace('partitions":"2"', 'partitions":"1000000000000"'))
    with pytest.raises(hdfsstore.CheckpointNotFoundError, match="no partition 2"):
        hdfsstore.Checkpoint(path).read_state()


@pytest.mark.parametrize("threads", [0, -1])
def test_there_is_at_least_one_thread(threads: int) -> None:
    with pytest.raises(ValueError, match="at least one thread"):
        hdfsstore.Checkpoint(SPARK / "aggregation/checkpoint", num_threads=threads)


@pytest.mark.parametrize("partition", [0, 1])
def test_a_damaged_snapshot_of_a_joins_numbers_is_passed_over(root: Any, partition: int) -> None:
    copy_to(SPARK / "join_inner/checkpoint", root)
    expected = counted(opened(root).read_state(join_side="left"))
    (root / f"state/0/{partition}/left-keyToNumValues/2.snapshot").write_bytes(b"damaged")
    checkpoint = opened(root)
    assert counted(checkpoint.read_state(join_side="left")) == expected
    assert counted(checkpoint.open_state(join_side="left").read_all()) == expected


def test_a_joins_numbers_with_a_key_twice(copy: Callable[[str], Path]) -> None:
    path = copy("join_inner")
    folder = path / "state/0/0/left-keyToNumValues"
    file_format = RecordFormat()
    with open_input(LocalFileManager(), str(folder / "1.delta")) as delta:
        [chunk] = read_chunks(delta, file_format, "delta", "1.delta")
        [key, value] = (
            bytes(chunk.data[span[0] : span[0] + span[1]])
            for span in (memoryview(spans).cast("i")[:2] for spans in (chunk.keys, chunk.values))
        )
    snapshot = encode_records(pa.array([key, key]), pa.array([value, value]))
    for file in folder.glob("*.delta"):
        file.unlink()
    (folder / "3.snapshot").write_bytes(compress("lz4", snapshot))
    with pytest.raises(hdfsstore.CorruptFileError, match=r"3\.snapshot.*a key twice"):
        hdfsstore.Checkpoint(path).read_state(join_side="left", batch_id=2)


def test_an_unknown_codec_is_an_error_that_names_the_file(copy: Callable[[str], Path]) -> None:
    path = copy("aggregation")
    for log in (path / "offsets").glob("[0-9]*"):
        log.with_name(f".{log.name}.crc").unlink()
        log.write_text(log.read_text().replace('codec":"lz4"', 'codec":"lz5"'))
    with pytest.raises(hdfsstore.StateStoreError, match=r"/state/0/\d/\d+\.\w+: .*'lz5'"):
        hdfsstore.Checkpoint(path).read_state()


def test_a_log_that_is_purged_after_its_listing_leaves_the_conf_of_the_next(
    copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy("codec_zstd")
    expected = counted(hdfsstore.Checkpoint(path).read_state(batch_id=0))
    read = MetadataLog.read

    def purged(log: MetadataLog[object], listing: Listing, batch_id: int) -> object:
        (path / "offsets/0").unlink(missing_ok=True)
        return read(log, listing, batch_id)

    checkpoint = hdfsstore.Checkpoint(path)
    logged = checkpoint._logs.look()
    monkeypatch.setattr(BatchLogs, "look", lambda _: logged)
    monkeypatch.setattr(MetadataLog, "read", purged)
    assert counted(checkpoint.read_state(batch_id=0)) == expected


@pytest.mark.parametrize("name", ["commits/0", "state/0/0/_metadata/schema", "state/0/_metadata/metadata"])
def test_a_damaged_log_or_schema_names_file_place_and_remedy(name: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(SPARK / "rocksdb_unique_ids/checkpoint", tmp_path / "checkpoint"))
    (copy / name).write_bytes((copy / name).read_bytes()[:-9])
    (copy / name).with_name(f".{Path(name).name}.crc").unlink()
    with pytest.raises(hdfsstore.CorruptFileError) as caught:
        hdfsstore.Checkpoint(copy).read_state(batch_id=0)
    assert caught.value.path == str(copy / name)
    assert caught.value.offset
    assert caught.value.remedy == "Restore the file from a copy"
