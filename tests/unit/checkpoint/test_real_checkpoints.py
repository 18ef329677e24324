"""What real Sparks left behind, against what they said of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.conf import HDFS_PROVIDER, ROCKSDB_PROVIDER, compression_codec, row_checksum
from hdfsstore.codecs.types import StructField, StructType, parse_type
from tests.support.truth import Case, few
from tests.unit.checkpoint.real_checkpoints import CASES, truth

pytestmark = pytest.mark.parametrize(
    "case",
    few(CASES, Case, lambda path: json.dumps(truth(path)["operators"])),
    ids=lambda path: f"{path.parent.name}/{path.name}",
)


def columns(struct: StructType | None) -> list[tuple[str, object]]:
    """Names and types; Spark's reader adds and drops metadata of its own."""
    assert struct is not None
    return [(field.name, plain(field)) for field in struct.fields]


def plain(field: StructField) -> object:
    return columns(field.type) if isinstance(field.type, StructType) else field.type


def test_batches(case: Path) -> None:
    expected = truth(case)
    checkpoint = Checkpoint(case / "checkpoint")
    batches = checkpoint.batches
    assert [b.batch_id for b in batches if b.committed] == expected["committed_batches"]
    assert [b.batch_id for b in batches if not b.committed] == expected["unfinished_batches"]
    assert checkpoint.latest_batch_id == expected["committed_batches"][-1]
    assert checkpoint.query_id == json.loads((case / "checkpoint" / "metadata").read_text())["id"]
    for batch in batches:
        assert checkpoint.batch(batch.batch_id) == batch
        assert batch.timestamp_ms > 1_600_000_000_000
        assert batch.offsets
        assert len(batch.offsets) == len(batch.source_ids)


def test_conf(case: Path) -> None:
    expected = truth(case)
    given = expected["confs"]
    codec = given.get("spark.sql.streaming.stateStore.compression.codec", "lz4")
    # Spark 4.1 does not know row checksums yet.
    version = tuple(map(int, expected["spark"].split(".")[:2]))
    checksums = version >= (4, 2) and given.get("spark.sql.streaming.stateStore.rowChecksum.enabled") == "true"
    for batch in Checkpoint(case / "checkpoint").batches:
        assert compression_codec(batch.conf) == codec
        assert row_checksum(batch.conf) == checksums


def test_operators_and_stores(case: Path) -> None:
    expected = truth(case)["operators"]
    operators = Checkpoint(case / "checkpoint").operators
    assert [o.operator_id for o in operators] == [o["operator_id"] for o in expected]
    for operator, wanted in zip(operators, expected, strict=True):
        assert operator.name in (wanted["operator_name"], None)
        assert sorted(store.name for store in operator.stores) == sorted(wanted["stores"])
        for store in operator.stores:
            assert store.num_partitions >= len(store.partition_ids) > 0
            assert all(Path(store.partition_path(number)).is_dir() for number in store.partition_ids)


def test_as_sparks_state_metadata_source(case: Path) -> None:
    checkpoint = Checkpoint(case / "checkpoint")
    for row in truth(case).get("state_metadata", []):
        operator = checkpoint.operator(row["operatorId"])
        assert operator.name == row["operatorName"]
        number = operator.store(row["stateStoreName"]).num_partitions
        if not truth(case).get("borrowed_folders"):  # Spark's repartition leaves most metadata alone
            assert number == row["numPartitions"]
        assert operator.properties == json.loads(row["operatorProperties"] or "{}")
        batch_ids = [batch.batch_id for batch in checkpoint.batches if batch.committed]
        assert (batch_ids[0], batch_ids[-1]) == (row["minBatchId"], row["maxBatchId"])


def test_schemas(case: Path) -> None:
    checkpoint = Checkpoint(case / "checkpoint")
    for read in truth(case)["reads"]:
        if read["join_side"] is None and read["state_variable"] is None and not read.get("timers"):
            store = checkpoint.operator(read["operator_id"], read["batch_id"]).store(read["store_name"])
            if not Path(store.schema_path).exists():
                assert truth(case)["spark"] < "3"
                assert store.key_schema is store.value_schema is None
                continue
            assert columns(store.key_type) == columns(parse_type(read["key_schema"]))
            assert columns(store.value_type) == columns(parse_type(read["value_schema"]))
            assert store.key_schema.names == [name for name, _ in columns(store.key_type)]


def test_provider(case: Path) -> None:
    checkpoint = Checkpoint(case / "checkpoint")
    has_rocksdb_files = any(case.glob("checkpoint/state/**/*.zip"))
    has_rocksdb_files |= any(case.glob("checkpoint/state/**/*.changelog"))
    if has_rocksdb_files:
        assert checkpoint.provider == ROCKSDB_PROVIDER
    else:
        assert checkpoint.provider == HDFS_PROVIDER


def test_nothing_is_written_and_a_moved_copy_reads_the_same(case: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "moved"
    shutil.copytree(case / "checkpoint", copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = {path: path.lstat().st_mtime_ns for path in copy.rglob("*")}
    original, moved = Checkpoint(case / "checkpoint"), Checkpoint(copy)
    try:
        assert moved.batches == original.batches
        assert [(o.name, [(s.name, s.column_families) for s in o.stores], o.properties) for o in moved.operators] == [
            (o.name, [(s.name, s.column_families) for s in o.stores], o.properties) for o in original.operators
        ]
        assert {path: path.lstat().st_mtime_ns for path in copy.rglob("*")} == before
    finally:
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o755)
