import json
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import Checkpoint
from hdfsstore.report.words import size
from hdfsstore.state.rocksdb.archive import decode
from tests.support.truth import Case, cases, few_cases
from tests.unit.cli.conftest import Run, checkpoint

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def inspected(run: Run, case: str, *options: str) -> Any:
    return json.loads(run("inspect", checkpoint(case), "--json", *options).out)


@pytest.mark.parametrize("case", few_cases(cases()), ids=str)
def test_tells_what_spark_knows_of_each_checkpoint(case: Case, run: Run) -> None:
    report = json.loads(run("inspect", case.checkpoint, "--json").out)
    assert report["query_id"] == json.loads((case.checkpoint / "metadata").read_text())["id"]
    assert report["committed_batches"] == case.facts["committed_batches"]
    assert report["unfinished_batches"] == case.facts["unfinished_batches"]
    stores = {o["operator_id"]: {s["name"] for s in o["stores"]} for o in report["operators"]}
    assert stores == {o["operator_id"]: set(o["stores"]) for o in case.facts["operators"]}
    assert set(report["pinned"]) == set(Checkpoint(case.checkpoint).batches[-1].conf)


@pytest.mark.parametrize("case", few_cases(case for case in cases() if not case.families), ids=str)
def test_counts_the_rows_that_spark_reads(case: Case, run: Run) -> None:
    last = case.facts["committed_batches"][-1]
    expected = {
        (read["operator_id"], read["store_name"]): read["num_rows"]
        for read in case.facts["reads"]
        if read["batch_id"] == last and read["change_feed"] is None and read["join_side"] is None
    }
    report = json.loads(run("inspect", case.checkpoint, "--json").out)
    for operator in report["operators"]:
        for store in operator["stores"]:
            counts = [partition["rows"] for partition in store["partitions"]]
            if store["schemas"]:
                assert sum(counts) == expected[operator["operator_id"], store["name"]]
            else:  # Spark 2
                assert counts == [None] * len(counts)
                assert "no schema" in store["note"]


@pytest.mark.parametrize("case", ["rocksdb_repartition_unfinished", "transform_repartition_unfinished"])
def test_an_unfinished_repartition_is_no_batch_that_runs_again(case: str, run: Run) -> None:
    report = inspected(run, case)
    assert report["unfinished_repartition"] == {"batch_id": 2, "before": 2, "after": 5}
    (store,) = report["operators"][0]["stores"]
    assert (store["num_partitions"], [each["partition_id"] for each in store["partitions"]]) == (2, [0, 1])
    assert store["other_partitions"]["partition_ids"] == [2, 3, 4]
    files = [file for file in checkpoint(case).glob("state/0/[234]/**/*") if file.is_file()]
    shown = [file for file in files if not file.name.startswith(".") and "_metadata" not in file.parts]
    assert store["other_partitions"]["files"] == len(shown)
    assert store["other_partitions"]["bytes"] == sum(file.stat().st_size for file in shown)
    out = " ".join(run("inspect", checkpoint(case)).out.split())
    assert "repartition unfinished batch 2, from 2 to 5 partitions. Spark 4.2 and later start the query only" in out
    assert "run again at the next start" not in out
    assert "folders of another number of partitions: 2 to 4 (" in out


def test_after_a_repartition_the_bars_are_those_of_the_newest_batch(run: Run) -> None:
    (store,) = inspected(run, "rocksdb_fewer_partitions")["operators"][0]["stores"]
    assert (store["num_partitions"], [each["partition_id"] for each in store["partitions"]]) == (2, [0, 1])
    assert store["other_partitions"]["partition_ids"] == [2]
    (store,) = inspected(run, "rocksdb_more_partitions")["operators"][0]["stores"]
    assert (store["num_partitions"], [each["partition_id"] for each in store["partitions"]]) == (5, [0, 1, 2, 3, 4])
    assert store["other_partitions"] is None


def test_the_watermark_is_that_of_the_last_committed_batch(run: Run) -> None:
    opened = Checkpoint(checkpoint("drop_duplicates_watermark"))
    shown = inspected(run, "drop_duplicates_watermark")
    last = opened.batches[-1]
    assert last.next_watermark_ms
    for name, milliseconds in (("watermark", last.watermark_ms), ("next_watermark", last.next_watermark_ms)):
        assert datetime.fromisoformat(shown[name]).timestamp() * 1000 == milliseconds


