"""One batch, put together from the entries of the offset log and the commit log."""

from __future__ import annotations

from dataclasses import dataclass

from hdfsstore.checkpoint.batch_conf import BatchConf
from hdfsstore.checkpoint.commit_log import CommitLogEntry
from hdfsstore.checkpoint.notebook import html_table, time_text
from hdfsstore.checkpoint.offset_log import OffsetLogEntry


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that the checkpoint still keeps.

    Attributes:
        batch_id: its number; the batch reads version batch_id of each store and writes version batch_id + 1.
        committed: whether it is done. A restart runs the others again. Spark 2.1 does not log this, so all of its
            batches count as done: it writes a version of the state whole or not at all.
        watermark_ms: the event-time watermark it runs under, milliseconds since 1970; 0 if there is none yet.
        timestamp_ms: the processing time it runs under, milliseconds since 1970; 0 if the log lacks it.
        conf: the settings that the offset log pins.
        offsets: the end offset of each source, as the source's own JSON text; None = no offset yet.
        source_ids: the id of each source, or its position if it has no id.
        next_watermark_ms: the watermark of the next batch; None if this one is not committed.
        state_unique_ids: operator id -> partition -> the unique id of each store's version; empty without ids.
        num_partitions: of the state; None in Spark 2.1.
    """

    batch_id: int
    committed: bool
    watermark_ms: int
    timestamp_ms: int
    conf: dict[str, str]
    offsets: list[str | None]
    source_ids: list[str]
    next_watermark_ms: int | None
    state_unique_ids: dict[int, list[list[str]]]
    num_partitions: int | None

    def __repr__(self) -> str:
        """Without offsets, settings and ids, which take pages."""
        done = "committed" if self.committed else "not committed"
        return f"Batch({self.batch_id}, {done}, {time_text(self.timestamp_ms)} UTC)"

    def _repr_html_(self) -> str:
        rows = [
            ("committed", "yes" if self.committed else "no"),
            ("time (UTC)", time_text(self.timestamp_ms)),
            ("watermark (UTC)", time_text(self.watermark_ms)),
            *((f"source {source}", end) for source, end in zip(self.source_ids, self.offsets, strict=False)),
        ]
        return html_table(f"Batch {self.batch_id}", ("", ""), rows)


def to_batch(batch_id: int, path: str, entry: OffsetLogEntry, commit: CommitLogEntry | None, committed: bool) -> Batch:
    """A batch by its entries in the logs. `path` is that of the entry in the offset log."""
    return Batch(
        batch_id,
        committed,
        entry.watermark_ms,
        entry.timestamp_ms,
        entry.conf,
        entry.offsets,
        entry.source_ids,
        commit.next_watermark_ms if commit else None,
        commit.state_unique_ids if commit else {},
        BatchConf(path, entry.conf).num_partitions,
    )
