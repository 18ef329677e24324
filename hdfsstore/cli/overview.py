"""Prints the report of `inspect` on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hdfsstore.checkpoint.batch_conf import Repartition
from hdfsstore.checkpoint.number_ranges import number_ranges
from hdfsstore.cli.bars import Bars
from hdfsstore.cli.inspection import Fields, Kinds, PartitionReport, Report, StoreReport
from hdfsstore.report.words import size

SHOWN_PARTITIONS = 16
BAR = 24


def show(report: Report) -> None:
    """Prints the report in the terminal's width."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 1_000
    console.print(_pairs(_query(report)))
    for error in report.damaged:
        console.print(Text(f"\nA log is damaged: {error}", "yellow"))
    if report.repair:
        console.print(Text(f"\nA repair has not ended: {report.repair}", "yellow"))
    if report.pinned:
        console.print(
            Text("\nPinned by the offset log; a restart keeps these settings and ignores the session's conf", "bold")
        )
        console.print(_pairs(list(report.pinned.items())))
    for operator in report.operators:
        console.print(Text(f"\nOperator {operator.operator_id}: {operator.name or 'of unknown kind'}", "bold cyan"))
        for store in operator.stores:
            _show_store(console, store)
    if not report.operators:
        console.print("\nThis query keeps no state.")


def _query(report: Report) -> list[tuple[str, str]]:
    pairs = [
        ("checkpoint", report.path),
        *([("client", report.client)] if report.client else []),
        ("query id", report.query_id or "unknown: the file metadata is missing"),
        ("state store provider", report.provider),
        ("batches committed", number_ranges(report.committed_batches)),
    ]
    if report.last_batch_time:
        pairs.append(("last one began", report.last_batch_time))
    repartition = report.unfinished_repartition
    again = [each for each in report.unfinished_batches if repartition is None or each != repartition.batch_id]
    if again:
        pairs.append(("batches unfinished", f"{number_ranges(again)} (run again at the next start)"))
    if repartition:
        pairs.append(("repartition unfinished", _unfinished(repartition)))
    pairs.append(("watermark", f"{report.watermark or 'none'} (of the last committed batch)"))
    if report.next_watermark != report.watermark:
        pairs.append(("next watermark", f"{report.next_watermark} (of the next batch)"))
    return pairs


def _unfinished(repartition: Repartition) -> str:
    return (
        f"batch {repartition.batch_id}, from {repartition.before} to {repartition.after} partitions. Spark 4.2 and "
        f"later start the query only after another repartition to {repartition.after}. Do not start it with an older "
        "Spark, which would lose state"
    )


def _show_store(console: Console, store: StoreReport) -> None:
    facts = [f"store {store.name}", f"{store.num_partitions} partitions"]
    if all(partition.rows is not None for partition in store.partitions):
        facts.append(f"{sum(partition.rows or 0 for partition in store.partitions):,} rows")
    facts.append(size(sum(partition.bytes for partition in store.partitions)))
    console.print(Text("  " + ", ".join(facts), "bold"))
    for family in store.schemas:
        of = f" of {family.name}" if len(store.schemas) > 1 else ""
        pairs = [(f"  key{of}", _schema(family.key)), (f"  value{of}", _schema(family.value))]
        if family.number is not None and of:
            pairs.append((f"  family {family.name}", f"number {family.number}, {family.rows:,} rows"))
        console.print(_pairs(pairs))
    if not store.schemas:
        console.print(Text("    no schema file (Spark 2 wrote none)", "yellow"))
    if others := store.other_partitions:
        text = f"    folders of another number of partitions: {number_ranges(others.partition_ids)}"
        console.print(Text(f"{text} ({others.files} files, {size(others.bytes)})", "yellow"))
    if store.note:
        console.print(Text(f"    {store.note}", "yellow"))
    if store.partitions:
        console.print(_partitions(store.partitions))
        console.print(_pairs(_files(store.partitions)))


def _files(partitions: list[PartitionReport]) -> list[tuple[str, str]]:
    """What the files of all partitions take, and what a restart downloads of them."""
    pairs = [("  files", _sizes([partition.kinds for partition in partitions]))]
    if all(partition.restart is not None for partition in partitions):
        pairs.append(("  a restart reads", _sizes([partition.restart or {} for partition in partitions])))
        shared = [{"files": each.shared} for each in partitions if each.shared and each.shared.files]
        if shared:
            pairs.append(("  of these, other versions share", _sizes(shared)))
    return pairs


def _sizes(of_partitions: Sequence[Kinds]) -> str:
    files, total = Counter[str](), Counter[str]()
    for kinds in of_partitions:
        for kind, sizes in kinds.items():
            files[kind] += sizes.files
            total[kind] += sizes.bytes
    return ", ".join(f"{kind}: {files[kind]} of {size(total[kind])}" for kind in files) or "none"


def _partitions(partitions: list[PartitionReport]) -> Table:
    """A bar for each partition. Its length shows the rows (else the bytes), relative to the largest partition."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for _ in ("rows", "bytes", "files"):
        table.add_column(justify="right", no_wrap=True)
    bars = Bars(partitions, SHOWN_PARTITIONS, BAR)
    for partition in bars.shown:
        table.add_row(
            f"    {partition.partition_id}",
            bars.of(partition),
            "" if partition.rows is None else f"{partition.rows:,} rows",
            size(partition.bytes),
            f"{partition.files} files",
        )
    if bars.others:
        table.add_row("    ...", f"and {len(bars.others)} smaller partitions")
    return table


def _pairs(pairs: list[tuple[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(Text(f"  {name}", "dim"), Text(value))
    return table


def _schema(fields: Fields) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in fields) or "no fields"
