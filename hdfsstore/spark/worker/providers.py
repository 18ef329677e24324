"""Keep the providers of a Python worker open between tasks: only they keep state in memory after a batch."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from hdfsstore.fs.clients import without_secrets
from hdfsstore.fs.location import renew
from hdfsstore.spark.metrics import Metrics, since
from hdfsstore.spark.spec import NO_TIMEOUT, OPERATOR_ID, TIMEOUT_OFFSET, QuerySpec
from hdfsstore.spark.worker.local_dirs import local_dir
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema
from hdfsstore.state.trim_memory import trim_memory

# Seconds after which a provider is closed that no task of this worker has used: its query has ended, or its tasks run
# in other workers. Its image stays on the local disk.
IDLE_SECONDS = 600.0
# Spark gives partitions to workers at random, so in time each worker would cache versions of all partitions, also on
# images that other workers have replaced. So a worker releases a partition that it was not given for so many batches.
MAX_UNUSED_BATCHES = 8
# If a worker caches more partitions than this, it releases each one that another worker must have: Spark starts tasks
# in the order of their partitions. A partition that comes back is read from the image that all workers share, and the
# deltas after it.
MAX_CACHED = 2


@dataclass(slots=True)
class _Open:
    provider: HdfsStateStoreProvider
    query: QuerySpec
    used: float
    batch_id: int
    is_caching: bool = True
    reported: Metrics = field(default_factory=dict)


class Providers:
    """The open providers of a process, by partition of a store. Threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, int], _Open] = {}

    def get(self, query: QuerySpec, partition_id: int, batch_id: int) -> HdfsStateStoreProvider:
        """The provider of a partition; opens it unless it is open with the query's settings and schemas."""
        renew(query.state_root)
        key = query.state_root.uri, partition_id
        now = time.monotonic()
        with self._lock:
            opened = self._open.get(key)
            if opened is None or not _alike(opened.query, query):
                if opened is not None:
                    opened.provider.close()
                opened = self._open[key] = _Open(_open(query, partition_id), query, now, batch_id)
            opened.used, opened.batch_id, opened.is_caching = now, batch_id, True
            self._release(query.state_root.uri, partition_id, batch_id)
            for other in [other for other, its in self._open.items() if now - its.used > IDLE_SECONDS]:
                self._open.pop(other).provider.close()
            self._drop_pages(opened)
            return opened.provider

    def _drop_pages(self, given: _Open) -> None:
        """Drops the resident pages of the images of all partitions but the given one.

        Maintenance that reads another image at the same time maps its pages again.
        """
        for opened in self._open.values():
            if opened is not given:
                opened.provider.drop_resident_pages()

    def _release(self, state_root: str, given: int, batch_id: int) -> None:
        """Releases the partitions that other workers must have by now."""
        others = {partition_id: opened for (root, partition_id), opened in self._open.items() if root == state_root}
        caching = {partition_id: opened for partition_id, opened in others.items() if opened.is_caching}
        released = False
        for partition_id, opened in caching.items():
            unused = batch_id - opened.batch_id
            elsewhere = unused > 1 or (unused == 1 and partition_id < given)
            if unused >= MAX_UNUSED_BATCHES or (elsewhere and len(caching) > MAX_CACHED):
                opened.provider.release()
                opened.is_caching = False
                released = True
        if released:
            trim_memory()

    def unreported(self, query: QuerySpec, partition_id: int, metrics: Metrics) -> dict[str, int | float]:
        """A store's metrics for a report. Its provider's counters are those since the last report, with maintenance."""
        with self._lock:
            opened = self._open.get((query.state_root.uri, partition_id))
            if opened is None:  # another run has replaced it
                return dict(metrics)
            # Maintenance may have counted a kind of request for the first time since the store's end.
            names = opened.provider.metrics.keys() & metrics.keys()
            before, opened.reported = opened.reported, {name: metrics[name] for name in names}
        return since(before, metrics)


providers = Providers()


def _alike(a: QuerySpec, b: QuerySpec) -> bool:
    """Whether a provider opened for one of two runs serves the other."""
    same_schemas = (a.key_schema, a.value_schema) == (b.key_schema, b.value_schema)
    same_place = without_secrets(a.state_root.settings) == without_secrets(b.state_root.settings)
    return a.store_conf == b.store_conf and same_schemas and same_place


def _open(query: QuerySpec, partition_id: int) -> HdfsStateStoreProvider:
    store_id = StateStoreId(query.state_root, OPERATOR_ID, partition_id)
    timeout_offset = None if query.timeout_conf == NO_TIMEOUT else TIMEOUT_OFFSET
    conf = query.store_conf
    if conf.local_dir is None:
        conf = replace(conf, local_dir=local_dir(query.application_id))
    schema = StoreSchema(timeout_offset=timeout_offset)
    return HdfsStateStoreProvider(store_id, conf, schema, shared_across_workers=True)
