"""Clicks on a web shop: a few users are busy, most are not; they click in visits; some clicks arrive late."""

from __future__ import annotations

import bisect
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
PAGES = ["/", "/search", "/product", "/product/reviews", "/basket", "/checkout", "/account", "/help"]
PAGE_WEIGHTS = [20, 18, 30, 9, 10, 5, 5, 3]
REFERRERS = [None, "search engine", "newsletter", "social", "partner"]
REFERRER_WEIGHTS = [50, 28, 8, 10, 4]
SCHEMA = pa.schema(
    [
        ("user", pa.int64()),
        ("page", pa.string()),
        ("referrer", pa.string()),
        ("seconds", pa.int64()),
        ("event_time", pa.timestamp("us", "UTC")),
    ]
)
SPARK_SCHEMA = "user long, page string, referrer string, seconds long, event_time timestamp"


@dataclass(frozen=True)
class Traffic:
    """How much is clicked: `files` files, each of `minutes` minutes, with `visits` visits by some of `users` users.

    `first` is the number of the first file: the day begins with file 0.
    """

    files: int = 6
    first: int = 0
    minutes: int = 20
    visits: int = 15_000
    users: int = 200_000
    seed: int = 42


def write_clicks(folder: Path, traffic: Traffic) -> int:
    """Writes the clicks as Parquet files, one to become one batch of the query. Returns how many clicks there are."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(traffic.seed)
    # Zipf's law without its extreme head: nobody clicks day and night.
    weights = list(itertools.accumulate(1 / (rank + 200) for rank in range(traffic.users)))
    clicks = 0
    late: list[tuple[object, ...]] = []
    for file in range(traffic.first, traffic.first + traffic.files):
        begin = START + timedelta(minutes=traffic.minutes * file)
        rows: list[tuple[object, ...]] = late
        late = []
        for _ in range(traffic.visits):
            user = bisect.bisect(weights, dice.random() * weights[-1])
            for row in _visit(dice, user, begin + timedelta(minutes=dice.random() * traffic.minutes)):
                # One click in a hundred reaches us with the next file: a telephone in a tunnel.
                (late if dice.random() < 0.01 else rows).append(row)
        columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), SCHEMA, strict=True)]
        table = pa.table(columns, schema=SCHEMA)
        if file == 0:
            table = pa.concat_tables([table, _newsletter(traffic.users // 2)])
        pq.write_table(table, folder / f"clicks-{file:03}.parquet")
        clicks += table.num_rows
    return clicks


def _newsletter(readers: int) -> pa.Table:
    """One click by each reader, with which the day begins."""
    same = ("/", "newsletter", 5, START)
    columns = [pa.repeat(pa.scalar(value, kind), readers) for value, kind in zip(same, SCHEMA.types[1:], strict=True)]
    return pa.table([pa.array(range(readers)), *columns], schema=SCHEMA)


def _visit(dice: random.Random, user: int, at: datetime) -> Iterator[tuple[object, ...]]:
    """The clicks of one visit: (user, page, referrer, seconds on the page, event time)."""
    referrer = dice.choices(REFERRERS, REFERRER_WEIGHTS)[0]
    for page in dice.choices(PAGES, PAGE_WEIGHTS, k=1 + int(dice.expovariate(0.5))):
        seconds = 1 + int(dice.lognormvariate(3, 1))
        yield user, page, referrer, seconds, at
        at += timedelta(seconds=seconds)
        referrer = None
