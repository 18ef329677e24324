import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hdfsstore
from hdfsstore.conditions.names import unique_names
from tests.support.rows import counted
from tests.support.truth import Read, reads
from tests.unit.cli.conftest import Run, checkpoint

NEWEST = [read for read in reads() if read.case.folder.parent.name == "spark-4.3.0" and not read.facts["change_feed"]]


def same_names(table: pa.Table) -> pa.Table:
    """Spark's rows without the columns that only the tests need, under the names that the command gives."""
    table = table.select(["key", "value", "partition_id"])
    return pa.Table.from_arrays(table.columns, schema=table.schema)


@pytest.mark.parametrize(
    "read", [read for read in NEWEST if read.facts["batch_id"] == read.case.facts["committed_batches"][-1]], ids=str
)
def test_arrow_holds_the_rows_that_spark_reads(read: Read, run: Run, tmp_path: Path) -> None:
    rows = read.rows
    where = ["--join-side", read.facts["join_side"]] if read.facts["join_side"] else []
    where += ["--operator", read.facts["operator_id"], "--store", read.facts["store_name"]] if not where else []
    run("read", read.case.checkpoint, *where, "-o", tmp_path / "rows.arrow")
    ours = pa.ipc.open_file(tmp_path / "rows.arrow").read_all()
    assert ours.schema == unique_names(ours.schema)
    if rows is not None:
        assert counted(ours) == counted(same_names(rows))


def test_parquet_and_arrow_are_the_same_rows(run: Run, tmp_path: Path) -> None:
    for name in ("rows.parquet", "rows.arrow"):
        run("read", checkpoint("window_aggregation"), "-o", tmp_path / name)
    assert counted(pq.read_table(tmp_path / "rows.parquet")) == counted(
        pa.ipc.open_file(tmp_path / "rows.arrow").read_all()
    )


def test_json_and_csv_are_the_same_rows(run: Run) -> None:
    objects = run("read", checkpoint("session_window"), "--json").lines
    records = list(csv.DictReader(io.StringIO(run("read", checkpoint("session_window"), "--format", "csv").out)))
    assert len(objects) == len(records) > 3

    def text(value: object) -> str:
        if isinstance(value, dict):
            return json.dumps(value, separators=(",", ":"))
        return "" if value is None else str(value)

    def fields(name: str, value: Any) -> dict[str, str]:
        if not isinstance(value, dict):
            return {name: text(value)}
        return {full: leaf for child in value for full, leaf in fields(f"{name}.{child}", value[child]).items()}

    flat = [
        fields("key", row["key"]) | fields("value", row["value"]) | {"partition_id": str(row["partition_id"])}
        for row in objects
    ]
    assert sorted(map(str, flat)) == sorted(map(str, records))


def test_table_shows_twenty_rows_and_says_so(run: Run) -> None:
    rows = run("read", checkpoint("snapshots"), "--json").lines
    shown = run("read", checkpoint("snapshots"))
    assert [column for column in shown.out.splitlines() if "key.k" in column]
    cut = len(rows) > 20
    assert ("The first 20 rows" in shown.err) == cut
    assert len(shown.out.strip().splitlines()) == min(20, len(rows)) + 2
    assert run("read", checkpoint("snapshots"), "--limit", 0).out.count("\n") >= len(rows) + 2


def test_limit(run: Run) -> None:
    ran = run("read", checkpoint("aggregation"), "--json", "--limit", 2)
    assert len(ran.lines) == 2
    assert "The first 2 rows" in ran.err


def test_batch(run: Run) -> None:
    def keys(*of_batch: object) -> set[str]:
        return {row["key"]["k"] for row in run("read", checkpoint("aggregation"), "--json", *of_batch).lines}

    assert keys("--batch", 0) < keys("--batch", 2)
    assert keys("--batch", 3) == keys()


def test_where(run: Run) -> None:
    rows = run("read", checkpoint("aggregation"), "--json").lines
    condition = "value.sum_2 > 0.2 and key.k is not null"
    chosen = run("read", checkpoint("aggregation"), "--json", "--where", condition).lines
    expected = [row for row in rows if row["value"]["sum_2"] > 0.2 and row["key"]["k"] is not None]
    assert sorted(map(str, chosen)) == sorted(map(str, expected)) != []


def test_where_finds_nothing(run: Run) -> None:
    assert run("read", checkpoint("aggregation"), "--json", "--where", "key.k = 'nobody'").out == ""


