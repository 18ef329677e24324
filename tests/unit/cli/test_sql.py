import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore.cli.sql_tables import table_name
from tests.support.pseudo_terminal import OnATerminal
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


@pytest.mark.parametrize("variable", ["total", "seen", "times"])
def test_every_state_variable_is_a_table(variable: str, run: Run) -> None:
    rows = run("sql", checkpoint("transform_structures"), f"from state_0_{variable}", "--json").lines
    read = run("read", checkpoint("transform_structures"), "--state-var", variable, "--json").lines
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, read)) != []
    older = run("sql", checkpoint("transform_structures"), f"from state_0_{variable}_at_0", "--json").lines
    read = run("read", checkpoint("transform_structures"), "--state-var", variable, "--batch", 0, "--json").lines
    assert sorted(map(json.dumps, older)) == sorted(map(json.dumps, read)) != sorted(map(json.dumps, rows))


@pytest.mark.parametrize(
    ("case", "table", "option"),
    [
        ("transform_event_timers", "timers", ["--timers"]),
        ("rocksdb_join_format3", "left", ["--join-side", "left"]),
        ("rocksdb_join_format4", "right", ["--join-side", "right"]),
    ],
)
def test_timers_and_sides_of_joins_are_tables(case: str, table: str, option: list[str], run: Run) -> None:
    rows = run("sql", checkpoint(case), f"from state_0_{table}", "--json").lines
    read = run("read", checkpoint(case), *option, "--json").lines
    assert sorted(map(json.dumps, rows)) == sorted(map(json.dumps, read)) != []
    assert f"state_0_{table}" in run("sql", checkpoint(case), "from nowhere", exit_code=2).err.replace("\n", " ")


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
        ("select * from stat", "The tables are state; state_at_3 is"),
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


def test_two_batches_beside_each_other(run: Run) -> None:
    query = "select key.k from state_at_3 b anti join state_at_0 a on a.key.k is not distinct from b.key.k"
    added = run("sql", checkpoint("aggregation"), query, "--json").lines
    lines = run("diff", checkpoint("aggregation"), "--from", 0, "--to", 3, "--json").lines
    expected = [line["key"]["k"] for line in lines if line["change"] == "added"]
    assert sorted(map(json.dumps, (row["k"] for row in added))) == sorted(map(json.dumps, expected)) != []


def test_show_tables_shows_every_table(run: Run) -> None:
    names = [row["name"] for row in run("sql", checkpoint("chained_windows"), "show tables", "--json").lines]
    assert {"state", "state_1_default", "state_at_0", "state_1_default_at_0"} <= set(names)


def test_a_batch_that_is_not_kept(run: Run) -> None:
    assert "batch 99" in run("sql", checkpoint("aggregation"), "from state_at_99", exit_code=1).err


@pytest.mark.parametrize("arguments", [["-"], []])
def test_the_query_comes_from_stdin(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "hdfsstore", "sql", str(checkpoint("aggregation")), *arguments, "--json"]
    ran = subprocess.run(command, input="select 7 as n", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (0, '{"n":7}\n')


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        ("select 'é' as n".encode(), 0, '{"n":"é"}\n'),
        (b"select '\xe9' as n", 2, "the query has to be UTF-8, and character 8 is not"),
    ],
)
@pytest.mark.parametrize("from_stdin", [True, False])
def test_a_query_is_utf8_in_any_locale(locale: str, query: bytes, status: int, said: str, from_stdin: bool) -> None:
    command = [sys.executable, "-m", "hdfsstore", "sql", str(checkpoint("aggregation")), "--json"]
    environment = {**os.environ, "LC_ALL": locale, "COLUMNS": "200"}
    given = [b"-"] if from_stdin else [query]
    ran = subprocess.run(
        [*map(os.fsencode, command), *given], input=query, capture_output=True, env=environment, check=False
    )
    assert ran.returncode == status
    assert said in (ran.stderr if status else ran.stdout).decode()


# It takes longer than anything waits.
ENDLESS = "select count(*) from range(3000000) a, range(3000000) b where (a.range + b.range) % 7 = 3"


class Sql(OnATerminal):
    """`hdfsstore sql` on a terminal."""

    def __init__(self, *arguments: str) -> None:
        super().__init__("sql", str(checkpoint("aggregation")), *arguments, TERM="dumb")

    def interrupt(self) -> None:
        """Ctrl-C once the query is at work. One that comes before takes the line away, or is lost."""
        end, busy = time.monotonic() + 120, self._cpu_s() + 1
        while self._cpu_s() < busy:
            assert time.monotonic() < end
            time.sleep(0.05)
        self.process.send_signal(signal.SIGINT)

    def _cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_prompt_takes_one_statement_after_the_other() -> None:
    with Sql() as terminal:
        terminal.wait_for("sql> ")
        assert "The tables are state" in terminal.shown
        terminal.type("select count(*)\nas n\nfrom state;\n")
        terminal.wait_for("sql> ")
        assert " n " in terminal.shown
        terminal.type("select nothing from state;\n")
        terminal.wait_for("sql> ")
        assert "Error: Binder Error" in terminal.shown
        terminal.type(f"{ENDLESS};\n")
        terminal.interrupt()
        terminal.wait_for("Interrupted.")
        terminal.wait_for("sql> ")
        terminal.type("select 40 + 2 as n;\n")
        terminal.wait_for("42")
        terminal.wait_for("sql> ")
        terminal.type("\x04")
        assert terminal.ended() == 0


def test_ctrl_c_ends_a_query() -> None:
    with Sql(f"{ENDLESS} and (select count(*) from state) > 0") as terminal:
        terminal.wait_for("Fields with the same name")  # of the table, which is read
        terminal.interrupt()
        assert terminal.ended() == 130
