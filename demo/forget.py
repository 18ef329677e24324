"""One user's state is removed from a checkpoint: a batch of our own, without data, that Spark goes on from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa

import hdfsstore


def forget_user(checkpoint: Path, user: int, local_dir: Path) -> int:
    """Removes the user's state in a new batch, which reads nothing; returns its number. The query must have stopped.

    RuntimeError: a batch was begun and is not committed; a restart of the query ends it.
    """
    opened = hdfsstore.Checkpoint(checkpoint)
    last = opened.batch(opened.latest_batch_id)
    batch_id = last.batch_id + 1
    if (checkpoint / "offsets" / str(batch_id)).exists():
        raise RuntimeError(f"batch {batch_id} was begun and is not committed: start the query again first")
    store = opened.operator().store()
    # In format version 1, which Spark's own provider reads and continues.
    conf = hdfsstore.StateStoreConf.from_spark(
        {
            **last.conf,
            "spark.sql.streaming.stateStore.checkpointFormatVersion": 1,
            "spark.hdfsstore.localDir": str(local_dir),
        }
    )
    shutil.copyfile(checkpoint / "offsets" / str(last.batch_id), checkpoint / "offsets" / str(batch_id))
    reports = {}
    for partition_id in store.partition_ids:
        store_id = hdfsstore.StateStoreId(str(checkpoint / "state"), 0, partition_id)
        with hdfsstore.open_provider(store_id, conf=conf, key_schema=store.key_schema) as provider:
            state = provider.get_store(batch_id)
            state.remove_batch(pa.record_batch({"user": pa.array([user], store.key_schema.field("user").type)}))
            reports[partition_id] = [state.commit()]  # one of them holds the user, the others write an empty delta
    log = hdfsstore.CommitLog(checkpoint, checkpoint_format_version=1)
    log.add(batch_id, next_watermark_ms=last.next_watermark_ms, infos={0: reports})
    return batch_id
