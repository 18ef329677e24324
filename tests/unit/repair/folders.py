"""What tests of in-place repairs look at: every file of a folder, and the state after each batch."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

from hdfsstore import BatchNotAvailableError, Checkpoint, MissingFileError
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from hdfsstore.repair.backup import FOLDER
from hdfsstore.repair.files import state_files_from
from tests.support.truth import DATA


def copy_of(case: str, to: Path, spark: str = "4.3.0") -> Path:
    """A copy of the checkpoint of a case."""
    return shutil.copytree(DATA / f"spark-{spark}" / case / "checkpoint", to)


def content(root: Path) -> dict[str, bytes]:
    """The files of a checkpoint by their paths, without the backups and what killed writers leave."""
    files = (path for path in root.rglob("*") if path.is_file() and not TEMPORARY_NAME.fullmatch(path.name))
    found = {path.relative_to(root).as_posix(): path.read_bytes() for path in files}
    return {name: data for name, data in found.items() if not name.startswith(f"{FOLDER}/")}


def records(root: Path, batch_id: int) -> dict[Any, list[tuple[bytes, bytes]]]:
    """The stored keys and values of every partition after a batch, sorted; nothing where they are not kept."""
    checkpoint = Checkpoint(root)
    found: dict[Any, list[tuple[bytes, bytes]]] = {}
    for operator in checkpoint.operators:
        state = checkpoint.operator_state(operator.operator_id, batch_id)
        for store in state.operator.stores:
            for partition_id in store.partition_ids:
                key = operator.operator_id, store.name, partition_id
                try:
                    chunks = state.files(store, partition_id).load(state.version, _pairs)
                except (BatchNotAvailableError, MissingFileError):
                    continue
                found[key] = sorted(pair for pairs in chunks for pair in pairs)
    return found


def _pairs(chunk: RecordChunk) -> list[tuple[bytes, bytes]]:
    keys, values = (memoryview(spans).cast("i") for spans in (chunk.keys, chunk.values))
    return [
        (bytes(chunk.data[keys[i] : keys[i] + keys[i + 1]]), bytes(chunk.data[values[i] : values[i] + values[i + 1]]))
        for i in range(0, 2 * len(chunk), 2)
    ]


def swapped(rows: pa.Table) -> pa.Table:
    """Two keys, each with the value of the other."""
    order = pa.array([1, 0])
    return rows.slice(0, 2).drop_columns(["value"]).append_column("value", rows["value"].take(order))


def kinds_of_new_files(root: Path) -> set[str]:
    """What the newest version is made of."""
    checkpoint = Checkpoint(root)
    written = state_files_from(checkpoint.file_manager, checkpoint.path, checkpoint.latest_batch_id + 1)
    return {Path(file).suffix for file in written if not file.endswith(".crc")}
