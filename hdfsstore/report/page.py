"""Puts the report into one HTML page: no script, nothing from a network, light and dark, printable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from hdfsstore.checkpoint.notebook import time_text
from hdfsstore.report import charts, findings
from hdfsstore.report.facts import BatchFacts, StoreFacts
from hdfsstore.report.words import duration, size

STYLE = """
:root { color-scheme: light dark; --text: #1c2430; --back: #ffffff; --soft: #5b6675; --line: #d8dee6;
  --note: #fff4d6; --first: #1f6fb2; --second: #b3541e; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e9f0; --back: #14181f; --soft: #9aa6b5; --line: #333c49;
  --note: #3a3115; --first: #6db3f2; --second: #f0a06a; } }
@media print { :root { --text: #000; --back: #fff; --soft: #444; --line: #bbb; --note: #fff; --first: #1f6fb2;
  --second: #b3541e; } section, figure, tr { break-inside: avoid; } }
body { color: var(--text); background: var(--back); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 70rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; } h2 { border-top: 1px solid var(--line);
  margin: 2rem 0 0; padding-top: 1rem; } h3 { margin: 1.2rem 0 .3rem; }
.soft, figcaption { color: var(--soft); } figure { margin: .8rem 0; overflow-x: auto; }
svg { max-width: 100%; height: auto; } figcaption { font-size: .9rem; }
.findings { background: var(--note); border: 1px solid var(--line); border-radius: 6px; padding: .6rem 1rem;
  list-style-position: inside; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 0 1.5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; }
th, td { border-bottom: 1px solid var(--line); padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top;
  overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font-size: .9em; overflow-wrap: anywhere; } summary { cursor: pointer; }
"""

# No script, and nothing from elsewhere.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_SHOWN_BATCHES = 25


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed between two batches in a store, or in a part of one with column families.

    Attributes:
        name: of the state variable, timers or side of a join; None: all of the store.
        counts: how many keys of each kind; of a part, rows as `read` shows them.
        header, rows: some of them as texts.
        why: the reason if they were not compared, and there is nothing of the above.
    """

    name: str | None
    counts: Mapping[str, int]
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    why: str | None = None


@dataclass(frozen=True, slots=True)
class StorePage:
    """A store of the page.

    Attributes:
        title: its operator and name.
        report: its part of the report of `inspect`.
        facts: of it over time.
        keys: the keys of its largest values, as texts.
        batches: the two that are compared; None: there are no two.
        changes: between these.
    """

    title: str
    report: Mapping[str, Any]
    facts: StoreFacts
    keys: Sequence[str]
    batches: tuple[int, int] | None
    changes: Sequence[Changes]


def page(report: Mapping[str, Any], batches: Sequence[BatchFacts], stores: Sequence[StorePage], made: str) -> str:
    """The page.

    Args:
        report: of `inspect`, as its JSON has it.
        made: when, and by which release.
    """
    words = findings.of_query(report, batches)
    by_store = [(store, findings.of_store(store.report, store.facts, store.keys)) for store in stores]
    words += [f"{store.title}: {text}" for store, found in by_store for text in found]
    parts = [
        f"<h1>{escape(report['path'])}</h1>",
        f'<p class="soft">{escape(made)}</p>',
        _findings(words),
        _query(report, batches),
        _batches(batches),
        *(_store(store) for store in stores),
        _pinned(report["pinned"]),
    ]
    title = escape(report["path"].rstrip("/").rpartition("/")[2] or "checkpoint")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<link rel="icon" href="data:,">\n<title>{title}: state report</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _findings(words: Sequence[str]) -> str:
    if not words:
        return "<p>Nothing stands out.</p>"
    return '<ul class="findings">' + "".join(f"<li>{escape(text)}</li>" for text in words) + "</ul>"


def _query(report: Mapping[str, Any], batches: Sequence[BatchFacts]) -> str:
    committed = report["committed_batches"]
    rows = [
        ("query id", report["query_id"] or "unknown"),
        ("state store provider", report["provider"]),
        ("batches kept", f"{committed[0]} to {committed[-1]}" if committed else "none"),
        ("last one began", report["last_batch_time"] or "unknown"),
        ("watermark", report["watermark"] or "none"),
    ]
    seconds = [batch.seconds for batch in batches if batch.seconds is not None]
    if seconds:
        rows.append(("batches took", f"{duration(min(seconds))} to {duration(max(seconds))}"))
    return "<section><h2>The query</h2>" + _table((), rows) + "</section>"


def _batches(batches: Sequence[BatchFacts]) -> str:
    figures = []
    if any(batch.seconds is not None for batch in batches):
        caption = "Seconds that each batch took, from its entry in offsets to that in commits"
        figures.append(_figure(charts.durations_chart(batches), caption))
    if any(batch.watermark_ms for batch in batches):
        figures.append(
            _figure(charts.watermark_chart(batches), "Watermark (dashed) beside the clock (solid) of the batches")
        )
    rows = [
        (str(batch.batch_id), time_text(batch.time_ms), time_text(batch.watermark_ms),
         "unknown" if batch.seconds is None else duration(batch.seconds), "yes" if batch.committed else "no")
        for batch in batches[-_SHOWN_BATCHES:]
    ]  # fmt: skip
    table = _table(("#batch", "began", "watermark", "#took", "committed"), rows)
    return f"<section><h2>Batches</h2>{_side_by_side(figures)}{_details('The last batches', table)}</section>"


def _store(store: StorePage) -> str:
    partitions, facts = store.report["partitions"], store.facts
    total = sum(partition["bytes"] for partition in partitions)
    unit = "bytes" if any(partition["rows"] is None for partition in partitions) else "rows"
    head = f"{len(partitions)} partitions, {size(total)}"
    if unit == "rows":
        head += f", {sum(partition['rows'] for partition in partitions):,} rows"
    figures = []
    if facts.rows:
        figures.append(_figure(charts.rows_chart(facts.rows), "Rows after some of the batches that are kept"))
    if partitions:
        bars = [(partition["partition_id"], partition[unit]) for partition in partitions]
        figures.append(_figure(charts.partitions_chart(bars, unit), f"{unit.capitalize()} of each partition"))
    if facts.versions:
        names = ("changelog", "zip") if any("zip" in p["kinds"] or "sst" in p["kinds"] for p in partitions) else (
            "delta", "snapshot"
        )  # fmt: skip
        caption = f"Bytes of the files of each version, all partitions together; batch b writes version b + 1. " \
            f"Bars are {names[0]}s, diamonds {names[1]}s"  # fmt: skip
        figures.append(_figure(charts.versions_chart(facts.versions), caption))
    parts = [
        f"<h2>{escape(store.title)}</h2>",
        f'<p class="soft">{escape(head)}</p>',
        _side_by_side(figures),
        _retention(store, total),
        _largest(store),
        _changes(store),
        _details("All partitions", _partitions(partitions)),
        _schemas(store.report["schemas"]),
    ]
    return "<section>" + "".join(parts) + "</section>"


def _retention(store: StorePage, total: int) -> str:
    restarts = [partition["restart"] for partition in store.report["partitions"]]
    rows = [("all files", size(total))]
    if all(restart is not None for restart in restarts):
        needed = sum(of_kind["bytes"] for restart in restarts for of_kind in restart.values())
        rows.append(("what a restart reads", size(needed)))
    rows += [
        (f"freed if the newest {_versions(freed.versions)} kept", size(freed.bytes)) for freed in store.facts.freed
    ]
    return "<h3>What retention holds</h3>" + _table(("", "#bytes"), rows)


def _largest(store: StorePage) -> str:
    if not store.facts.largest:
        return ""
    pairs = zip(store.keys, store.facts.largest, strict=True)
    return "<h3>Largest values</h3>" + _table(("key", "#bytes"), [(key, size(value.bytes)) for key, value in pairs])


def _changes(store: StorePage) -> str:
    if store.batches is None or not store.changes:
        return ""
    start, end = store.batches
    return f"<h3>From batch {start} to batch {end}</h3>" + "".join(map(_changed, store.changes))


def _changed(changes: Changes) -> str:
    name = "Keys" if changes.name is None else f"Rows of {changes.name}"
    if changes.why is not None:
        return f'<p class="soft">{escape(name)} are not compared: {escape(changes.why)}</p>'
    counts = ", ".join(f"{count:,} {kind}" for kind, count in changes.counts.items())
    rows = _details("Some of them", _table(changes.header, changes.rows)) if changes.rows else ""
    return f"<p>{escape(name)}: {escape(counts)}.</p>{rows}"


def _partitions(partitions: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        (str(p["partition_id"]), "" if p["rows"] is None else f"{p['rows']:,}", size(p["bytes"]), f"{p['files']:,}")
        for p in partitions
    ]
    return _table(("#partition", "#rows", "#bytes", "#files"), rows)


def _schemas(schemas: Sequence[Mapping[str, Any]]) -> str:
    def fields(of: Sequence[tuple[str, str]]) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in of) or "no fields"

    rows = [(schema["name"], fields(schema["key"]), fields(schema["value"])) for schema in schemas]
    return _details("Schema", _table(("column family", "key", "value"), rows)) if rows else ""


def _pinned(pinned: Mapping[str, str]) -> str:
    if not pinned:
        return ""
    return (
        "<section><h2>Settings that the offset log pins</h2>"
        + _table(("setting", "value"), pinned.items())
        + "</section>"
    )


def _versions(number: int) -> str:
    return "version were" if number == 1 else f"{number} versions were"


def _figure(svg: str, caption: str) -> str:
    # Presentation attributes keep no variables everywhere, styles do.
    for name in ("fill", "stroke"):
        for variable in ("first", "second"):
            svg = svg.replace(f'{name}="var(--{variable})"', f'style="{name}:var(--{variable})"')
    return f'<figure role="img" aria-label="{escape(caption)}">{svg}<figcaption>{escape(caption)}</figcaption></figure>'


def _side_by_side(figures: Sequence[str]) -> str:
    return '<div class="charts">' + "".join(figures) + "</div>" if figures else ""


def _details(title: str, content: str) -> str:
    return f'<details><summary>{escape(title)}</summary><div class="scroll">{content}</div></details>'


def _table(header: Sequence[str], rows: Any) -> str:
    """Columns whose name begins with # are numbers."""
    classes = [' class="number"' if name.startswith("#") else "" for name in header]

    def line(cells: Sequence[str], tag: str) -> str:
        padded = classes or [""] * len(cells)
        return (
            "<tr>"
            + "".join(f"<{tag}{kind}>{escape(c)}</{tag}>" for c, kind in zip(cells, padded, strict=True))
            + "</tr>"
        )

    head = f"<thead>{line([name.lstrip('#') for name in header], 'th')}</thead>" if header else ""
    return f"<table>{head}<tbody>{''.join(line(tuple(row), 'td') for row in rows)}</tbody></table>"
