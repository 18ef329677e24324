"""Checkpoints with a delta or changelog for each of many batches since the last snapshot or zip."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import hdfsstore
from hdfsstore._cext.records import encode_spans
from hdfsstore.checkpoint import conf as confs
from hdfsstore.codecs.compression import open_writer
from hdfsstore.codecs.records import RecordChunk

# As many as Spark's HDFS-backed provider lets pile up (minDeltasForSnapshot), and maintenance may be late.
BATCHES = 10
_END = b"\xff" * 4


def with_changes(path: Path) -> None:
    """Adds batches to a checkpoint of bench.big_state which together change each key once, to the value that it has."""
    checkpoint = hdfsstore.Checkpoint(path)
    latest, state = checkpoint.latest_batch_id, checkpoint.operator_state(0)
    (store,) = state.operator.stores
    extension = "delta" if state.provider == confs.HDFS_PROVIDER else "changelog"
    versions = range(state.version + 1, state.version + 1 + BATCHES)
    for partition_id in store.partition_ids:
        writers = [open_writer(confs.compression_codec(state.conf)) for _ in versions]
        folder = Path(store.partition_path(partition_id))
        files = [(folder / f"{version}.{extension}").open("wb") for version in versions]
        turns = count()

        def write(chunk: RecordChunk) -> None:
            turn = next(turns) % BATCHES  # noqa: B023 - the stream is read before the next round
            records = memoryview(encode_spans(chunk.data, chunk.keys, chunk.values))
            files[turn].write(writers[turn].write(records))  # noqa: B023

        for _ in state.files(store, partition_id).stream(state.version, write):
            pass
        for file, writer in zip(files, writers, strict=True):
            file.write(writer.write(_END) + writer.finish())
            file.close()
    for batch in range(latest + 1, latest + 1 + BATCHES):
        for log in ("offsets", "commits"):
            shutil.copy(path / log / str(latest), path / log / str(batch))
