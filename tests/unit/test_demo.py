from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from demo import totals
from demo.compare import rows_differ
from demo.events import SCHEMA, Traffic, write_clicks

SMALL = Traffic(files=3, minutes=10, visits=200, users=500)


def state(users: list[int], counts: list[int | None]) -> pa.Table:
    keys = pa.StructArray.from_arrays([pa.array(users)], names=["user"])
    values = pa.StructArray.from_arrays([pa.array(counts, pa.int64())], names=["count"])
    return pa.table({"key": keys, "value": values, "partition_id": pa.array([0] * len(users), pa.int32())})


def test_rows_in_another_order_are_the_same_rows() -> None:
    assert rows_differ(state([1, 2, 3], [4, None, 6]), state([3, 1, 2], [6, 4, None])) is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (state([1, 2], [4, None]), "3 rows here, 2 in Spark"),
        (state([1, 2, 3], [4, 5, 6]), "'value.count': 5"),
        (state([1, 2, 4], [4, None, 6]), "'key.user': 4"),
        (state([1, 2, 3], [4, None, 6]).rename_columns(["key", "values", "partition_id"]), "the schema here is"),
    ],
)
def test_says_what_differs(other: pa.Table, message: str) -> None:
    difference = rows_differ(state([1, 2, 3], [4, None, 6]), other)
    assert difference is not None
    assert message in difference


def test_clicks_are_the_same_each_time_and_some_come_late(tmp_path: Path) -> None:
    counts = [write_clicks(tmp_path / name, SMALL) for name in ("a", "b")]
    files = [sorted((tmp_path / name).iterdir()) for name in ("a", "b")]
    tables = [[pq.read_table(file) for file in of] for of in files]
    assert tables[0] == tables[1]
    assert counts == [sum(len(table) for table in tables[0])] * 2
    assert all(table.schema == SCHEMA for table in tables[0])
    second, third = tables[0][1:]
    assert pc.min(third["event_time"]).as_py() < pc.max(second["event_time"]).as_py()
    assert pc.max(third["user"]).as_py() < SMALL.users


def clicks_of(users: list[int], seconds: list[int]) -> pa.Table:
    return pa.table({"user": pa.array(users), "seconds": pa.array(seconds)})


def state_of(rows: dict[int, tuple[int, int, int]]) -> pa.Table:
    keys = pa.StructArray.from_arrays([pa.array(list(rows), pa.int64())], names=["user"])
    columns = [pa.array(column, pa.int64()) for column in zip(*rows.values(), strict=True)]
    values = pa.StructArray.from_arrays(columns, names=["count", "sum", "max"])
    return pa.table({"key": keys, "value": values})


def test_the_totals_are_counted_from_the_clicks(tmp_path: Path) -> None:
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    pq.write_table(clicks_of([7, 8, 7], [10, 20, 31]), files[0])
    pq.write_table(clicks_of([7, 9], [5, 6]), files[1])
    state = state_of({9: (1, 6, 6), 7: (3, 46, 31), 8: (1, 20, 20)})
    both = totals.of_files(files)
    assert totals.differ(state, both) is None
    assert totals.differ(state, totals.added(totals.of_files(files[:1]), totals.of_files(files[1:]))) is None
    assert totals.differ(state_of({9: (1, 6, 6), 8: (1, 20, 20)}), totals.without(both, 7)) is None
    halves = state_of({9: (1, 6, 6), 7: (1, 23, 31), 8: (0, 10, 20)})
    assert totals.differ(halves, totals.halved(both, [7, 8])) is None


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({7: (2, 41, 31)}, "1 users in the state, 2 in the clicks"),
        ({7: (2, 41, 31), 9: (1, 20, 20)}, "'user': 9"),
        ({7: (2, 41_000, 31), 8: (1, 20, 20)}, "'sum': 41000"),
        ({7: (3, 41, 31), 8: (1, 20, 20)}, "'count': 3"),
        ({7: (2, 41, 30), 8: (1, 20, 20)}, "'max': 30"),
    ],
)
def test_a_wrong_number_is_told(tmp_path: Path, rows: dict[int, tuple[int, int, int]], message: str) -> None:
    pq.write_table(clicks_of([7, 8, 7], [10, 20, 31]), tmp_path / "a.parquet")
    difference = totals.differ(state_of(rows), totals.of_files([tmp_path / "a.parquet"]))
    assert difference is not None
    assert message in difference