def test_repeated_field_names_are_numbered(run: Run) -> None:
    ran = run("read", checkpoint("aggregation"), "--json", "--limit", 1)
    assert list(ran.lines[0]["value"]) == [
        *("sum", "sum_2", "count", "count_2", "sum_3", "count_3", "sum_4", "count_4", "max")
    ]
    assert "value.sum_2, value.count_2, value.sum_3" in ran.err


def test_stores_of_a_join(run: Run) -> None:
    counts = run("read", checkpoint("join_inner"), "--store", "left-keyToNumValues", "--json").lines
    buffered = run("read", checkpoint("join_inner"), "--store", "left-keyWithIndexToValue", "--json").lines
    assert sum(row["value"]["value"] for row in counts) == len(buffered) > 0
    assert len(run("read", checkpoint("join_inner"), "--join-side", "left", "--json").lines) == len(buffered)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("join_inner", "--store right-keyToNumValues (symmetricHashJoin), --operator 0 --store"),
        ("join_inner", "--join-side left or right shows what a side of the join buffers"),
        ("rocksdb_join_format3", "one by one: give --join-side left or right"),
        ("transform_ttl", "give --state-var seen or times or total"),
        ("transform_event_timers", ", or --timers"),
    ],
)
@pytest.mark.parametrize("command", ["read", "history", "diff"])
def test_a_read_without_a_part_names_the_options(name: str, advice: str, command: str, run: Run) -> None:
    more = {"read": [], "history": ["--key", "{}"], "diff": ["--from", "0", "--to", "1"]}[command]
    ran = run(command, checkpoint(name), *more, exit_code=2)
    assert advice in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--where", "key.x = 1"],
            "Invalid value for --where: there is no field key.x; the fields are key.k, value.sum",
        ),
        (["--where", "key.k ="], "expected a field, a number or a 'string' at the end"),
        (["--store", "x"], "operator 0 has no store x; there are --operator 0 --store default (stateStoreSave)"),
        (["--operator", "7"], "operator 7 has no store default"),
        (["--json", "--format", "csv"], "exclude each other"),
        (["--format", "xml"], "--format"),
        (["--limit", "-1"], "--limit"),
        (["--join-side", "up"], "--join-side"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, run: Run) -> None:
    ran = run("read", checkpoint("aggregation"), *arguments, exit_code=2)
    assert message in " ".join(ran.err.split())
    assert ran.out == ""


@pytest.mark.parametrize(
    ("case", "arguments", "message"),
    [
        (
            "transform_event_timers",
            ["--timers", "--state-var", "count"],
            "timers are no state variable: give --state-var or --timers",
        ),
        (
            "rocksdb_join_format4",
            ["--store", "left-keyWithTsToValues"],
            "has no store left-keyWithTsToValues; there are --operator 0 --store default (symmetricHashJoin). "
            "--join-side left or right shows what a side of the join buffers",
        ),
    ],
)
@pytest.mark.parametrize("command", [["read"], ["history", "--key", "{}"], ["diff", "--from", 0, "--to", 1]], ids=str)
def test_usage_errors_of_stores_with_column_families(
    case: str, arguments: list[str], message: str, command: list[Any], run: Run
) -> None:
    ran = run(command[0], checkpoint(case), *command[1:], *arguments, exit_code=2)
    assert message in " ".join(ran.err.split())


@pytest.mark.parametrize(
    ("case", "arguments", "message"),
    [
        ("aggregation", ["--batch", "99"], "99"),
        ("unfinished_batch", ["--batch", "3"], "3"),
        ("nothing", [], "there is no checkpoint"),
        ("aggregation", ["--join-side", "left"], "join"),
    ],
)
def test_errors_are_one_message(case: str, arguments: list[str], message: str, run: Run, tmp_path: Path) -> None:
    ran = run("read", checkpoint(case), *arguments, "-o", tmp_path / "rows.csv", exit_code=1)
    assert ran.err.startswith("Error: ")
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_an_error(run: Run, tmp_path: Path) -> None:
    ran = run("read", checkpoint("aggregation"), "-o", tmp_path / "no" / "rows.csv", exit_code=1)
    assert "No such file or directory" in ran.err


