"""The input rows that several cases share."""

from __future__ import annotations

from .case import Row

EVENTS = "k STRING, ts TIMESTAMP, n INT, d DOUBLE"


def at(minute: int, second: int = 0) -> str:
    """A timestamp on one fixed day."""
    return f"2024-01-01T{12 + minute // 60:02}:{minute % 60:02}:{second:02}Z"


# Words with and without multiples of eight bytes, beyond ASCII, empty and null.
WORDS = ["a", "bb", "eightbyt", "ninebytes", "", "Zürich", "日本語", None]


def events(batches: int = 4, minutes: int = 4) -> list[list[Row]]:
    """A few rows a batch: all words come back now and then, time goes on by so many minutes a batch."""
    return [
        [
            {
                "k": WORDS[(3 * batch + i) % len(WORDS)],
                "ts": at(minutes * batch + i % 3, 7 * i),
                "n": None if (batch + i) % 7 == 3 else 10 * batch + i,
                "d": None if (batch + i) % 5 == 2 else (batch + 1) * (i - 2) / 8,
            }
            for i in range(5)
        ]
        for batch in range(batches)
    ]
