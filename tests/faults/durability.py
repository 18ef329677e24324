"""Which calls put a batch on the disk, and whether a power cut at any of them leaves what was promised."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from hdfsstore import StateStoreConf, StateStoreId, open_provider
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.querylog.log_entries import settings_of
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from tests.faults.server import Child

PARTITIONS = 2
BATCHES = 9
_WRITES = {"write", "pwrite", "pwrite64", "writev", "ftruncate", "ftruncate64"}


def batches(child: Child, root: str, backend: str, format_version: int) -> None:
    """Batches of a query, driver's log, maintenance and all; reports each call."""
    checkpoint = Path(root, "checkpoint")
    (checkpoint / "offsets").mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"the-query"}')
    conf = StateStoreConf(
        checkpoint_format_version=format_version,
        min_deltas_for_snapshot=1,
        min_versions_to_retain=2,
        maintenance_interval=0,
        local_dir=str(Path(root, "local")),
    )
    log = DriverLog(checkpoint, PARTITIONS, conf)
    ids = [StateStoreId(str(checkpoint / "state"), 0, partition_id) for partition_id in range(PARTITIONS)]
    providers = [open_provider(store_id, backend=backend, conf=conf) for store_id in ids]

    def run(batch_id: int) -> None:
        start = log.begin(batch_id)
        reports: dict[int, Report] = {}
        for partition_id, (provider, base_id) in enumerate(zip(providers, start.base_ids, strict=True)):
            store = provider.get_store(batch_id, base_id)
            store.put(b"batch", b"%d" % batch_id)
            reports[partition_id] = Report(store.commit())
        log.finish(batch_id, reports)
        for provider in providers:
            provider.do_maintenance()

    for batch_id in range(BATCHES):
        entry = {"batchWatermarkMs": 0, "batchTimestampMs": batch_id, "conf": settings_of(conf, PARTITIONS)}
        (checkpoint / "offsets" / str(batch_id)).write_text(f"v1\n{json.dumps(entry)}\n{{}}")
        for call in child.shim.traced(lambda: run(batch_id)):  # noqa: B023  # called at once
            child.report(call)
    for provider in providers:
        provider.close()


class Report:
    """What a task reports of its partition."""

    def __init__(self, info: StateStoreCheckpointInfo) -> None:
        self.base_id = info.base_checkpoint_unique_id
        self.new_id = info.checkpoint_unique_id


def broken_promises(calls: Iterable[tuple[str, str]], log: str) -> Iterator[str]:
    """What a power cut could leave that it must not, told from the calls alone.

    Args:
        calls: what is called, and its path, in their order.
        log: the log's folder. Once one of its entries has its name, all that came before is on the disk.
    """
    dirty: set[str] = set()  # files that were written and not synced
    names: dict[str, set[str]] = defaultdict(set)  # by folder: names that came into it and are not synced
    for call, path in calls:
        folder, _, name = path.rpartition("/")
        if call in _WRITES:
            dirty.add(path)
        elif call in ("fsync", "fdatasync"):
            dirty.discard(path)
            names.pop(path, None)
        elif call.startswith("mkdir"):
            names[folder].add(name)
        elif call.startswith(("rename", "link")):
            if any(_target(other) == path for other in dirty):
                yield f"{path} has its name before its content is on the disk"
            if path.startswith(log) and names:
                yield f"{path} is written before these are on the disk: {dict(names)}"
            names[folder].add(name)
        elif call.startswith(("unlink", "remove")) and not TEMPORARY_NAME.fullmatch(name) and names:
            yield f"{path} is deleted before these are on the disk: {dict(names)}"
    if names or dirty:
        yield f"at the end these are not on the disk: {dict(names)}, {dirty}"


def _target(path: str) -> str | None:
    """The name that a temporary file is to get."""
    folder, _, name = path.rpartition("/")
    match = TEMPORARY_NAME.fullmatch(name)
    return f"{folder}/{match['name']}" if match else None
