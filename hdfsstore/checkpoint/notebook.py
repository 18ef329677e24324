"""HTML of objects of this package, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape


def time_text(milliseconds: int) -> str:
    """A time since 1970 in UTC, to the second; "none" for 0, as Spark has it."""
    if not milliseconds:
        return "none"
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):  # a year that Python does not have
        return f"{milliseconds} ms"


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table below a title."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<p><b>{escape(title)}</b></p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
