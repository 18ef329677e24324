from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

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
