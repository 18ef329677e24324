"""`hdfsstore report`: writes one HTML page about a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from hdfsstore import Checkpoint, Operator, StateStoreError, Store
from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.operators import DEFAULT_STORE
from hdfsstore.checkpoint.parts import Part, parts_of_store
from hdfsstore.checkpoint.row_identity import KINDS
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.cli import options
from hdfsstore.cli.diff import changed_rows, decoded_diff
from hdfsstore.cli.inspection import examine
from hdfsstore.cli.output import columns_of
from hdfsstore.cli.output_file import opened
from hdfsstore.cli.progress import rows_counted
from hdfsstore.conditions.texts import texts
from hdfsstore.report.facts import StoreFacts, Value, batch_facts, store_facts
from hdfsstore.report.page import Changes, StorePage, page

_CHANGED_ROWS = 10
_LONGEST = 300


def report(
    path: options.Location,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Write the page to this file.", dir_okay=False, show_default=False),
    ],
    points: Annotated[int, typer.Option(help="Count the rows after this many of the kept batches.", min=1)] = 8,
    start: Annotated[
        int | None,
        typer.Option("--from", help="Compare the state after this batch ...", min=0, show_default=False),
    ] = None,
    end: Annotated[
        int | None,
        typer.Option(
            "--to", help="... with that after this one; unless given, the last two.", min=0, show_default=False
        ),
    ] = None,
    option_file: options.OptionFile = None,
) -> None:
    """Write one HTML page: rows, partitions, files, batches and watermark over time, and what stands out."""
    checkpoint = options.open_checkpoint(path, option_file)
    logs = BatchLogs(checkpoint.file_manager, checkpoint.path)
    batches = batch_facts(logs, logs.look())
    committed = [batch.batch_id for batch in batches if batch.committed]
    pair = _pair(committed, start, end)
    inspected = asdict(examine(checkpoint, count_rows=True))
    stores = []
    for operator, of_operator in zip(checkpoint.operators, inspected["operators"], strict=True):
        for store, of_store in zip(operator.stores, of_operator["stores"], strict=True):
            wrap = partial(rows_counted, partitions=len(store.partition_ids))
            facts = store_facts(checkpoint, operator, store, _spread(committed, points), wrap)
            stores.append(_store_page(checkpoint, operator, store, of_store, facts, pair))
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    html = page(inspected, batches, stores, f"Made by hdfsstore {version('hdfsstore')} on {now}")
    with opened(output) as file:
        file.write(html.encode())


def _pair(committed: Sequence[int], start: int | None, end: int | None) -> tuple[int, int] | None:
    """The two batches to compare; None: there are no two."""
    if start is None and end is None:
        return (committed[-2], committed[-1]) if len(committed) > 1 else None
    first = committed[0] if start is None else start
    last = committed[-1] if end is None else end
    if first >= last:
        raise typer.BadParameter("--from has to be an earlier batch than --to")
    return first, last


def _spread(committed: Sequence[int], points: int) -> list[int]:
    """So many of the batches, evenly, with the first and the last one."""
    if len(committed) <= points:
        return list(committed)
    step = (len(committed) - 1) / max(points - 1, 1)
    return sorted({committed[len(committed) - 1 - round(step * at)] for at in range(points)})


def _store_page(
    checkpoint: Checkpoint,
    operator: Operator,
    store: Store,
    of_store: dict[str, Any],
    facts: StoreFacts,
    pair: tuple[int, int] | None,
) -> StorePage:
    parts = [] if pair is None else parts_of_store(operator, store)
    changes = [_changes(checkpoint, operator, store, part, *pair) for part in parts] if pair else []
    title = f"Operator {operator.operator_id}, {operator.name or 'of unknown kind'}: store {store.name}"
    return StorePage(title, of_store, facts, [_key(value) for value in facts.largest], pair, changes)


def _key(value: Value) -> str:
    text = _short(texts(value.key)[0])
    return text if value.part is None else f"{text} of {value.part}"


def _changes(checkpoint: Checkpoint, operator: Operator, store: Store, part: Part, start: int, end: int) -> Changes:
    name = part.name if store.has_families else None
    request = StateRequest(**{"operator_id": operator.operator_id, "store_name": DEFAULT_STORE, **part.arguments})
    try:
        found = decoded_diff(checkpoint, request, start, end)
    except StateStoreError as error:
        return Changes(name, {}, [], [], str(error))
    counts = Counter(found.table["change"].to_pylist())
    header: list[str] = []
    rows: list[tuple[str, ...]] = []
    for batch in changed_rows(found, _CHANGED_ROWS):
        columns = columns_of(batch)
        header = [name for name, _ in columns]
        rows += zip(*([_short(text) for text in texts(column)] for _, column in columns), strict=True)
    return Changes(name, {kind: counts[kind] for kind in KINDS}, header, rows[:_CHANGED_ROWS])


def _short(text: str | None) -> str:
    if text is None:
        return "null"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text):,} characters)"
