import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore.cli.sql import table_name
from tests.unit.cli.conftest import Run, checkpoint


def test_selects_from_the_state(run: Run) -> None:
    rows = run("read", checkpoint("aggregation"), "--json").lines
    query = "select key.k as k, value.sum_2 as total from state where key.k is not null order by k"
    selected = run("sql", checkpoint("aggregation"), query, "--json").lines
    expected = {row["key"]["k"]: row["value"]["sum_2"] for row in rows if row["key"]["k"] is not None}
    assert {row["k"]: row["total"] for row in selected} == expected
    assert [row["k"] for row in selected] == sorted(expected, key=str.encode)


def test_batch(run: Run) -> None:
    query = "select count(*) as n from state"
    counts = [run("sql", checkpoint("aggregation"), query, "--json", "--batch", b).lines[0]["n"] for b in (0, 3)]
    assert counts == [len(run("read", checkpoint("aggregation"), "--json", "--batch", b).lines) for b in (0, 3)]


def test_every_store_is_a_table(run: Run) -> None:
    query = """
        select n.key.field0 as k, n.value.value as declared, count(*) as stored
        from state_0_left_keytonumvalues n join state_0_LEFT_keyWithIndexToValue v on n.key.field0 = v.key.field0
        group by all
    """
    rows = run("sql", checkpoint("join_inner"), query, "--json").lines
    assert rows
    assert all(row["declared"] == row["stored"] for row in rows)


def test_a_table_of_another_operator(run: Run) -> None:
    rows = run("sql", checkpoint("chained_windows"), "select * from state_1_default", "--json").lines
    read = run("read", checkpoint("chained_windows"), "--operator", 1, "--json").lines
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, read)) != []


def test_table_names() -> None:
    assert table_name(0, "default") == "state"
    assert table_name(3, "default") == "state_3_default"
    assert table_name(0, "left-keyToNumValues") == "state_0_left_keytonumvalues"


def test_times_are_utc_and_columns_of_one_name_are_numbered(run: Run) -> None:
    query = "select timestamptz '2026-03-02 09:00:00+01:00' as t, 1 as n, 2 as n"
    rows = run("sql", checkpoint("snapshots"), query, "--json").lines
    assert rows == [{"t": "2026-03-02T08:00:00Z", "n": 1, "n_2": 2}]


def test_output(run: Run, tmp_path: Path) -> None:
    run("sql", checkpoint("aggregation"), "select key, value from state", "-o", tmp_path / "rows.arrow")
    assert len(pa.ipc.open_file(tmp_path / "rows.arrow").read_all()) > 1


def test_a_query_without_tables_reads_no_state(run: Run) -> None:
    assert run("sql", checkpoint("rocksdb_unique_ids"), "select 1 as one", "--json").lines == [{"one": 1}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select * from stat", "The tables are state."),
        ("select nothing from state", "nothing"),
        ("selec", "Parser Error"),
        ("", "Expected a single statement"),
    ],
)
def test_usage_errors(query: str, message: str, run: Run) -> None:
    ran = run("sql", checkpoint("aggregation"), query, exit_code=2)
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_errors(run: Run) -> None:
    assert "99" in run("sql", checkpoint("aggregation"), "select * from state", "--batch", 99, exit_code=1).err


def test_says_which_extra_brings_duckdb() -> None:
    code = "import sys; sys.modules['duckdb'] = None; from hdfsstore.cli import main; main()"
    command = [sys.executable, "-c", code, "sql", str(checkpoint("aggregation")), "select 1"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "pip install 'hdfsstore[sql]'" in ran.stderr