def test_schemas_sizes_and_times(run: Run) -> None:
    report = inspected(run, "session_window")
    (store,) = report["operators"][0]["stores"]
    assert report["operators"][0]["name"] == "sessionWindowStateStoreSaveExec"
    assert store["schemas"][0]["key"] == [["k", "string"], ["sessionStartTime", "timestamp[us, tz=UTC]"]]
    folder = checkpoint("session_window") / "state" / "0" / "0"
    files = [file for file in folder.iterdir() if file.is_file() and not file.name.startswith(".")]
    assert store["partitions"][0]["bytes"] == sum(file.stat().st_size for file in files)
    assert store["partitions"][0]["files"] == len(files)
    assert report["watermark"].endswith("Z")
    assert report["last_batch_time"].startswith("20")


def test_without_counting_rows(run: Run) -> None:
    (store,) = inspected(run, "aggregation", "--no-rows")["operators"][0]["stores"]
    assert [partition["rows"] for partition in store["partitions"]] == [None, None]
    assert store["note"] is None


def test_rocksdb(run: Run) -> None:
    report = inspected(run, "rocksdb_unique_ids")
    (store,) = report["operators"][0]["stores"]
    assert report["provider"].endswith("RocksDBStateStoreProvider")
    assert store["schemas"]
    assert store["note"] is None
    folder = checkpoint("rocksdb_unique_ids") / "state" / "0" / "0"
    sizes = [file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.name.startswith(".")]
    schema = (folder / "_metadata" / "schema").stat().st_size
    assert store["partitions"][0]["bytes"] == sum(sizes) - schema


def sized(*paths: Path) -> dict[str, int]:
    return {"files": len(paths), "bytes": sum(path.stat().st_size for path in paths)}


