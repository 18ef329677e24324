"""Lays out what was seen of a checkpoint for a terminal of any size."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

from rich.console import ConsoleDimensions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from hdfsstore.cli.bars import Bars
from hdfsstore.conditions.texts import time_text
from hdfsstore.report.facts import BatchFacts
from hdfsstore.report.watched import Moment
from hdfsstore.report.watched_store import PartitionNow, StoreNow
from hdfsstore.report.words import duration, size

_LEVELS = "▁▂▃▄▅▆▇█"
_LONGEST_BAR = 40
_BESIDE_BARS = 34
_LEAST_BARS = 4
_WIDE = 60
_BESIDE_NAME = 48


def screen(moment: Moment | None, room: ConsoleDimensions, now_ms: int, footer: str) -> RenderableType:
    """What was seen, in as many lines as there is room for; None: nothing yet."""
    if moment is None:
        return _line("Looking at the checkpoint ...")
    lines = [_line(_kept_end(moment.path, room.width), "bold"), *_query(moment, now_ms)]
    lines += [_line(text, "yellow") for text in [*moment.warnings, *_notes(moment)]]
    left = room.height - len(lines) - 1  # the last line is the footer
    parts: list[RenderableType] = [*lines[: room.height - 1]]
    if moment.stores and left >= 2:
        most = max(left // 2 - 1, 1)
        parts.append(_stores(moment.stores[:most], room.width))
        left -= len(moment.stores[:most]) + 1
        if len(moment.stores) > most and left > 0:
            parts.append(_line(f"and {len(moment.stores) - most} more stores", "dim"))
            left -= 1
        fullest = max(moment.stores, key=lambda store: store.bytes)
        if fullest.partitions and left >= _LEAST_BARS:
            parts += _bars(fullest, left, room.width)
    return Group(*parts, _line(footer, "dim"))


def _query(moment: Moment, now_ms: int) -> list[Text]:
    batch, running = moment.committed, moment.running
    lines = []
    if batch is None:
        lines.append(_line("batch       waiting: no batch is committed yet"))
    else:
        ended = _ago(batch.time_ms + round((batch.seconds or 0) * 1000), now_ms)
        took = "" if batch.seconds is None else f", took {duration(batch.seconds)}"
        lines.append(_line(f"batch       {batch.batch_id} committed {ended} ago{took}"))
    if running is not None:
        lines.append(_line(f"            {running.batch_id} began {_ago(running.time_ms, now_ms)} ago, not committed"))
    else:
        lines.append(_line("            no other batch has begun since" if batch else ""))
    lines.append(_line(f"rate        {_rate(moment)}"))
    lines.append(_line(f"watermark   {_watermark(batch)}"))
    return lines


def _rate(moment: Moment) -> str:
    batches = [batch for batch in moment.batches if batch.committed]
    intervals = [(after.time_ms - before.time_ms) / 1000 for before, after in pairwise(batches)]
    usual = statistics.median(intervals) if intervals else 0
    if usual <= 0:
        return "not known yet"
    facts = [f"a batch every {duration(usual)}"]
    changed = [store.changed_bytes for store in moment.stores if store.changed_bytes is not None]
    if changed:
        facts.append(f"{size(round(sum(changed) / usual))} of changes a second")
    took = [batch.seconds for batch in batches if batch.seconds is not None]
    if took:
        facts.append(f"they took {_sparks(took)}")
    return ", ".join(facts)


def _sparks(numbers: Sequence[float]) -> str:
    longest = max(numbers) or 1
    return "".join(_LEVELS[round((len(_LEVELS) - 1) * number / longest)] for number in numbers)


def _watermark(batch: BatchFacts | None) -> str:
    if batch is None or batch.lag_seconds is None:
        return "none"
    lag = batch.lag_seconds
    return (
        f"{duration(abs(lag))} {'ahead of' if lag < 0 else 'behind'} batch {batch.batch_id}, at {_watermark_at(batch)}"
    )


def _watermark_at(batch: BatchFacts) -> str:
    return time_text(batch.watermark_ms) or ""


def _notes(moment: Moment) -> list[str]:
    notes = [f"{store.name}: {store.note}" for store in moment.stores if store.note]
    return [*([moment.remark] if moment.remark else []), *notes]


def _stores(stores: Sequence[StoreNow], width: int) -> Table:
    columns = [("store", [f"{store.operator_id} {store.name}" for store in stores])]
    columns.append(("rows", [_rows(store) for store in stores]))
    columns.append(("bytes", [size(store.bytes) for store in stores]))
    if width >= _WIDE:
        changed = (store.changed_bytes for store in stores)
        columns.append(("changes", ["" if each is None else size(each) for each in changed]))
        columns.append(("growth", [_growth(store) for store in stores]))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, texts in columns:
        if name == "store":
            most = max(width - (_BESIDE_NAME if width >= _WIDE else _BESIDE_NAME // 2), 8)
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=most)
        elif any(texts):
            table.add_column(name, justify="right", no_wrap=True, overflow="ellipsis")
    for row in zip(*(texts for _, texts in columns if any(texts)), strict=True):
        table.add_row(*(_line(text) for text in row))
    return table


def _rows(store: StoreNow) -> str:
    if store.rows is not None:
        return f"{store.rows:,}"
    counted = sum(partition.rows is not None for partition in store.partitions)
    return f"{counted} of {len(store.partitions)} counted" if counted else ""


def _growth(store: StoreNow) -> str:
    if store.rows is None or store.first_rows is None:
        return ""
    first_batch, first = store.first_rows
    return "" if store.rows_batch == first_batch else f"{store.rows - first:+,} since {first_batch}"


def _bars(store: StoreNow, lines: int, width: int) -> list[RenderableType]:
    """A title and the bars, in so many lines."""
    fits = len(store.partitions) <= lines - 1
    bars = Bars(store.partitions, lines - 1 if fits else lines - 2, max(min(_LONGEST_BAR, width - _BESIDE_BARS), 4))
    which = "" if fits else f", the {len(bars.shown)} with the most {bars.unit}"
    parts: list[RenderableType] = [_line(f"{len(store.partitions)} partitions of {store.name}{which}", "dim")]
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for _ in ("rows", "bytes"):
        table.add_column(justify="right", no_wrap=True)
    for partition in bars.shown:
        table.add_row(str(partition.partition_id), bars.of(partition), *_sizes([partition]))
    parts.append(table)
    if not fits:
        parts.append(_line(f"the {len(bars.others)} others: {', '.join(filter(None, _sizes(bars.others)))}"))
    return parts


def _sizes(partitions: Sequence[PartitionNow]) -> tuple[str, str]:
    known = [partition.rows for partition in partitions if partition.rows is not None]
    rows = f"{sum(known):,} rows" if len(known) == len(partitions) else ""
    return rows, size(sum(partition.bytes for partition in partitions))


def _ago(then_ms: int, now_ms: int) -> str:
    return duration(max(now_ms - then_ms, 0) / 1000)


def _kept_end(path: str, width: int) -> str:
    """The end of a path says more than its start."""
    return path if len(path) <= width else f"…{path[len(path) - width + 1 :]}"


def _line(text: str, style: str = "") -> Text:
    printable = "".join(character if character.isprintable() else "?" for character in text)
    return Text(printable, style, no_wrap=True, overflow="ellipsis")
