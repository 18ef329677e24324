"""A store whose batches make deltas of about 200 KB, as the benches of storages commit them."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pyarrow as pa

import hdfsstore
from hdfsstore.fs.file_manager import FileManager

DELTA_BYTES = 200_000


class DeltaCommits:
    """A store below `root`; each call commits a batch."""

    def __init__(self, files: FileManager, root: str, local: Path) -> None:
        state = hdfsstore.StateStoreId((files, f"{root}/{uuid.uuid4()}/state"), 0, 0)
        conf = hdfsstore.StateStoreConf(maintenance_interval=0, local_dir=str(local))
        self._provider = hdfsstore.open_provider(state, conf=conf)
        self._at: tuple[int, str | None] = (0, None)
        self._keys = pa.array([number.to_bytes(8, "big") for number in range(1000)], pa.binary())
        self._values = pa.array([os.urandom(DELTA_BYTES // 1000) for _ in range(1000)], pa.binary())

    def __call__(self) -> None:
        store = self._provider.get_store(*self._at)
        store.put_many(self._keys, self._values)
        info = store.commit()
        self._at = (info.version, info.checkpoint_unique_id)
