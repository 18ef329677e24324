"""Every checkpoint of tests/data, row for row as Spark read it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hdfsstore
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.murmur3 import hash_rows
from hdfsstore.codecs.types import StructType, parse_type
from tests.support.rows import counted
from tests.support.truth import DATA, Read, few_reads, reads, rocksdb_reads
from tests.unit.checkpoint.build import opened


def ours(read: Read, root: Any) -> pa.Table:
    checkpoint = opened(root)
    facts = read.facts
    where = facts["operator_id"], facts["store_name"]
    options: dict[str, Any] = {"unique_names": False}
    if not facts["join_side"] and checkpoint.operator(where[0]).store(where[1]).key_schema is None:
        # Spark 2 wrote no schema files; Spark 4.3 was given these to read the rows.
        options |= {f"{part}_schema": to_arrow_schema(parse_type(facts[f"{part}_schema"])) for part in ("key", "value")}
    if facts["change_feed"]:
        return checkpoint.read_changes(*facts["change_feed"], *where, **options)
    return checkpoint.read_state(*where, facts["batch_id"], join_side=facts["join_side"], **options)


@pytest.mark.parametrize("read", few_reads([*reads(), *rocksdb_reads()]), ids=str)
def test_rows_are_sparks(read: Read, placed: Callable[[Path], Any]) -> None:
    expected = read.rows
    if "key_hash" in expected.column_names:
        expected = expected.drop_columns("key_hash")
    root = placed(read.case.checkpoint)
    if read.crosses_repartition:  # Spark gives what it finds in the folders of the last batch
        with pytest.raises(hdfsstore.BatchNotAvailableError, match="no deltas lead from one to the other"):
            ours(read, root)
        return
    table = ours(read, root)
    if "value" not in expected.column_names:
        # Spark 3.2 and 3.3 declare dropDuplicates' input row and keep a single null, which Spark 4.3 cannot read.
        assert table["value"].type == pa.struct([pa.field("__dummy__", pa.null())])
        table = table.drop_columns("value")
    assert table.column_names == expected.column_names
    if read.case.folder.name.endswith("flat_map_groups_with_state_format1"):
        table = with_int_timeout(table)
    assert [unnamed(field.type) for field in table.schema] == [unnamed(field.type) for field in expected.schema]
    assert counted(table) == counted(expected)


@pytest.mark.parametrize("read", [read for read in reads() if read.facts["file"]], ids=str)
def test_key_hashes_are_sparks(read: Read) -> None:
    key_type = parse_type(read.facts["key_schema"])
    assert isinstance(key_type, StructType)
    ours = hash_rows(read.rows["key"].combine_chunks(), key_type)
    assert ours.to_pylist() == read.rows["key_hash"].to_pylist()


def test_a_timeout_declared_an_int_is_the_long_that_is_kept() -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / "spark-4.3.0/flat_map_groups_with_state_format1/checkpoint")
    timeouts = checkpoint.read_changes(0, checkpoint.latest_batch_id)["value"].combine_chunks().field(3)
    assert timeouts.type == pa.int64()
    assert pc.max(timeouts).as_py() > 1_600_000_000_000  # milliseconds since 1970


def with_int_timeout(table: pa.Table) -> pa.Table:
    """State format 1 keeps a long where an int is declared; Spark shows its low 32 bits (see spark_quirks.py)."""
    at = table.column_names.index("value")
    value = table.column(at).combine_chunks()
    *fields, timeout = value.flatten()
    low = pa.array([None if x is None else (x + 2**31) % 2**32 - 2**31 for x in timeout.to_pylist()], pa.int64())
    kinds = [*list(value.type)[:-1], pa.field("timeoutTimestamp", pa.int32())]
    cut = pa.StructArray.from_arrays([*fields, low.cast(pa.int32())], fields=kinds, mask=value.is_null())
    return table.set_column(at, "value", cut)


def unnamed(kind: pa.DataType) -> pa.DataType:
    """A type without what Arrow lets differ: nullability, metadata, and the names of lists' and maps' inner fields."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, unnamed(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(unnamed(kind.key_type), unnamed(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(unnamed(kind.value_type))
    return kind


