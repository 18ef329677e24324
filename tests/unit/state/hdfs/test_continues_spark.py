"""Our store goes on from every version that a real Spark left behind, and writes some of them again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hdfsstore
from tests.support.continued_stores import (
    OpenStores,
    StoreName,
    go_on,
    log_next_batch,
    read_state,
    sparks_rows,
    stores_of,
)
from tests.support.rows import counted
from tests.support.truth import Case, cases

STORES = [
    (case, store)
    for case in cases()
    if not case.rocksdb and not case.repartitioned
    for store in stores_of(case.checkpoint)
]

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.parametrize(("case", "store"), STORES, ids=lambda value: getattr(value, "name", str(value))),
]


@pytest.fixture
def checkpoint(case: Case, tmp_path: Path) -> Path:
    """A copy that may be written to."""
    return Path(shutil.copytree(case.checkpoint, tmp_path / "checkpoint"))


def test_the_next_version(case: Case, store: StoreName, checkpoint: Path, tmp_path: Path) -> None:
    batch_id = hdfsstore.Checkpoint(checkpoint).latest_batch_id
    rows = read_state(case, store, checkpoint)
    with OpenStores(checkpoint, store, tmp_path / "local", rows) as stores:
        expected = sparks_rows(case, store, batch_id)
        assert counted(stores.scan(batch_id + 1)) == counted(rows if expected is None else expected)
        before, after = go_on(stores, batch_id + 1)
        assert before != after or not any(before.values())
        assert stores.bytes(batch_id + 2) == after
    assert log_next_batch(checkpoint) == batch_id + 1
    with OpenStores(checkpoint, store, tmp_path / "cold", rows) as stores:
        assert stores.bytes(batch_id + 2) == after
        assert stores.bytes(batch_id + 1) == before
        assert counted(stores.scan(batch_id + 2)) == counted(read_state(case, store, checkpoint))


def test_rows_are_put_and_removed_by_their_columns(
    case: Case, store: StoreName, checkpoint: Path, tmp_path: Path
) -> None:
    """Keys decoded from Spark's rows are encoded to the same bytes: they find, remove and put the rows."""
    version = hdfsstore.Checkpoint(checkpoint).latest_batch_id + 1
    rows = read_state(case, store, checkpoint)
    with OpenStores(checkpoint, store, tmp_path / "local", rows) as stores:
        before = stores.bytes(version)
        for partition_id, provider in stores.partitions.items():
            own = rows.filter(pc.equal(rows["partition_id"], partition_id))
            keys, values = (
                pa.RecordBatch.from_struct_array(own[part].combine_chunks()) if len(own) else None
                for part in ("key", "value")
            )
            writer = provider.get_store(version)
            if keys is not None and values is not None:
                assert writer.get_batch(keys).num_rows == keys.num_rows
                writer.remove_batch(keys)
                assert dict(writer.iterator()) == {}
                writer.put_batch(keys, values)
            writer.commit()
        # Of the same row Spark may have other values: longer than need be (2.1), or a null interval that was set once.
        assert {i: rows.keys() for i, rows in stores.bytes(version + 1).items()} == {
            i: r.keys() for i, r in before.items()
        }
        assert counted(stores.scan(version + 1)) == counted(rows)


def test_sparks_version_written_again(case: Case, store: StoreName, checkpoint: Path, tmp_path: Path) -> None:
    """A batch that is run again overwrites Spark's file, and no checksum file of Spark's is left to deny ours."""
    batch_id = hdfsstore.Checkpoint(checkpoint).latest_batch_id
    rows = read_state(case, store, checkpoint)
    with OpenStores(checkpoint, store, tmp_path / "local", rows) as stores:
        _, after = go_on(stores, batch_id)
    with OpenStores(checkpoint, store, tmp_path / "cold", rows) as stores:
        assert stores.bytes(batch_id + 1) == after
        assert counted(stores.scan(batch_id + 1)) == counted(read_state(case, store, checkpoint))