@pytest.mark.parametrize(
    ("checksum_file", "remedy"),
    [(True, "restore both from a copy"), (False, "Restore the file, or read a batch that does not need it")],
    ids=["checksum file", "no checksum file"],
)
def test_damage_is_an_error_and_leaves_no_file(checksum_file: bool, remedy: str, run: Run, tmp_path: Path) -> None:
    copy = tmp_path / "checkpoint"
    delta = "state/0/0/2.delta"
    for file in sorted(checkpoint("aggregation").rglob("*")):
        if file.is_file():
            target = copy / file.relative_to(checkpoint("aggregation"))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes())
    damaged = bytearray((copy / delta).read_bytes())
    damaged[30] ^= 1
    (copy / delta).write_bytes(damaged)
    if not checksum_file:
        (copy / "state/0/0/.2.delta.crc").unlink()
    ran = run("read", copy, "-o", tmp_path / "rows.parquet", exit_code=1)
    assert f"{delta}, byte " in ran.err
    assert ran.err.endswith(f"{remedy}\n")
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint"]


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_unique_ids", "rocksdb_aggregation"])
def test_a_condition_on_the_whole_key(case: str, run: Run) -> None:
    rows = run("read", checkpoint(case), "--json").lines
    for row in [row for row in rows if row["key"]["k"] is not None][:10]:
        where = "key.k = '{}'".format(row["key"]["k"])
        found = [other for other in rows if other["key"] == row["key"]]
        assert run("read", checkpoint(case), "--where", where, "--json").lines == found
        assert run("read", checkpoint(case), "--where", f"{where} and key.k = 'nobody'", "--json").lines == []


@pytest.mark.parametrize(
    ("case", "options", "asked"),
    [
        ("transform_structures", ["--state-var", "total"], {"state_var": "total"}),
        ("transform_structures", ["--state-var", "times"], {"state_var": "times"}),
        ("transform_avro", ["--state-var", "seen", "--nested"], {"state_var": "seen", "flatten_collections": False}),
        ("transform_event_timers", ["--timers"], {"read_registered_timers": True}),
    ],
)
def test_state_variables_and_timers(
    case: str, options: list[str], asked: dict[str, Any], run: Run, tmp_path: Path
) -> None:
    run("read", checkpoint(case), *options, "-o", tmp_path / "rows.arrow")
    ours = pa.ipc.open_file(tmp_path / "rows.arrow").read_all()
    rows = hdfsstore.Checkpoint(checkpoint(case)).read_state(**asked)
    assert ours.column_names == rows.column_names
    assert len(ours)
    assert counted(ours) == counted(rows)


def test_one_key_of_a_map(run: Run) -> None:
    found = run("read", checkpoint("transform_structures"), "--state-var", "times", "--where", "key.k = 'a'", "--json")
    keys = [row["key"] for row in found.lines]
    assert keys
    assert all(key == {"k": "a"} for key in keys)


def test_a_state_variable_that_does_not_exist(run: Run) -> None:
    failed = run("read", checkpoint("transform_structures"), "--state-var", "no", exit_code=1)
    assert "seen, times, total" in " ".join(failed.err.split())


@pytest.mark.parametrize("where", [[], ["--where", "value.count > 0"]], ids=["all", "where"])
def test_a_limit_shows_the_same_rows_each_time(where: list[str], run: Run) -> None:
    arguments = ["read", checkpoint("aggregation"), *where, "--json"]
    limited = [run(*arguments, "--limit", limit).lines for limit in (1, 3, 3)]
    assert limited[1] == limited[2]
    assert limited[1][:1] == limited[0]
    assert len(limited[1]) == 3
    every = run(*arguments).lines
    assert all(row in every for row in limited[1])


def test_dash_is_stdout(run: Run) -> None:
    arguments = ["read", checkpoint("aggregation"), "--format", "csv", "--limit", 3]
    assert run(*arguments, "-o", "-").out == run(*arguments).out != ""


def test_the_stores_of_a_join_suggest_its_sides(run: Run) -> None:
    of_store = run("read", checkpoint("join_inner"), "--store", "left-keyToNumValues")
    assert "--join-side left or right" in of_store.err
    assert "--join-side" not in run("read", checkpoint("join_inner"), "--join-side", "left").err
    assert "--join-side" not in run("read", checkpoint("aggregation")).err


def test_nested_fields_have_one_name_in_all_commands(run: Run) -> None:
    where = checkpoint("window_aggregation")
    names = ["key.window.start", "key.window.end", "key.k", "value.count"]
    shown = {
        "read": run("read", where),
        "csv": run("read", where, "--format", "csv"),
        "history": run("history", where, "--key", "{}"),
        "diff": run("diff", where, "--from", 0, "--to", 2),
    }
    assert {name: [n for n in names if n not in ran.out] for name, ran in shown.items()} == {name: [] for name in shown}
    condition = "key.window.start >= timestamp '2024-01-01 12:12:00'"
    assert run("read", where, "--where", condition).out
