"""Numbers as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime


def size(count: int) -> str:
    """A number of bytes with the unit that suits it."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def duration(seconds: float) -> str:
    """A time span with the unit that suits it."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def utc(milliseconds: int) -> str:
    """A time since 1970, to the second."""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):  # a year that Python does not have
        return f"{milliseconds} ms"
