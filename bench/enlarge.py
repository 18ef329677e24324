"""Spark's checkpoints with snapshots of our making: of more keys than its heap would hold, or of the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

import hdfsstore
from hdfsstore._cext.records import encode_records
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.unsafe_row import RowCodec

END_MARK = 4
CHUNK = 100_000


def enlarged(source: Path, num_keys: int) -> Path:
    """A copy of a checkpoint of bench.big_state whose snapshots hold `num_keys` more keys; made once, then kept."""
    made = source.with_name(f"{source.name}-and-{num_keys}")
    if not made.exists():
        work = made.with_suffix(".tmp")
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(source, work)
        store = hdfsstore.Checkpoint(work).operator(0).store()
        for partition in store.partition_ids:
            snapshot = Path(store.partition_path(partition), "1.snapshot")
            snapshot.with_name(f".{snapshot.name}.crc").unlink()
            _write(snapshot, store, range(partition, num_keys, len(store.partition_ids)))
        work.rename(made)
    return made


def from_snapshot(source: Path) -> Path:
    """A copy of a checkpoint of bench.big_state whose last version has a snapshot; made once, then kept."""
    made = source.with_name(f"{source.name}-from-snapshot")
    if not made.exists():
        work = made.with_suffix(".tmp")
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(source, work)
        checkpoint = hdfsstore.Checkpoint(work)
        store = checkpoint.operator(0).store()
        keys, values = _codecs(store)
        for partition in store.partition_ids:
            rows = checkpoint.read_state(partitions=[partition]).combine_chunks().to_batches()[0]
            raw = encode_records(keys.encode(rows["key"]), values.encode(rows["value"]))
            folder = Path(store.partition_path(partition))
            version = max(int(file.stem) for file in folder.glob("*.delta"))
            (folder / f"{version}.snapshot").write_bytes(compress("lz4", raw))
        work.rename(made)
    return made


def _codecs(store: hdfsstore.Store) -> tuple[RowCodec, RowCodec]:
    assert store.key_type is not None
    assert store.value_type is not None
    return RowCodec(store.key_type), RowCodec(store.value_type)


def _write(snapshot: Path, store: hdfsstore.Store, ids: range) -> None:
    """Writes a snapshot with these keys alone, as several lz4 streams behind each other, which Spark reads as one."""
    keys, values = _codecs(store)
    with snapshot.open("wb") as file:
        for start in range(0, len(ids), CHUNK):
            chunk = ids[start : start + CHUNK]
            numbers = pa.array(chunk, pa.int64())
            names = pa.array([f"more-{i:08d}" for i in chunk])
            doubles = numbers.cast(pa.float64())
            key_rows = keys.encode(pa.StructArray.from_arrays([names], fields=list(keys.arrow_type)))
            columns = [numbers, doubles, doubles]
            fields = list(values.arrow_type)
            value_rows = values.encode(pa.StructArray.from_arrays(_fitted(columns, fields), fields=fields))
            raw = encode_records(key_rows, value_rows)
            last = start + CHUNK >= len(ids)
            file.write(compress("lz4", raw if last else raw[: raw.size - END_MARK]))
        if not ids:
            file.write(compress("lz4", b"\xff" * END_MARK))


def _fitted(columns: list[pa.Array], fields: list[pa.Field]) -> list[pa.Array]:
    """A column for each field of the value, whatever the aggregation keeps besides."""
    by_type = {column.type: column for column in columns}
    return [by_type[field.type] for field in fields]
