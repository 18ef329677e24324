"""Stores on top of what Spark's RocksDB provider wrote; what its statestore source read is the truth."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hdfsstore import StateStoreConf, StateStoreId, UnsupportedProviderError, open_provider
from hdfsstore.checkpoint.commit_log import read_commit_log
from hdfsstore.checkpoint.offset_log import read_offset_log
from hdfsstore.fs.location import resolve
from hdfsstore.state.protocols import StateStoreProvider
from tests.support.rows import counted
from tests.support.truth import Case, Read, cases, few_reads

STORES = ["left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue"]
ROW_CHECKSUM = "spark.sql.streaming.stateStore.rowChecksum.enabled"
ROCKSDB = [case for case in cases() if case.rocksdb]
WITH_FAMILIES = [case for case in ROCKSDB if any(case.checkpoint.glob("state/*/_stateSchema"))]


# What a store does not go on from: checksums of rows, keys with a prefix, one partition of two, values that are not as
# declared, deletions of ranges in changelogs, zlib, which rocksdict has not, and other numbers of partitions.
OTHERS = re.compile("row_checksum|session_window|complete|limit|3.2.1/.*duplicates|in_changelogs|_z$|_partitions")


def plain_reads() -> Iterator[Read]:
    """The rows of each store after the first and the last batch."""
    for case in ROCKSDB:
        if case not in WITH_FAMILIES and not OTHERS.search(str(case.folder)):
            committed = case.facts["committed_batches"]
            for facts in case.facts["reads"]:
                plain = facts["file"] and facts["change_feed"] is None and facts["join_side"] is None
                if plain and facts["batch_id"] in (committed[0], committed[-1]):
                    yield Read(case, facts)


READS = list(plain_reads())


class Copy:
    """A copy of a case's checkpoint, and what its logs say."""

    def __init__(self, case: Case, root: Path) -> None:
        self.checkpoint = root / "checkpoint"
        self._local_dir = root / "local"
        shutil.copytree(case.checkpoint, self.checkpoint)
        self._fs, self._path = resolve(self.checkpoint)
        last = max(int(path.name) for path in (self.checkpoint / "offsets").iterdir() if path.name.isdigit())
        self._pinned = read_offset_log(self._fs, f"{self._path}/offsets/{last}").conf

    def open(self, operator_id: int, store_name: str, partition_id: int, **schemas: Any) -> StateStoreProvider:
        conf = StateStoreConf.from_spark(self._pinned)
        if not self.unique_ids(operator_id, 0):
            conf = replace(conf, checkpoint_format_version=1)
        conf = replace(conf, local_dir=str(self._local_dir), maintenance_interval=0, min_deltas_for_snapshot=0)
        store_id = StateStoreId(str(self.checkpoint / "state"), operator_id, partition_id, store_name)
        return open_provider(store_id, "rocksdb", conf, **schemas)

    def partition(self, operator_id: int, store_name: str, partition_id: int) -> Path:
        folder = self.checkpoint / "state" / str(operator_id) / str(partition_id)
        return folder if store_name == "default" else folder / store_name

    def unique_ids(self, operator_id: int, batch_id: int) -> list[list[str]]:
        return read_commit_log(self._fs, f"{self._path}/commits/{batch_id}").state_unique_ids.get(operator_id, [])

    def version(self, operator_id: int, store_name: str, partition_id: int, batch_id: int) -> tuple[int, str | None]:
        """What the driver names."""
        ids = self.unique_ids(operator_id, batch_id)
        place = STORES.index(store_name) if store_name in STORES else 0
        return batch_id + 1, ids[partition_id][place] if ids else None


@pytest.mark.parametrize("read", few_reads(READS), ids=str)
def test_what_spark_wrote_is_read_and_continued(read: Read, tmp_path: Path) -> None:
    facts, copy = read.facts, Copy(read.case, tmp_path)
    store = facts["operator_id"], facts["store_name"]
    expected = read.rows.select(["key", "value", "partition_id"])
    schemas = {f"{part}_schema": pa.schema(list(expected.schema.field(part).type)) for part in ("key", "value")}
    for partition_id in range(2):
        own = expected.filter(pc.equal(expected["partition_id"], partition_id)).select(["key", "value"])
        version = copy.version(*store, partition_id, facts["batch_id"])
        with copy.open(*store, partition_id, **schemas) as provider:
            with provider.get_read_store(*version) as reader:
                assert counted(pa.Table.from_batches(reader.scan(), schema=own.schema)) == counted(own)
                rows = dict(reader.iterator())
            writer = provider.get_store(*version)
            writer.put(b"ours", b"1")
            for key in list(rows)[::2]:
                writer.remove(key)
            info = writer.commit()
            provider.do_maintenance()
        expected_rows = {**dict(list(rows.items())[1::2]), b"ours": b"1"}
        unique = f"_{info.checkpoint_unique_id}" if info.checkpoint_unique_id else ""
        (snapshot,) = copy.partition(*store, partition_id).glob(f"{info.version}{unique}.zip")
        for _ in ("from the zip", "from changelogs"):
            with (
                copy.open(*store, partition_id) as provider,
                provider.get_read_store(info.version, info.checkpoint_unique_id) as reader,
            ):
                assert dict(reader.iterator()) == expected_rows
                assert reader.metrics["numTotalStateRows"] == len(expected_rows)
            for path in (snapshot, snapshot.with_name(f".{snapshot.name}.crc")):
                path.unlink(missing_ok=True)


@pytest.mark.parametrize("case", [case for case in WITH_FAMILIES if ROW_CHECKSUM not in case.facts["confs"]], ids=str)
def test_column_families_are_refused_by_name(case: Case, tmp_path: Path) -> None:
    copy = Copy(case, tmp_path)
    with copy.open(0, "default", 0) as provider:
        for batch_id in (0, 1):
            with pytest.raises(UnsupportedProviderError, match="column families"):
                provider.get_read_store(*copy.version(0, "default", 0, batch_id))
