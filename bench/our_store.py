"""Our store driven as SparkStore.java drives Spark's: the same batches of the same rows, through the public API."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

import hdfsstore
from bench import store_data
from hdfsstore.state.protocols import ReadStateStore


class OurStore:
    """One partition, at its newest version.

    Args:
        folder: one that store_data.copy_of made, or an empty one with version 0.
        version: the one to go on from.
        checkpoint_unique_id: that of the version, where it was written in checkpoint format version 2.
        settings: of StateStoreConf. Unless they say more, maintenance runs only when it is called.
    """

    def __init__(
        self,
        folder: Path,
        version: int = store_data.VERSION,
        checkpoint_unique_id: str | None = None,
        **settings: int,
    ) -> None:
        self.id = hdfsstore.StateStoreId(str(store_data.root(folder)), operator_id=0, partition_id=0)
        self.conf = hdfsstore.StateStoreConf(
            **{"maintenance_interval": 0, "local_dir": str(folder / "local"), **settings}
        )
        self.version = version
        self.checkpoint_unique_id = checkpoint_unique_id
        self.provider = hdfsstore.open_provider(self.id, conf=self.conf)
        self._batches: list[tuple[pa.BinaryArray, pa.BinaryArray]] = []
        self._next_batch = 0

    def prepare(self, batches: list[tuple[pa.BinaryArray, pa.BinaryArray]]) -> None:
        """Gives the batches that `batch` takes in turn: keys and values."""
        self._batches = batches

    def batch(self) -> list[int]:
        """One batch: get all its keys, put all its values, commit. Nanoseconds of opening, get, put and commit."""
        keys, values = self._batches[self._next_batch % len(self._batches)]
        self._next_batch += 1
        start = time.perf_counter_ns()
        store = self.provider.get_store(self.version, self.checkpoint_unique_id)
        opened = time.perf_counter_ns()
        found = store.get_many(keys)
        got = time.perf_counter_ns()
        store.put_many(keys, values)
        put = time.perf_counter_ns()
        info = store.commit()
        committed = time.perf_counter_ns()
        if found.null_count:
            raise RuntimeError(f"{found.null_count} of {len(keys)} keys were not found")
        self.version, self.checkpoint_unique_id = info.version, info.checkpoint_unique_id
        return [opened - start, got - opened, put - got, committed - put]

    def read(self) -> ReadStateStore:
        """The version that the store is at, for reading."""
        return self.provider.get_read_store(self.version, self.checkpoint_unique_id)

    def reopen(self) -> None:
        """A new provider, which holds nothing."""
        self.provider.close()
        self.provider = hdfsstore.open_provider(self.id, conf=self.conf)

    def load_cold(self) -> int:
        """Loads the version that the store is at in a new provider; gives the number of keys."""
        self.reopen()
        with self.read() as store:
            return int(store.metrics["numTotalStateRows"])

    def forget_images(self) -> None:
        """Removes the local images, so that load_cold has the store's own files alone to load from."""
        shutil.rmtree(str(self.conf.local_dir), ignore_errors=True)

    def get_all(self, chunks: Iterable[pa.BinaryArray]) -> None:
        """Gets all these keys: with every key of the store, every page of its records and of its index is touched."""
        with self.read() as store:
            for keys in chunks:
                if absent := store.get_many(keys).null_count:
                    raise RuntimeError(f"{absent} of {len(keys)} keys were not found")

    def build_image(self, num_keys: int) -> None:
        """Leaves a local image of the version that the store is at; for a store with min_deltas_for_snapshot=0."""
        self.prepare(store_data.batches(num_keys, 2))
        self.batch()  # writes a full snapshot where the files are of another checkpoint format
        self.batch()
        self.maintain()
        if not self.provider.metrics["imagesBuilt"]:
            raise RuntimeError("maintenance has built no image")

    def settle(self) -> None:
        """Waits until maintenance in the background has nothing left to do."""
        before = None
        while (now := dict(self.provider.metrics)) != before:
            before = now
            time.sleep(0.5)

    def maintain(self) -> None:
        """What the maintenance thread does."""
        self.provider.do_maintenance()

    def close(self) -> None:
        """Closes the provider."""
        self.provider.close()
