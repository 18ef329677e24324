"""What the state has to hold, counted from the files of clicks by Arrow alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

COLUMNS = ["user", "count", "sum", "max"]


def of_files(files: list[Path]) -> pa.Table:
    """Of each user the clicks, the seconds and the longest look: columns user, count, sum, max, all int64."""
    clicks = pa.concat_tables([pq.read_table(file, columns=["user", "seconds"]) for file in files])
    totals = clicks.group_by("user").aggregate([("seconds", "count"), ("seconds", "sum"), ("seconds", "max")])
    return _in_order(totals.rename_columns(COLUMNS))


def added(totals: pa.Table, more: pa.Table) -> pa.Table:
    """The totals of all clicks of both."""
    both = pa.concat_tables([totals, more])
    sums = both.group_by("user").aggregate([("count", "sum"), ("sum", "sum"), ("max", "max")])
    return _in_order(sums.rename_columns(COLUMNS))


def without(totals: pa.Table, user: int) -> pa.Table:
    """The totals of all other users."""
    return totals.filter(pc.field("user") != user)


def halved(totals: pa.Table, users: list[int]) -> pa.Table:
    """The totals with half of the clicks and seconds of these users."""
    chosen = pc.is_in(totals["user"], pa.array(users, pa.int64()))
    halves = {name: pc.if_else(chosen, pc.divide(totals[name], 2), totals[name]) for name in ("count", "sum")}
    return pa.table({name: halves.get(name, totals[name]) for name in COLUMNS})


def of_state(state: pa.Table) -> pa.Table:
    """The same columns of the state of the query, as `read_state` gives it."""
    flat = state.flatten()
    names = ["key.user", "value.count", "value.sum", "value.max"]
    return _in_order(pa.table([flat[name].cast(pa.int64()) for name in names], names=COLUMNS))


def differ(state: pa.Table, expected: pa.Table) -> str | None:
    """What differs between the state and the totals that it has to hold; None when nothing does."""
    found, expected = of_state(state), _in_order(expected)
    if found == expected:
        return None
    if len(found) != len(expected):
        return f"{len(found):,} users in the state, {len(expected):,} in the clicks"
    row = next(i for i in range(len(found)) if found.slice(i, 1) != expected.slice(i, 1))
    return f"the state has {found.slice(row, 1).to_pylist()[0]}, the clicks {expected.slice(row, 1).to_pylist()[0]}"


def _in_order(totals: pa.Table) -> pa.Table:
    return totals.select(COLUMNS).sort_by("user").combine_chunks()
