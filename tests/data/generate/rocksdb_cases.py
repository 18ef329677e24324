"""The cases of the RocksDB provider: its files, its confs, and each operator on it but transformWithState."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import functions as F

from . import cases
from .case import ALL, LAST, PROVIDER, ROCKSDB, SINCE_40, SINCE_41, Inputs, Query, Row, case
from .cases import CODEC, JOIN_FORMAT, ROW_CHECKSUM, SNAPSHOTS, counts, joined

CONF = "spark.sql.streaming.stateStore.rocksdb"
CHANGELOG = f"{CONF}.changelogCheckpointing.enabled"
ON_ZIPS = {PROVIDER: ROCKSDB, CHANGELOG: "false"}
ON_CHANGELOGS = {PROVIDER: ROCKSDB, CHANGELOG: "true"}
FORMAT_2 = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
IDS = {**ON_CHANGELOGS, **FORMAT_2}


@case("3.5", "4.0.0", confs=ON_CHANGELOGS)
def rocksdb_changelog(inputs: Inputs) -> Query:
    """RocksDB with changelog files, without unique ids."""
    return counts(inputs, 3)


# In Spark 4.0 the first case of a session that meets a zip decides about the version of the metadata in all others.
@case(*SINCE_40, confs=IDS, own_session=True)
def rocksdb_unique_ids(inputs: Inputs) -> Query:
    """RocksDB with checkpoint format version 2: unique ids in file names and commits/, file checksums."""
    return counts(inputs, 3)


@case(*LAST, confs=IDS)
def rocksdb_join_unique_ids(inputs: Inputs) -> Query:
    """Stream-stream join on RocksDB with checkpoint format version 2: several ids a partition in commits/."""
    return joined(inputs, "inner")


@case(*SINCE_41, confs={**ON_CHANGELOGS, JOIN_FORMAT: "3"})
def rocksdb_join_format3(inputs: Inputs) -> Query:
    """Stream-stream join with join state format 3: one store with a column family for each of the four."""
    return joined(inputs, "inner")


@case(*LAST, confs={**ON_CHANGELOGS, JOIN_FORMAT: "4"})
def rocksdb_join_format4(inputs: Inputs) -> Query:
    """Stream-stream join with join state format 4: column families by key and timestamp."""
    return joined(inputs, "inner")


@case(*LAST, confs={**ON_ZIPS, JOIN_FORMAT: "3"})
def rocksdb_join_format3_outer(inputs: Inputs) -> Query:
    """Stream-stream left outer join with join state format 3, snapshots only; old rows are evicted."""
    return joined(inputs, "leftOuter", 4)


@case(*LAST, confs={**ON_ZIPS, JOIN_FORMAT: "4"})
def rocksdb_join_format4_outer(inputs: Inputs) -> Query:
    """Stream-stream full outer join with join state format 4, snapshots only; old rows are evicted."""
    return joined(inputs, "fullOuter", 4)


@case(*LAST, confs={**IDS, JOIN_FORMAT: "4"})
def rocksdb_join_format4_unique_ids(inputs: Inputs) -> Query:
    """Stream-stream left outer join with join state format 4 and unique ids."""
    return joined(inputs, "leftOuter", 3)


@case("3.5", confs={**ON_CHANGELOGS, JOIN_FORMAT: "1"})
def rocksdb_join_format1(inputs: Inputs) -> Query:
    """Stream-stream inner join with join state format 1 on RocksDB."""
    return joined(inputs, "inner")


@case(*ALL, confs=ON_CHANGELOGS)
def rocksdb_join_left_outer(inputs: Inputs) -> Query:
    """Stream-stream left outer join with join state format 2 on RocksDB, with changelogs."""
    return joined(inputs, "leftOuter", 3)


@case(*LAST, confs=ON_ZIPS)
def rocksdb_join_right_outer(inputs: Inputs) -> Query:
    """Stream-stream right outer join with join state format 2 on RocksDB, snapshots only."""
    return joined(inputs, "rightOuter", 3)


@case(*ALL, confs=ON_ZIPS)
def rocksdb_aggregation(inputs: Inputs) -> Query:
    """groupBy on RocksDB, snapshots only; null keys and values."""
    return cases.aggregation(inputs)


@case(*LAST, confs=ON_ZIPS)
def rocksdb_aggregation_complete(inputs: Inputs) -> Query:
    """groupBy without keys in complete mode on RocksDB: an empty key row."""
    return cases.aggregation_complete(inputs)


@case(*ALL, confs=ON_CHANGELOGS)
def rocksdb_window_aggregation(inputs: Inputs) -> Query:
    """Tumbling windows in append mode on RocksDB, with changelogs: evicted windows are deletions."""
    return cases.window_aggregation(inputs)


@case("3.5", "4.3", confs=ON_CHANGELOGS)
def rocksdb_session_window(inputs: Inputs) -> Query:
    """Session windows on RocksDB, with changelogs: keys with a prefix."""
    return cases.session_window(inputs)


@case(*LAST, confs=ON_ZIPS)
def rocksdb_session_window_zips(inputs: Inputs) -> Query:
    """Session windows on RocksDB, snapshots only."""
    return cases.session_window(inputs)


@case("3.5", "4.3", confs=ON_CHANGELOGS)
def rocksdb_drop_duplicates(inputs: Inputs) -> Query:
    """dropDuplicates on RocksDB: a single null as value."""
    return cases.drop_duplicates(inputs)


@case("3.5", "4.3", confs=ON_ZIPS)
def rocksdb_drop_duplicates_within_watermark(inputs: Inputs) -> Query:
    """dropDuplicatesWithinWatermark on RocksDB, snapshots only."""
    return cases.drop_duplicates_within_watermark(inputs)


@case(*LAST, confs=ON_CHANGELOGS)
def rocksdb_dedup_then_aggregate(inputs: Inputs) -> Query:
    """Two operators in one query on RocksDB."""
    return cases.dedup_then_aggregate(inputs)


@case(*LAST, confs=ON_ZIPS)
def rocksdb_global_limit(inputs: Inputs) -> Query:
    """A streaming limit on RocksDB."""
    return cases.global_limit(inputs)


@case("3.5", "4.3", confs=ON_CHANGELOGS)
def rocksdb_apply_in_pandas_with_state(inputs: Inputs) -> Query:
    """applyInPandasWithState on RocksDB."""
    return cases.apply_in_pandas_with_state(inputs)


@case("3.5", "4.3", confs=ON_ZIPS)
def rocksdb_flat_map_groups_with_state(inputs: Inputs) -> Query:
    """flatMapGroupsWithState of the JVM on RocksDB."""
    return cases.flat_map_groups_with_state(inputs)


@case(*LAST, confs={**ON_CHANGELOGS, **ROW_CHECKSUM})
def rocksdb_row_checksum(inputs: Inputs) -> Query:
    """Row checksums on RocksDB, in changelogs with deletions."""
    return cases.window_aggregation(inputs)


@case(*LAST, confs={**ON_ZIPS, **ROW_CHECKSUM})
def rocksdb_row_checksum_zips(inputs: Inputs) -> Query:
    """Row checksums on RocksDB, snapshots only."""
    return counts(inputs, 3)


@case(*LAST, confs={**IDS, **ROW_CHECKSUM, JOIN_FORMAT: "4"})
def rocksdb_row_checksum_join(inputs: Inputs) -> Query:
    """Row checksums in a join of state format 4 with unique ids: rows that were merged."""
    return joined(inputs, "inner", 3)


@case("3.5", "4.3", confs={**ON_ZIPS, f"{CONF}.trackTotalNumberOfRows": "false"})
def rocksdb_untracked_rows(inputs: Inputs) -> Query:
    """The number of rows is not kept: numKeys is no number of keys."""
    return counts(inputs, 3)


@case(*ALL, confs={**ON_CHANGELOGS, **SNAPSHOTS}, own_session=True)
def rocksdb_snapshots(inputs: Inputs) -> Query:
    """Eleven batches with evictions on RocksDB; maintenance uploads a snapshot after four changelogs."""
    return cases.snapshots(inputs)


@case(*SINCE_40, confs={**IDS, **SNAPSHOTS}, own_session=True)
def rocksdb_unique_ids_snapshots(inputs: Inputs) -> Query:
    """Unique ids, changelogs with lineages, and snapshots by maintenance."""
    return cases.snapshots(inputs)


@case("4.0", "4.3", confs={**ON_ZIPS, **FORMAT_2}, own_session=True)
def rocksdb_unique_ids_zips(inputs: Inputs) -> Query:
    """Unique ids without changelogs."""
    return counts(inputs, 3)


@case(*LAST, confs=IDS)
def rocksdb_unique_ids_retried(inputs: Inputs) -> Query:
    """Batch 2 failed after its state was written, and ran again: two changelogs of version 3, one is in commits/2."""
    first = counts(inputs, 4)
    return replace(first, fail_in_batch=2, then=lambda: replace(first, fail_in_batch=None))


@case("3.5", "4.3", confs=ON_ZIPS)
def rocksdb_changelog_later(inputs: Inputs) -> Query:
    """Changelogs were switched on after two batches."""
    first = counts(inputs, 2)
    return replace(first, then=lambda: counts(inputs, 2), confs_then={CHANGELOG: "true"})


@case(*LAST, confs={**ON_CHANGELOGS, CODEC: "zstd"})
def rocksdb_codec_zstd(inputs: Inputs) -> Query:
    """Changelogs compressed with zstd."""
    return cases.window_aggregation(inputs)


@case(*LAST, confs={**ON_CHANGELOGS, CODEC: "snappy"})
def rocksdb_codec_snappy(inputs: Inputs) -> Query:
    """Changelogs compressed with snappy."""
    return cases.window_aggregation(inputs)


def rising(inputs: Inputs, batches: Sequence[range]) -> Query:
    """The counts of numbers, with words that compress well."""
    schema = "n BIGINT, word STRING"
    rows: list[list[Row]] = [[{"n": n, "word": f"{n % 7}" * 12} for n in numbers] for numbers in batches]
    return Query(inputs.stream("input", schema, rows).groupBy("n", "word").agg(F.count("*"), F.max("word")))


def steps(batches: int) -> list[range]:
    """Some numbers of their own a batch, and some of each batch before: many files hold a version of a key."""
    return [range(0, 60 * (batch + 1), 1 + batch) for batch in range(batches)]


@case("3.5", "4.3", confs={**ON_ZIPS, f"{CONF}.blockSizeKB": "1", f"{CONF}.writeBufferSizeMB": "1"})
def rocksdb_many_levels(inputs: Inputs) -> Query:
    """Fourteen snapshots of small SST files in several levels, which RocksDB merged now and then; small blocks."""
    return rising(inputs, steps(14))


@case("3.5", "4.3", confs={**ON_ZIPS, f"{CONF}.compactOnCommit": "true", f"{CONF}.blockSizeKB": "1"})
def rocksdb_compact_on_commit(inputs: Inputs) -> Query:
    """A compaction before each of six snapshots."""
    return rising(inputs, steps(6))


def rocksdb_compression(inputs: Inputs) -> Query:
    """SST files whose blocks are compressed by Spark's conf rocksdb.compression"""
    return rising(inputs, steps(2))


def rocksdb_format_version(inputs: Inputs) -> Query:
    """SST files of the format that Spark's conf rocksdb.formatVersion names"""
    return rising(inputs, steps(2))


SMALL_BLOCKS = {**ON_ZIPS, f"{CONF}.blockSizeKB": "1"}
for compression in ("none", "snappy", "z", "bzip2", "lz4hc", "zstd"):
    case(*LAST, confs={**SMALL_BLOCKS, f"{CONF}.compression": compression}, suffix=compression)(rocksdb_compression)
for version in ("1", "2", "3", "4", "6"):
    case(*LAST, confs={**SMALL_BLOCKS, f"{CONF}.formatVersion": version}, suffix=version)(rocksdb_format_version)
