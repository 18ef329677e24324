import json
import shutil
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint
from hdfsstore.conditions.texts import json_texts
from tests.unit.cli.conftest import Run, checkpoint
from tests.unit.cli.states import states


@pytest.mark.parametrize(
    ("case", "store_name"),
    [
        ("window_aggregation", "default"),
        ("session_window", "default"),
        ("drop_duplicates_within_watermark", "default"),
        ("snapshots", "default"),
        ("snapshots_purged", "default"),
        ("row_checksum", "default"),
        ("join_inner", "left-keyWithIndexToValue"),
        ("rocksdb_unique_ids", "default"),
        # of such a batch the changes of single keys cannot be told
        ("rocksdb_range_deletions_in_changelogs", "default"),
        # across a repartition there are no changes
        ("rocksdb_more_partitions", "default"),
        ("rocksdb_fewer_partitions_unique_ids", "default"),
    ],
)
def test_tells_of_every_key_what_spark_reads_at_each_batch(case: str, store_name: str, run: Run) -> None:
    truth = states(case, store_name)
    told: dict[int, dict[str, object]] = {batch_id: {} for batch_id in truth}
    for line in run("history", checkpoint(case), "--store", store_name, "--key", "{}", "--json").lines:
        if line["change"] != "removed":
            told[line["batch_id"]][json.dumps(line["key"])] = line["value"]
    for batch_id, values in truth.items():
        assert told[batch_id] == {json.dumps(json.loads(key)): json.loads(value) for key, value in values.items()}
    assert any(told.values())


def test_tells_what_became_of_a_key(run: Run) -> None:
    key = '{"k": "Zürich"}'
    lines = run("history", checkpoint("aggregation"), "--key", key, "--json").lines
    assert [(line["batch_id"], line["change"]) for line in lines] == [(1, "added"), (2, ""), (3, "changed")]
    assert [line["value"]["count"] for line in lines] == [1, 1, 2]
    times = {batch.batch_id: batch.timestamp_ms for batch in Checkpoint(checkpoint("aggregation")).batches}
    assert [line["batch_time"] for line in lines] == [
        json.loads(json_texts(pa.array([times[line["batch_id"]]], pa.timestamp("ms", "UTC")))[0]) for line in lines
    ]


def test_a_key_is_looked_for_in_its_partition_of_each_batch(run: Run) -> None:
    truth = states("rocksdb_more_partitions")
    for key in {key for rows in truth.values() for key in rows}:
        told = run("history", checkpoint("rocksdb_more_partitions"), "--key", key, "--json").lines
        expected = {batch_id: json.loads(rows[key]) for batch_id, rows in truth.items() if key in rows}
        assert {line["batch_id"]: line["value"] for line in told} == expected


def test_a_key_that_goes_is_told_once(run: Run) -> None:
    lines = run("history", checkpoint("window_aggregation"), "--key", "{}", "--json").lines
    removed = [line for line in lines if line["change"] == "removed"]
    assert removed
    assert all(line["value"] is None for line in removed)
    for line in removed:
        later = [other for other in lines if other["key"] == line["key"] and other["batch_id"] > line["batch_id"]]
        assert all(other["change"] == "added" for other in later[:1])


def test_a_part_of_a_key_finds_all_that_have_it(run: Run) -> None:
    lines = run("history", checkpoint("window_aggregation"), "--key", '{"k": "a"}', "--json").lines
    assert len({json.dumps(line["key"]) for line in lines}) > 1
    assert {line["key"]["k"] for line in lines} == {"a"}


def test_table(run: Run) -> None:
    out = run("history", checkpoint("aggregation"), "--key", '{"k": "Zürich"}').out
    assert "batch_id" in out
    assert out.count("Zürich") >= 3


def test_a_key_that_never_was(run: Run) -> None:
    ran = run("history", checkpoint("aggregation"), "--key", '{"k": "nobody"}', "--json")
    assert ran.out == ""
    assert "None of the batches that are kept has such a key." in ran.err


def test_a_file_that_is_gone_is_named(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("aggregation"), tmp_path / "checkpoint"))
    for delta in copy.glob("state/0/*/1.delta"):
        delta.unlink()
    ran = run("history", copy, "--key", '{"k": "Zürich"}', exit_code=1)
    assert "/1.delta" in ran.err
    assert "etention" not in ran.err


def test_batches_whose_state_is_gone_are_told_with_the_reason(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("snapshots"), tmp_path / "checkpoint"))
    for version in (1, 2):
        for delta in copy.glob(f"state/0/*/{version}.delta"):
            delta.unlink()
    ran = run("history", copy, "--key", "{}", "--json")
    assert "The state of batch 0 to " in ran.err
    assert "cannot be read; of batch " in ran.err
    assert ran.lines


