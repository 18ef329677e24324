"""`hdfsstore watch`: what happens to a query's state while it runs, on the whole terminal or as one line a batch."""

from __future__ import annotations

import errno
import json as json_module
import os
import select
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console

from hdfsstore.cli import options
from hdfsstore.cli.output import note
from hdfsstore.conditions.texts import time_text
from hdfsstore.report.facts import BatchFacts
from hdfsstore.report.watched import Moment, Watched
from hdfsstore.report.watched_store import StoreNow
from hdfsstore.report.words import duration, size


def watch(
    path: options.Location,
    interval: Annotated[float, typer.Option(help="Look after so many seconds.", min=0.1)] = 2.0,
    rows: Annotated[bool, typer.Option(help="Count the rows, which reads state.")] = True,
    count: Annotated[
        int, typer.Option(help="End after so many committed batches were shown; 0 means never.", min=0)
    ] = 0,
    json: options.Json = False,
    option_file: options.OptionFile = None,
) -> None:
    """Show batches, rows, bytes, watermark and partitions while the query runs, until q or Ctrl-C."""
    watched = Watched(partial(options.checkpoint_at, path, option_file))
    console = Console(highlight=False)
    if json or not console.is_terminal or console.is_dumb_terminal:
        _print_lines(watched, interval, rows, count, json)
    else:
        from hdfsstore.cli.watch_live import show_live  # needs a terminal as Unix has it

        show_live(console, watched, interval, rows, count)


def _print_lines(watched: Watched, interval: float, rows: bool, count: int, json: bool) -> None:
    write = _json if json else _line
    for number, (batch, stores) in enumerate(_batches(watched, interval, rows), 1):
        typer.echo(write(batch, stores))
        if number == count:
            return


def _batches(watched: Watched, interval: float, rows: bool) -> Iterator[tuple[BatchFacts, list[StoreNow] | None]]:
    """The newest committed batch with the stores after it, and each one that follows; None: it was not looked at."""
    shown: int | None = None
    told: set[str] = set()
    while True:
        moment = watched.look()
        for text in _remarks(moment):
            if text not in told:
                note(text)
        told = set(_remarks(moment))
        newest = moment.committed
        if newest is not None and newest.batch_id != shown:
            if rows:
                moment = watched.count(limited=shown is not None)
            if shown is not None and shown < newest.batch_id:
                missed = [each for each in moment.batches if each.committed and shown < each.batch_id < newest.batch_id]
                yield from ((batch, None) for batch in missed)
            shown = newest.batch_id
            yield newest, moment.stores
        _wait(interval)


def _wait(seconds: float) -> None:
    """Raises BrokenPipeError as soon as nobody reads stdout any more (`| head -1`): the next batch may never come."""
    if sys.stdout is None or not hasattr(select, "poll"):  # Windows has none
        time.sleep(seconds)
        return
    gone = select.poll()
    gone.register(sys.stdout.fileno(), 0)
    if gone.poll(seconds * 1000):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def _remarks(moment: Moment) -> list[str]:
    waits = [] if moment.committed else ["Waiting for the first batch to be committed."]
    return [*([f"{moment.remark}."] if moment.remark else []), *moment.warnings, *waits]


def _json(batch: BatchFacts, stores: list[StoreNow] | None) -> str:
    fields: dict[str, Any] = {
        "batch_id": batch.batch_id,
        "batch_time": time_text(batch.time_ms),
        "seconds": batch.seconds,
        "watermark": time_text(batch.watermark_ms),
        "watermark_lag_seconds": batch.lag_seconds,
        "stores": None if stores is None else [_store_fields(store) for store in stores],
    }
    return json_module.dumps(fields, ensure_ascii=False)


def _store_fields(store: StoreNow) -> dict[str, Any]:
    return {
        "operator_id": store.operator_id,
        "name": store.name,
        "num_partitions": len(store.partitions),
        "rows": store.rows,
        "rows_batch_id": store.rows_batch,
        "bytes": store.bytes,
        "changed_bytes": store.changed_bytes,
        "bytes_batch_id": store.bytes_batch,
        "note": store.note,
    }


def _line(batch: BatchFacts, stores: list[StoreNow] | None) -> str:
    parts = [f"{time_text(batch.time_ms) or 'at an unknown time'} batch {batch.batch_id}"]
    if batch.seconds is not None:
        parts.append(f"took {duration(batch.seconds)}")
    if batch.lag_seconds is not None:
        parts.append(f"watermark {duration(batch.lag_seconds)} behind")
    for store in stores or []:
        rows = "" if store.rows is None else f"{store.rows:,} rows, "
        changed = "" if store.changed_bytes is None else f" ({size(store.changed_bytes)} of changes)"
        parts.append(f"operator {store.operator_id} {store.name}: {rows}{size(store.bytes)}{changed}")
    return "; ".join(parts)
