from pathlib import Path

from tests.support.truth import DATA
from tests.unit.cli.conftest import Run

SPARK = DATA / "spark-4.3.0"
AGGREGATION = SPARK / "aggregation" / "checkpoint"


def test_a_dry_run_and_a_repartition(run: Run, tmp_path: Path) -> None:
    new = tmp_path / "new"
    plan = run("repartition", AGGREGATION, "--partitions", 4, "--to", new, "--dry-run").out
    assert "default: 2 partitions become 4, 8 rows" in plan
    assert "spark.sql.shuffle.partitions: 2 -> 4" in plan
    assert not new.exists()
    assert "and read back" in run("repartition", AGGREGATION, "--partitions", 4, "--to", new).out
    described = run("inspect", new, "--json").lines[0]
    assert described["operators"][0]["stores"][0]["num_partitions"] == 4
    assert described["committed_batches"] == [2, 3]


def test_the_other_commands(run: Run, tmp_path: Path) -> None:
    (report,) = run("convert", AGGREGATION, "--provider", "rocksdb", "--to", tmp_path / "a", "--json").lines
    assert (report["verb"], report["verified"]) == ("convert", True)
    assert report["operators"][0]["stores"][0]["rows_out"] == 8
    run("rewrite", tmp_path / "a", "--provider", "hdfs", "--partitions", 3, "--memory", "1k", "--to", tmp_path / "b")
    assert len(run("read", tmp_path / "b", "--json").lines) == 8
    forked = run("fork", AGGREGATION, "--batch", 1, "--keep-query-id", "--to", tmp_path / "c").out
    assert "Both checkpoints have the same query id" in forked


def test_what_is_refused(run: Run, tmp_path: Path) -> None:
    unfinished = SPARK / "unfinished_batch" / "checkpoint"
    to = "--to", tmp_path / "new"
    assert "--keep-begun" in run("fork", unfinished, *to, exit_code=1).err
    assert "exclude each other" in run("fork", unfinished, *to, "--keep-begun", "--drop-begun", exit_code=2).err
    assert "0=aggregation" in run("fork", unfinished, *to, "--operator-kind", "0=x", exit_code=2).err
    assert "256m" in run("fork", unfinished, *to, "--memory", "much", exit_code=2).err
    assert not (tmp_path / "new").exists()


def test_rows_are_taken_out_changed_and_put_back(run: Run, tmp_path: Path) -> None:

    def read(checkpoint: Path) -> list[str]:
        return sorted(map(str, run("read", checkpoint, "--json").lines))

    rows = read(AGGREGATION)
    run("read", AGGREGATION, "--limit", 3, "-o", tmp_path / "rows.parquet")
    to = "--to", tmp_path / "new"
    report = run("edit", AGGREGATION, "--set", tmp_path / "rows.parquet", *to).out
    assert "8 rows, " in report
    assert read(tmp_path / "new") == rows
    run("edit", AGGREGATION, "--remove", "key.k is null", "--to", tmp_path / "fewer")
    left = [row for row in rows if "{'k': None}" not in row]
    assert read(tmp_path / "fewer") == left != rows
    again = "rewrite", tmp_path / "fewer", "--set", tmp_path / "rows.parquet", "--partitions", 3
    run(*again, "--provider", "rocksdb", "--to", tmp_path / "all")
    assert len(read(tmp_path / "all")) >= len(left)
    run("edit", AGGREGATION, "--sql", "select key, value from state where key.k is null", "--to", tmp_path / "sql")
    assert len(read(tmp_path / "sql")) == len(rows) - len(left)


def test_edits_that_make_no_sense(run: Run, tmp_path: Path) -> None:
    to = "--to", tmp_path / "new"
    assert "give --remove" in run("edit", AGGREGATION, *to, exit_code=2).err
    assert "gives all rows" in run("edit", AGGREGATION, *to, "--sql", "x", "--remove", "key.k = 'a'", exit_code=2).err
    assert "--remove" in run("edit", AGGREGATION, *to, "--remove", "key.x = 1", exit_code=2).err
    assert "no store" in run("edit", AGGREGATION, *to, "--remove", "key.k = 'a'", "--operator", 4, exit_code=1).err
    (tmp_path / "rows").write_text("no")
    assert "no Parquet file" in run("edit", AGGREGATION, *to, "--set", tmp_path / "rows", exit_code=2).err
    assert not (tmp_path / "new").exists()
