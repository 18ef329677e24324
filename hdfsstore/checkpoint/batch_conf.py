"""The conf that a batch runs under, by the offset log, and with it the number of partitions of the state.

A repartition changes this number from one batch to the next, and leaves the folders of both numbers. Spark 4.2 and
later have one (OfflineStateRepartitionRunner.scala). It adds a batch without input. Most operator metadata keeps the
old number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.batch_logs import BatchLogs, Logged
from hdfsstore.checkpoint.metadata_log import NUMBER
from hdfsstore.errors import CorruptFileError


@dataclass(frozen=True, slots=True)
class BatchConf:
    """The conf of a batch.

    Attributes:
        path: the entry of the offset log that has it.
        conf: the settings.
    """

    path: str
    conf: Mapping[str, str]

    @property
    def num_partitions(self) -> int | None:
        """The number of partitions; None: Spark 2.1 logs none. Raises CorruptFileError."""
        pinned = self.conf.get(confs.SHUFFLE_PARTITIONS)
        if pinned is None:
            return None
        if not NUMBER.fullmatch(pinned) or int(pinned) < 1:
            what = f"{confs.SHUFFLE_PARTITIONS} is {pinned!r}, not a number of partitions"
            raise CorruptFileError(what, self.path)
        return int(pinned)

    @property
    def is_exact(self) -> bool:
        """Whether no operator has partitions above this number, as one of a query begun before Spark 3.3 may have."""
        return self.num_partitions is not None and confs.strict_distribution(self.conf)


@dataclass(frozen=True, slots=True)
class Repartition:
    """A change of the number of partitions: the batch from which on there are `after` of them, and not `before`."""

    batch_id: int
    before: int
    after: int


def nearest_conf(logs: BatchLogs, logged: Logged, batch_id: int | None) -> BatchConf | None:
    """The conf of a batch (by default the newest committed one), or of the nearest one that is not purged."""
    newest = max(logged.done, default=None)
    if newest is None:
        return None
    wanted = newest if batch_id is None else batch_id
    files = logged.offsets.files
    for kept in sorted(files, key=lambda kept: abs(kept - wanted)):
        if entry := logs.offsets.read(logged.offsets, kept):  # None: purged since the listing
            return BatchConf(files[kept].path, entry.conf)
    return None


def first_repartition(logs: BatchLogs, logged: Logged, batch_ids: Iterable[int]) -> Repartition | None:
    """The first of these batches that has another number of partitions than the batch before it, by what is logged."""
    files, wanted = logged.offsets.files, set(batch_ids)
    entries = logs.offsets.read_all(logged.offsets, sorted(files.keys() & (wanted | {each - 1 for each in wanted})))
    numbers = {each: BatchConf(files[each].path, entry.conf).num_partitions for each, entry in entries.items()}
    for batch_id in sorted(wanted & numbers.keys()):
        before, after = numbers.get(batch_id - 1), numbers[batch_id]
        if before is not None and after is not None and before != after:
            return Repartition(batch_id, before, after)
    return None