@pytest.mark.parametrize("spark", ["3.5", "4.0", "4.1", "4.3"])
def test_there_is_a_checkpoint_of_each_kind_from_each_spark(spark: str) -> None:
    kinds = {path.parent.name for path in DATA.glob(f"spark-{spark}*/*/truth")}
    assert kinds >= {
        "aggregation", "window_aggregation", "session_window", "drop_duplicates", "drop_duplicates_within_watermark",
        "join_inner", "join_left_outer", "flat_map_groups_with_state", "apply_in_pandas_with_state",
        "dedup_then_aggregate", "global_limit", "codec_lzf", "codec_snappy", "codec_zstd", "snapshots",
        "unfinished_batch", "types_keys",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spark", "kinds"),
    [
        ("3.2", {"aggregation", "window_aggregation", "session_window", "drop_duplicates", "self_join"}),
        ("3.5", {"aggregation", "changelog", "changelog_later", "snapshots", "many_levels", "join_format1"}),
        ("4.0", {
            "aggregation", "window_aggregation", "join_left_outer", "snapshots", "changelog", "unique_ids",
            "unique_ids_zips", "unique_ids_snapshots",
        }),
        ("4.1", {
            "aggregation", "window_aggregation", "join_left_outer", "snapshots", "join_format3", "unique_ids",
            "unique_ids_snapshots",
        }),
        ("4.3", {
            "unique_ids", "unique_ids_zips", "unique_ids_snapshots", "unique_ids_retried", "untracked_rows",
            "join_left_outer", "join_format3", "join_format3_outer", "join_format4", "join_format4_unique_ids",
            "row_checksum", "row_checksum_zips", "row_checksum_join", "codec_snappy", "codec_zstd", "many_levels",
            "compact_on_commit", "range_deletions", "range_deletions_in_changelogs", "single_deletions", "ingested",
            "session_window", "session_window_zips", "drop_duplicates", "drop_duplicates_within_watermark",
            "global_limit", "flat_map_groups_with_state", "apply_in_pandas_with_state", "join_format4_outer",
            "join_right_outer",
            *(f"compression_{name}" for name in ("none", "snappy", "z", "bzip2", "lz4hc", "zstd")),
            *(f"checksum_{name}" for name in ("kcrc32c", "kxxhash", "kxxhash64", "knochecksum")),
            *(f"format_version_{number}" for number in (1, 2, 3, 4, 6)),
        }),
    ],
)  # fmt: skip
def test_there_is_a_checkpoint_of_each_kind_on_rocksdb(spark: str, kinds: set[str]) -> None:
    assert {path.parent.name.removeprefix("rocksdb_") for path in DATA.glob(f"spark-{spark}*/rocksdb_*/truth")} >= kinds


@pytest.mark.parametrize(
    ("spark", "kinds"),
    [
        ("4.0.0", {"with_state"}),
        ("4.0.5", {"ttl", "event_timers", "avro_totals", "jvm", "totals_unique_ids"}),
        ("4.1", {"structures", "avro_totals", "unique_ids"}),
        ("4.3", {
            "structures", "structures_zips", "unique_ids", "merge_operator_1", "merge_operator_2", "row_checksum",
            "row_checksum_zips", "ttl", "ttl_zips", "ttl_expired", "event_timers", "event_timers_zips", "clock_timers",
            "avro", "avro_zips", "avro_ttl", "avro_timers", "avro_evolved", "avro_evolved_zips", "jvm",
            "jvm_pairs_zips", "jvm_avro", "jvm_avro_ttl",
        }),
    ],
)  # fmt: skip
def test_there_is_state_of_transform_with_state(spark: str, kinds: set[str]) -> None:
    found = {path.parent.name for path in DATA.glob(f"spark-{spark}*/transform_*/truth")}
    assert {name.removeprefix("transform_") for name in found} >= kinds