def test_what_a_batch_did_whose_state_is_gone_counts_to_the_next_one(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("snapshots"), tmp_path / "checkpoint"))
    for delta in copy.glob("state/0/*/3.delta"):  # the next snapshots are of version 5
        delta.unlink()
    ran = run("history", copy, "--key", "{}", "--json")
    assert "The state of batch 2 to 3 cannot be read; of batch 3: " in ran.err
    assert "3.delta" in ran.err

    states: dict[int, dict[str, object]] = {batch_id: {} for batch_id in range(12)}
    for line in run("history", checkpoint("snapshots"), "--key", "{}", "--json").lines:
        if line["change"] != "removed":
            states[line["batch_id"]][json.dumps(line["key"])] = line["value"]
    del states[2], states[3]
    expected = []
    for before, (batch_id, after) in pairwise([(-1, {}), *states.items()]):
        for key, value in after.items():
            change = "added" if key not in before[1] else "changed" if before[1][key] != value else ""
            expected.append((batch_id, key, change, value))
        expected += [(batch_id, key, "removed", None) for key in before[1] if key not in after]
    told = [(line["batch_id"], json.dumps(line["key"]), line["change"], line["value"]) for line in ran.lines]
    assert sorted(map(str, told)) == sorted(map(str, expected))
    assert {"added", "removed"} <= {change for batch_id, _, change, _ in told if batch_id == 4}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("{", "Invalid value for --key: not JSON"),
        ('{"x": 1}', "there is no field key.x; the fields are key.k"),
        ('{"k": 1}', "key.k is string: it cannot be compared with 1"),
    ],
)
def test_usage_errors(key: str, message: str, run: Run) -> None:
    assert message in " ".join(run("history", checkpoint("aggregation"), "--key", key, exit_code=2).err.split())


@pytest.mark.parametrize(
    ("case", "arguments", "members"),
    [
        ("transform_structures", ["--state-var", "total"], ["key", "value"]),
        ("transform_structures", ["--state-var", "seen"], ["key", "list_element"]),
        ("transform_structures", ["--state-var", "seen", "--nested"], ["key", "list_value"]),
        ("transform_structures", ["--state-var", "times"], ["key", "user_map_key", "user_map_value"]),
        ("transform_event_timers", ["--timers"], ["key", "expiration_timestamp_ms"]),
        ("join_inner", ["--join-side", "left"], ["key", "value"]),
        ("rocksdb_join_format4", ["--join-side", "right"], ["key", "value"]),
    ],
)
def test_variables_timers_and_sides(case: str, arguments: list[str], members: list[str], run: Run) -> None:
    lines = run("history", checkpoint(case), *arguments, "--key", "{}", "--json").lines
    newest = Checkpoint(checkpoint(case)).latest_batch_id
    there = [line for line in lines if line["batch_id"] == newest and line["change"] != "removed"]
    rows = [{name: line[name] for name in members} for line in there]
    read = run("read", checkpoint(case), *arguments, "--json").lines
    expected = [{name: line[name] for name in members} for line in read]
    assert sorted(map(str, rows)) == sorted(map(str, expected))
    assert [list(line) for line in lines] == [["batch_id", "batch_time", "change", *members]] * len(lines)
    assert {line["change"] for line in lines} >= {"added", ""}
    out = run("history", checkpoint(case), *arguments, "--key", "{}").out
    assert all(f"{name}" in out for name in members)


def test_names_that_do_not_exist_are_answered_by_those_that_do(run: Run) -> None:
    for arguments in (
        ["history", checkpoint("transform_structures"), "--key", "{}"],
        ["diff", checkpoint("transform_structures"), "--from", 0, "--to", 1],
    ):
        for more in (["--state-var", "x"], ["--timers"]):
            said = " ".join(run(*arguments, *more, exit_code=1).err.split())
            assert "Its state variables are seen, times, total" in said
    said = run("history", checkpoint("aggregation"), "--key", "{}", "--join-side", "left", exit_code=1).err
    assert "operator 0 is no stream-stream join" in " ".join(said.split())


@pytest.mark.parametrize(
    "other", [["--store", "right-keyWithIndexToValue"], ["--timers"], ["--state-var", "x"]], ids=lambda other: other[0]
)
@pytest.mark.parametrize("case", ["join_inner", "rocksdb_join_format4"])
def test_a_side_of_a_join_and_something_else(case: str, other: list[str], run: Run) -> None:
    for arguments in (["history", "--key", "{}"], ["diff", "--from", 0, "--to", 1], ["read"]):
        said = run(*arguments, checkpoint(case), "--join-side", "left", *other, exit_code=1).err
        assert "a side of a join is no store, state variable or timers" in " ".join(said.split())


def test_a_range_of_batches_and_changes_only(run: Run) -> None:
    arguments = ["history", checkpoint("aggregation"), "--key", '{"k": "Zürich"}', "--json"]
    every = run(*arguments).lines
    assert run(*arguments, "--changes-only").lines == [line for line in every if line["change"]] != every
    some = run(*arguments, "--from", 2, "--to", 3).lines
    assert [(line["batch_id"], line["change"]) for line in some] == [(2, ""), (3, "changed")]
    ran = run(*arguments, "--limit", 1)
    assert ran.lines == every[:1]
    assert "The first 1 rows" in ran.err
    assert "keeps no batch from 77" in run(*arguments, "--from", 77, exit_code=2).err
