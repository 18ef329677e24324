"""The providers that a Python worker keeps between tasks: state in memory outlives a batch only here."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from hdfsstore.spark.metrics import Metrics, since
from hdfsstore.spark.spec import NO_TIMEOUT, OPERATOR_ID, TIMEOUT_OFFSET, QuerySpec
from hdfsstore.spark.worker.local_dirs import local_dir
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema
from hdfsstore.state.trim_memory import trim_memory

# Seconds after which a partition that no task of this worker asked for is let go of: its query has ended, or Spark's
# tasks of it run elsewhere. Its image stays on the local disk.
IDLE_SECONDS = 600.0
# Spark gives partitions to workers at random: each would come to hold what was committed on the images of all of them,
# and images that others have replaced. So a worker lets go of what it was not given for so many batches; where it holds
# more than a few, of all that it can tell another was given, as Spark starts tasks in the order of their partitions.
# What comes back to it is read from the image that all use, and the deltas after it.
HELD_BATCHES = 8
FEW = 2


@dataclass(slots=True)
class _Held:
    provider: HdfsStateStoreProvider
    query: QuerySpec
    used: float
    batch_id: int
    is_holding: bool = True
    reported: Metrics = field(default_factory=dict)


class Providers:
    """The open providers of a process, by partition of a store. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, int], _Held] = {}

    def get(self, query: QuerySpec, partition_id: int, batch_id: int) -> HdfsStateStoreProvider:
        """The provider of a partition, opened where this process does not have it as the query wants it."""
        key = query.state_root, partition_id
        now = time.monotonic()
        with self._lock:
            held = self._held.get(key)
            if held is None or not _alike(held.query, query):
                if held is not None:
                    held.provider.close()
                held = self._held[key] = _Held(_open(query, partition_id), query, now, batch_id)
            held.used, held.batch_id, held.is_holding = now, batch_id, True
            self._release(query.state_root, partition_id, batch_id)
            for other in [other for other, its in self._held.items() if now - its.used > IDLE_SECONDS]:
                self._held.pop(other).provider.close()
            self._give_up_pages(held)
            return held.provider

    def _give_up_pages(self, given: _Held) -> None:
        """Keeps the pages of images in this process's memory only for the partition that it works on.

        Maintenance that reads another's at the same time has them mapped again.
        """
        for held in self._held.values():
            if held is not given:
                held.provider.drop_resident_pages()

    def _release(self, state_root: str, given: int, batch_id: int) -> None:
        """Lets go of what other processes were given, as far as this one can tell."""
        others = {partition_id: held for (root, partition_id), held in self._held.items() if root == state_root}
        holding = {partition_id: held for partition_id, held in others.items() if held.is_holding}
        released = False
        for partition_id, held in holding.items():
            unused = batch_id - held.batch_id
            elsewhere = unused > 1 or (unused == 1 and partition_id < given)
            if unused >= HELD_BATCHES or (elsewhere and len(holding) > FEW):
                held.provider.release()
                held.is_holding = False
                released = True
        if released:
            trim_memory()

    def unreported(self, query: QuerySpec, partition_id: int, metrics: Metrics) -> dict[str, int | float]:
        """A store's metrics for a report; its provider's counters since the last one, with maintenance in between."""
        with self._lock:
            held = self._held.get((query.state_root, partition_id))
            if held is None:  # another run has taken its place
                return dict(metrics)
            before, held.reported = held.reported, {name: metrics[name] for name in held.provider.metrics}
        return since(before, metrics)


providers = Providers()


def _alike(a: QuerySpec, b: QuerySpec) -> bool:
    """Whether a provider opened for one of two runs serves the other."""
    return (a.store_conf, a.key_schema, a.value_schema) == (b.store_conf, b.key_schema, b.value_schema)


def _open(query: QuerySpec, partition_id: int) -> HdfsStateStoreProvider:
    store_id = StateStoreId(query.state_root, OPERATOR_ID, partition_id)
    timeout_offset = None if query.timeout_conf == NO_TIMEOUT else TIMEOUT_OFFSET
    conf = query.store_conf
    if conf.local_dir is None:
        conf = replace(conf, local_dir=local_dir(query.application_id))
    schema = StoreSchema(timeout_offset=timeout_offset)
    return HdfsStateStoreProvider(store_id, conf, schema, shared_across_workers=True)