def test_the_files_of_a_rocksdb_and_what_a_restart_downloads(run: Run, tmp_path: Path) -> None:
    shutil.copytree(checkpoint("rocksdb_changelog_later"), tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "state" / "0" / "0"
    zips, changelogs, ssts = (
        sorted(folder.glob(names), key=lambda path: int(path.name.partition(".")[0].partition("-")[0]))
        for names in ("*.zip", "*.changelog", "SSTs/*.sst")
    )
    last = json.loads(run("inspect", tmp_path, "--json").out)["committed_batches"][-1]
    base = int(zips[-1].stem)
    named = {
        number: {sst.remote for sst in decode((folder / f"{number}.zip").read_bytes(), "").ssts}
        for number in (int(path.stem) for path in zips)
    }
    (store,) = inspected(run, "rocksdb_changelog_later")["operators"][0]["stores"]
    partition = store["partitions"][0]
    others = [path for path in (folder / "logs").glob("*") if not path.name.startswith(".")]
    kinds = {"zip": sized(*zips), "changelog": sized(*changelogs), "sst": sized(*ssts)}
    assert partition["kinds"] == kinds | ({"other": sized(*others)} if others else {})
    later = [path for path in changelogs if int(path.stem) > base]
    assert later
    assert int(later[-1].stem) == last + 1
    needed = [folder / "SSTs" / name for name in named.pop(base)]
    assert partition["restart"] == {"zip": sized(zips[-1]), "changelog": sized(*later), "sst": sized(*needed)}
    assert partition["shared"] == sized(*(path for path in needed if path.name in set().union(*named.values())))
    out = run("inspect", tmp_path).out
    assert "a restart reads" in out
    assert "sst: " in out
    (store,) = inspected(run, "rocksdb_changelog_later", "--no-rows")["operators"][0]["stores"]
    assert (store["partitions"][0]["restart"], store["partitions"][0]["shared"]) == (None, None)
    assert store["partitions"][0]["kinds"] == partition["kinds"]


def test_a_damaged_zip_hides_nothing_else(run: Run, tmp_path: Path) -> None:
    shutil.copytree(checkpoint("rocksdb_changelog_later"), tmp_path, dirs_exist_ok=True)
    for path in (tmp_path / "state" / "0" / "0").glob("*.zip"):
        path.write_bytes(b"no zip")
        path.with_name(f".{path.name}.crc").unlink()
    (store,) = json.loads(run("inspect", tmp_path, "--json").out)["operators"][0]["stores"]
    assert ".zip: it is not a zip file" in store["note"]
    assert [partition["restart"] for partition in store["partitions"]] == [None] * len(store["partitions"])
    assert "zip" in store["partitions"][0]["kinds"]


def test_the_files_of_deltas_that_a_restart_downloads(run: Run) -> None:
    (store,) = inspected(run, "snapshots_purged")["operators"][0]["stores"]
    folder = checkpoint("snapshots_purged") / "state" / "0" / "0"
    snapshot = max(folder.glob("*.snapshot"), key=lambda path: int(path.stem))
    deltas = [path for path in folder.glob("*.delta") if int(path.stem) > int(snapshot.stem)]
    expected = {"snapshot": sized(snapshot), "delta": sized(*deltas)}
    assert store["partitions"][0]["restart"] == {kind: sizes for kind, sizes in expected.items() if sizes["files"]}
    assert store["partitions"][0]["shared"] == sized()
    assert [family["number"] for family in store["schemas"]] == [None]


@pytest.mark.parametrize("case", ["transform_structures", "transform_structures_zips", "rocksdb_join_format4"])
def test_column_families(case: str, run: Run) -> None:
    (store,) = inspected(run, case)["operators"][0]["stores"]
    numbers = {family["name"]: family["number"] for family in store["schemas"]}
    assert len(set(numbers.values())) == len(numbers)
    assert None not in numbers.values()
    assert store["note"] is None
    assert sum(family["rows"] for family in store["schemas"]) == sum(each["rows"] for each in store["partitions"]) > 0
    if case.startswith("transform"):
        opened = Checkpoint(checkpoint(case))
        rows = {family["name"]: family["rows"] for family in store["schemas"]}
        assert rows["total"] == opened.read_state(state_var="total").num_rows
        assert rows["times"] == opened.read_state(state_var="times").num_rows
        assert rows["seen"] == opened.read_state(state_var="seen", flatten_collections=False).num_rows
    assert f"number {min(numbers.values())}, " in run("inspect", checkpoint(case)).out


def test_on_a_terminal(run: Run) -> None:
    out = run("inspect", checkpoint("unfinished_batch")).out
    assert "0 to 2" in out
    assert "3 (run again at the next start)" in out
    assert SHUFFLE_PARTITIONS in out
    assert "Operator 0: stateStoreSave" in out
    assert "█" in out
    rows = run("read", checkpoint("unfinished_batch"), "--json").lines
    assert f"store default, 2 partitions, {len(rows)} rows" in out


def test_a_query_without_state(run: Run, tmp_path: Path) -> None:
    for name, text in [
        ("metadata", '{"id":"a"}'),
        ("offsets/0", 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}\n{"x":1}'),
    ]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    out = run("inspect", tmp_path).out
    assert "keeps no state" in out
    assert "watermark             none (of the last committed batch)" in out


def test_a_damaged_state_file_hides_nothing_else(run: Run, tmp_path: Path) -> None:
    for file in checkpoint("aggregation").rglob("*"):
        if file.is_file() and not file.name.startswith("."):
            target = tmp_path / file.relative_to(checkpoint("aggregation"))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.read_bytes()[: 20 if file.suffix == ".delta" else None])
    report = json.loads(run("inspect", tmp_path, "--json").out)
    (store,) = report["operators"][0]["stores"]
    assert ".delta" in store["note"]
    assert store["partitions"][0]["bytes"] == 4 * 20


def test_a_schema_file_that_is_missing_makes_no_store_empty(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("transform_structures"), tmp_path / "checkpoint"))
    shutil.rmtree(copy / "state/0/_stateSchema")
    (store,) = json.loads(run("inspect", copy, "--json").out)["operators"][0]["stores"]
    assert "names this schema file, and it is missing" in store["note"]
    assert {partition["rows"] for partition in store["partitions"]} == {None}


def test_a_log_that_a_power_cut_has_left_half_written(run: Run, tmp_path: Path) -> None:
    shutil.copytree(checkpoint("aggregation"), tmp_path, dirs_exist_ok=True)
    whole = json.loads(run("inspect", tmp_path, "--json").out)
    newest = whole["committed_batches"][-1] + 1
    (tmp_path / "offsets" / str(newest)).write_bytes(b"")
    report = json.loads(run("inspect", tmp_path, "--json").out)
    (damaged,) = report.pop("damaged")
    assert f"offsets/{newest}, byte 0: the file is empty. Put the file back; or delete it" in damaged
    assert {**report, "damaged": []} == whole
    assert damaged in run("inspect", tmp_path).out


def test_no_checkpoint(run: Run, tmp_path: Path) -> None:
    ran = run("inspect", tmp_path / "nothing", exit_code=1)
    assert ran.err.startswith("Error: ")
    assert "there is no checkpoint here" in ran.err


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (3 * 10**12, "3.0 TB")]
)
def test_size(count: int, text: str) -> None:
    assert size(count) == text
