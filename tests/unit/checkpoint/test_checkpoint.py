"""Checkpoints built by hand: what real ones rarely hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import hdfsstore
from hdfsstore import (
    BatchNotAvailableError,
    Checkpoint,
    CheckpointNotFoundError,
    CorruptFileError,
    StateStoreError,
    UnsupportedProviderError,
    UnsupportedVersionError,
)
from hdfsstore.checkpoint.conf import compression_codec, row_checksum
from hdfsstore.fs.local_files import LocalFileManager
from tests.unit.checkpoint.build import (
    HDFS,
    ROCKSDB,
    checkpoint,
    commit,
    offsets,
    opened,
    operator_metadata,
    put,
    schema_v1,
    schema_v2,
    schema_v3,
    store,
)

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def test_public_names() -> None:
    assert {"Checkpoint", "Batch", "Operator", "Store"} <= set(hdfsstore.__all__)
    errors = [getattr(hdfsstore, name) for name in hdfsstore.__all__ if name.endswith("Error")]
    assert len(errors) >= 9
    assert all(issubclass(error, StateStoreError) for error in errors)


class TestBatches:
    def test_finished_and_unfinished(self, root: Any) -> None:
        cp = opened(checkpoint(root, 2, a="b"))
        offsets(root, 2, "-\n3")
        put(root / "offsets" / ".3.0f8fad5b.tmp", "v1")
        assert cp.query_id == "the-query"
        assert [(b.batch_id, b.committed) for b in cp.batches] == [(0, True), (1, True), (2, False)]
        first, last = cp.batches[0], cp.batches[2]
        assert (first.watermark_ms, first.timestamp_ms, first.next_watermark_ms) == (5, 1700000000000, 7)
        assert (first.conf, first.offsets, first.source_ids) == ({"a": "b"}, ['{"logOffset":2}'], ["0"])
        assert (last.offsets, last.source_ids, last.next_watermark_ms) == ([None, "3"], ["0", "1"], None)
        assert last.state_unique_ids == {}
        assert cp.latest_batch_id == 1

    def test_a_running_query_adds_and_removes_them(self, root: Any) -> None:
        cp = opened(checkpoint(root, 2))
        assert cp.latest_batch_id == 1
        offsets(root, 2)
        assert cp.latest_batch_id == 1
        commit(root, 2)
        (root / "offsets" / "0").unlink()
        assert cp.latest_batch_id == 2
        assert [b.batch_id for b in cp.batches] == [1, 2]
        with pytest.raises(BatchNotAvailableError, match=r"does not keep batch 0.* 1 to 2"):
            cp.batch(0)

    def test_spark_2_1_without_commit_log(self, root: Any) -> None:
        put(root / "metadata", '{"id":"x"}')
        for batch_id in range(3):
            put(root / "offsets" / str(batch_id), 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}\n{}')
        cp = opened(root)
        assert [(b.batch_id, b.committed) for b in cp.batches] == [(0, True), (1, True), (2, True)]
        assert cp.latest_batch_id == 2
        assert (compression_codec(cp.batch(1).conf), row_checksum(cp.batch(1).conf)) == ("lz4", False)

    def test_commit_log_lost(self, root: Any) -> None:
        cp = opened(checkpoint(root, 2, a="b"))
        for path in (root / "commits").iterdir():
            path.unlink()
        assert [(b.batch_id, b.committed) for b in cp.batches] == [(0, False), (1, False)]

    def test_nothing_committed(self, root: Any) -> None:
        put(root / "metadata", '{"id":"x"}')
        cp = opened(root)
        assert cp.batches == []
        with pytest.raises(BatchNotAvailableError, match="not begun"):
            _ = cp.latest_batch_id
        with pytest.raises(BatchNotAvailableError, match="keeps none"):
            cp.batch(0)
        offsets(root, 0, a="b")
        assert [(b.batch_id, b.committed) for b in cp.batches] == [(0, False)]
        with pytest.raises(BatchNotAvailableError, match="batch 0 is under way"):
            _ = cp.latest_batch_id

    def test_newer_log_is_named_and_the_rest_is_read(self, root: Any) -> None:
        cp = opened(checkpoint(root, 3))
        put(root / "commits" / "1", "v9\n{}")
        with pytest.raises(UnsupportedVersionError, match=r"version 9 .* version 3") as caught:
            _ = cp.batches
        assert caught.value.path == str(root / "commits" / "1")
        assert cp.latest_batch_id == 2
        assert cp.batch(2).committed

    def test_unique_ids(self, root: Any) -> None:
        checkpoint(root, 1)
        commit(root, 0, 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"1":[["a"],["b"]]}}')
        assert opened(root).batch(0).state_unique_ids == {1: [["a"], ["b"]]}


class TestCutEntries:
    """Spark syncs no file of its logs: after a power cut the newest may be empty, or end early."""

    @pytest.mark.parametrize("cut", ["", "v", 'v1\n{"batchWater'])
    def test_of_a_batch_that_has_begun(self, root: Any, cut: str) -> None:
        put(checkpoint(root, 2, **{PROVIDER: HDFS}) / "offsets" / "2", cut)
        cp = opened(root)
        assert [(b.batch_id, b.committed) for b in cp.batches] == [(0, True), (1, True)]
        assert (cp.latest_batch_id, cp.provider, cp.operators) == (1, HDFS, [])
        (error,) = cp.damaged
        assert error.path == str(root / "offsets" / "2")
        assert error.remedy is not None
        assert "delete it" in error.remedy
        with pytest.raises(CorruptFileError, match=r"offsets/2.*delete it"):
            cp.batch(2)
        offsets(root, 2)
        assert cp.damaged == []
        assert [b.batch_id for b in cp.batches] == [0, 1, 2]

    @pytest.mark.parametrize("cut", ["", "v", 'v1\n{"nextBatch'])
    def test_of_a_batch_that_has_ended(self, root: Any, cut: str) -> None:
        commit(checkpoint(root, 3), 2, cut)
        cp = opened(root)
        assert [(b.batch_id, b.committed) for b in cp.batches] == [(0, True), (1, True), (2, False)]
        assert not cp.batch(2).committed
        assert cp.latest_batch_id == 1
        with pytest.raises(BatchNotAvailableError, match="batch 2 was begun and is not committed"):
            cp.read_state(batch_id=2)
        (error,) = cp.damaged
        assert error.path == str(root / "commits" / "2")
        assert "Batch 2 runs again" in str(error)

    def test_in_both_logs(self, root: Any) -> None:
        commit(checkpoint(root, 2, **{"spark.sql.shuffle.partitions": "3"}), 2, "")
        put(root / "offsets" / "2", "")
        put(root / "state" / "0" / "0" / "1.delta", "")
        cp = opened(root)
        assert [b.batch_id for b in cp.batches] == [0, 1]
        assert [error.path for error in cp.damaged] == [str(root / f"{log}/2") for log in ("offsets", "commits")]
        assert cp.operator().store().num_partitions == 3

    def test_alone(self, root: Any) -> None:
        put(root / "offsets" / "0", "")
        cp = opened(root)
        assert (cp.batches, len(cp.damaged)) == ([], 1)
        with pytest.raises(BatchNotAvailableError, match="not begun"):
            _ = cp.latest_batch_id

    @pytest.mark.parametrize("name", ["offsets/1", "offsets/2", "commits/1", "commits/2"])
    def test_any_other_is_an_error(self, root: Any, name: str) -> None:
        """Of offsets/2 the batch is done; after commits/2 another batch has begun."""
        checkpoint(root, 3)
        if name == "commits/2":
            offsets(root, 3)
        put(root / name, "")
        cp = opened(root)
        assert cp.damaged == []
        with pytest.raises(CorruptFileError, match=name):
            _ = cp.batches


class TestLocation:
    def test_every_kind(self, tmp_path: Path) -> None:
        root = checkpoint(tmp_path / "c p")
        below = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
        for location in (root, str(root), f"{root}/", root.as_uri(), (LocalFileSystem(), str(root)), (below, "c p")):
            assert Checkpoint(location).query_id == "the-query"

    @pytest.mark.parametrize("below", ["state", "state/0", "offsets", "metadata", "nothing/there"])
    def test_too_deep_names_the_checkpoint(self, tmp_path: Path, below: str) -> None:
        root = checkpoint(tmp_path / "cp")
        put(root / "state" / "0" / "0" / "1.delta", "")
        with pytest.raises(CheckpointNotFoundError) as caught:
            Checkpoint(root / below)
        assert caught.value.remedy == f"{root} is one: open that"

    def test_too_high_names_the_checkpoint(self, tmp_path: Path) -> None:
        root = checkpoint(tmp_path / "cp")
        (tmp_path / "a").mkdir()
        with pytest.raises(CheckpointNotFoundError) as caught:
            Checkpoint(tmp_path)
        assert caught.value.remedy == f"{root} is one: open that"

    def test_nothing_near(self, tmp_path: Path) -> None:
        (tmp_path / "metadata").mkdir()  # an Iceberg table has such a folder
        with pytest.raises(CheckpointNotFoundError, match="checkpointLocation"):
            Checkpoint(tmp_path)

    @pytest.mark.parametrize(
        ("method", "raised"),
        [("file_infos", "Give the checkpointLocation"), ("list_folder", "permission denied")],
        ids=["near", "itself"],
    )
    def test_a_folder_that_may_not_be_read(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, raised: str
    ) -> None:
        """One near it is passed over; of the folder itself nobody can tell that it is no checkpoint."""

        def refuse(*_: object) -> None:
            raise StateStoreError("permission denied")

        monkeypatch.setattr(LocalFileManager, method, refuse)
        with pytest.raises(StateStoreError, match=raised):
            Checkpoint(checkpoint(tmp_path) if method == "list_folder" else tmp_path)

    def test_query_id_missing_or_damaged(self, root: Any) -> None:
        checkpoint(root)
        (root / "metadata").unlink()
        cp = opened(root)
        assert cp.latest_batch_id == 1
        with pytest.raises(CheckpointNotFoundError, match="lacks this file"):
            _ = cp.query_id
        for content in ("", "{}", '{"id":3}', "x"):
            put(root / "metadata", content)
            with pytest.raises(CorruptFileError) as caught:
                _ = cp.query_id
            assert caught.value.path == str(root / "metadata")
            assert caught.value.remedy is not None
            assert '{"id":"..."}' in caught.value.remedy


class TestOperators:
    def test_without_state(self, root: Any) -> None:
        cp = opened(checkpoint(root))
        assert cp.operators == []
        with pytest.raises(CheckpointNotFoundError, match=r"no operator 0.*keeps no state"):
            cp.operator(0)

    def test_metadata_of_version_1(self, root: Any) -> None:
        checkpoint(root)
        for number in (0, 10, 2):
            folder = root / "state" / str(number)
            put(folder / "_metadata" / "metadata", operator_metadata(store(), store("left-keyToNumValues")))
            put(folder / "0" / "1.delta", "")
            put(folder / "1" / "1.delta", "")
        put(root / "state" / "_x" / "y", "")
        cp = opened(root)
        assert [(o.operator_id, o.name) for o in cp.operators] == [(n, "stateStoreSave") for n in (0, 2, 10)]
        found = cp.operator(10).store("left-keyToNumValues")
        assert (found.num_partitions, found.num_cols_prefix_key, found.partition_ids) == (3, 0, [0, 1])
        assert found.partition_path(1) == f"{root}/state/10/1/left-keyToNumValues"
        assert cp.operator(10).store().partition_path(1) == f"{root}/state/10/1"
        with pytest.raises(CheckpointNotFoundError, match=r"no store 'x'.*default, left-keyToNumValues"):
            cp.operator(2).store("x")
        with pytest.raises(CheckpointNotFoundError, match=r"no operator 1.*0, 2, 10"):
            cp.operator(1)

    @pytest.mark.parametrize("ids", [None, (0, 1)])
    @pytest.mark.parametrize("one", [False, True])
    def test_metadata_of_version_2_at_a_batch(self, root: Any, ids: tuple[int, int] | None, one: bool) -> None:
        checkpoint(root, 6)
        folder = root / "state" / "0"
        was = "file:/gone/elsewhere/state/0/_stateSchema/default/"
        for batch_id, name, families in [(0, "0_u", ["a"]), (5, "5_u", ["a", "b"])]:
            path = {"stateSchemaFilePath": was + name} if one else {"stateSchemaFilePaths": [was + "old", was + name]}
            text = operator_metadata(store(**path), version=2, operatorPropertiesJson='{"timeMode":"NoTime"}')
            put(folder / "_metadata" / "v2" / str(batch_id), text)
            put(folder / "_stateSchema" / "default" / name, schema_v3(*families, ids=ids))
        put(folder / "_metadata" / "metadata", operator_metadata(store(), name="old"))
        put(folder / "0" / "1.delta", "")
        cp = opened(root)
        assert [family.name for family in cp.operator(0, 4).store().column_families] == ["a"]
        newest = cp.operator(0)
        assert (newest.name, newest.properties) == ("stateStoreSave", {"timeMode": "NoTime"})
        assert [family.name for family in newest.store().column_families] == ["a", "b"]
        assert cp.operator(0, 4).store().key_schema == pa.schema([("k", pa.string())])
        assert newest.store().key_type is newest.store().value_schema is None

    def test_from_the_folders(self, tmp_path: Path) -> None:
        checkpoint(tmp_path)
        state = tmp_path / "state"
        put(state / "0" / "0" / "1.delta", "")
        put(state / "0" / "0" / "_metadata" / "schema", schema_v1())
        put(state / "0" / "4" / "1.delta", "")
        put(state / "1" / "0" / "left" / "_metadata" / "schema", schema_v2())
        put(state / "1" / "0" / "left" / "1.delta", "")
        put(state / "1" / "1" / "right" / "1.delta", "")
        (state / "2" / "0").mkdir(parents=True)
        operators = Checkpoint(tmp_path).operators
        assert [(o.name, [s.name for s in o.stores]) for o in operators] == [
            (None, ["default"]),
            (None, ["left", "right"]),
            (None, ["default"]),
        ]
        first = operators[0].store()
        assert (first.num_partitions, first.num_cols_prefix_key, first.partition_ids) == (5, None, [0, 4])
        assert first.key_schema == operators[1].store("left").key_schema == pa.schema([("k", pa.string())])
        assert first.value_schema == pa.schema([pa.field("n", pa.int64(), nullable=False)])
        right = operators[1].store("right")
        assert right.key_schema is right.value_schema is right.key_type is right.value_type is None

    def test_damage_names_the_file(self, root: Any) -> None:
        checkpoint(root)
        path = root / "state" / "0" / "_metadata" / "metadata"
        good = operator_metadata(store())
        for content in ("", "v1", "v1\n{}", good[:-3], good.replace('"default"', "1"), good.replace("3", '"3"')):
            put(path, content)
            with pytest.raises(CorruptFileError) as caught:
                _ = opened(root).operators
            assert caught.value.path == str(path)
        put(path, good.replace("v1", "v3"))
        with pytest.raises(UnsupportedVersionError, match=r"version 3 .* version 2") as newer:
            _ = opened(root).operators
        assert newer.value.path == str(path)

    @pytest.mark.parametrize(
        "properties",
        [
            '{"timeMode":["NoTime"]}',
            '{"stateVariables":{}}',
            '{"stateVariables":[1]}',
            '{"stateVariables":[{"stateName":"a"}]}',
            '{"stateVariables":[{"stateVariableType":"ValueState"}]}',
            '{"stateVariables":[{"stateName":1,"stateVariableType":"ValueState"}]}',
        ],
    )
    def test_damage_in_the_properties_names_the_file(self, root: Any, properties: str) -> None:
        checkpoint(root)
        path = root / "state" / "0" / "_metadata" / "v2" / "0"
        put(path, operator_metadata(store(), version=2, operatorPropertiesJson=properties))
        with pytest.raises(CorruptFileError) as caught:
            _ = opened(root).operators
        assert caught.value.path == str(path)

    def test_damaged_schema_leaves_the_rest_readable(self, root: Any) -> None:
        checkpoint(root)
        put(root / "state" / "0" / "0" / "a" / "_metadata" / "schema", schema_v2()[:-1])
        put(root / "state" / "0" / "0" / "b" / "_metadata" / "schema", schema_v2())
        operator = opened(root).operator(0)
        assert operator.store("b").key_schema is not None
        with pytest.raises(CorruptFileError) as caught:
            _ = operator.store("a").key_schema
        assert caught.value.path == operator.store("a").schema_path


class TestProvider:
    def test_as_pinned(self, root: Any) -> None:
        cp = opened(checkpoint(root, **{PROVIDER: HDFS}))
        assert cp.provider == HDFS
        offsets(root, 2, **{PROVIDER: ROCKSDB})
        assert cp.provider == ROCKSDB
        commit(root, 2, 'v1\n{"nextBatchWatermarkMs":0}')
        assert [b.batch_id for b in cp.batches] == [0, 1, 2]
        put(root / "offsets" / "2", "damaged")
        with pytest.raises(CheckpointNotFoundError, match="no operator 0"):
            cp.read_state(batch_id=1)  # An older batch does not need the newest one's log.

    def test_one_that_is_not_sparks(self, tmp_path: Path) -> None:
        cp = Checkpoint(checkpoint(tmp_path, **{PROVIDER: "com.example.Provider"}))
        with pytest.raises(UnsupportedProviderError, match=r"com.example.Provider.*cannot read") as caught:
            cp.read_state()
        assert caught.value.remedy

    @pytest.mark.parametrize(
        ("name", "provider"), [("1.delta", HDFS), ("1.zip", ROCKSDB), ("1.changelog", ROCKSDB), (".x.zip.tmp", HDFS)]
    )
    def test_by_the_files(self, tmp_path: Path, name: str, provider: str) -> None:
        put(checkpoint(tmp_path) / "state" / "0" / "0" / name, "")
        (tmp_path / "state" / "0" / "0" / "SSTs").mkdir()
        cp = Checkpoint(tmp_path)
        assert cp.provider == provider
        assert [store.name for store in cp.operator(0).stores] == ["default"]
