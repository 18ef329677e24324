import json
import shutil
from itertools import combinations
from pathlib import Path

import pytest

from hdfsstore import Checkpoint
from tests.unit.cli.conftest import Run, checkpoint
from tests.unit.cli.states import states

CASES = [
    ("aggregation_many_buffers", "default", 0),
    ("window_aggregation", "default", 0),
    ("session_window", "default", 0),
    ("chained_windows", "default", 1),
    ("drop_duplicates_watermark", "default", 0),
    ("row_checksum", "default", 0),
    ("snapshots_purged", "default", 0),
    ("types_keys", "default", 0),
    ("rocksdb_unique_ids", "default", 0),
    ("rocksdb_fewer_partitions", "default", 0),
    ("join_left_outer", "right-keyWithIndexToValue", 0),
]


@pytest.mark.parametrize(("case", "store", "operator"), CASES)
def test_finds_what_differs_between_the_states_that_spark_reads(case: str, store: str, operator: int, run: Run) -> None:
    truth = states(case, store, operator)
    differences = 0
    for start, end in combinations(sorted(truth), 2):
        before, after = truth[start], truth[end]
        expected = {
            (key, "added" if key not in before else "changed" if key in after else "removed")
            for key in before.keys() | after.keys()
            if before.get(key) != after.get(key)
        }
        of_store = ["--store", store, "--operator", operator]
        lines = run("diff", checkpoint(case), "--from", start, "--to", end, *of_store, "--json").lines
        found = {(json.dumps(line["key"]), line["change"]) for line in lines}
        assert len(found) == len(lines)
        assert found == {(json.dumps(json.loads(key)), change) for key, change in expected}
        differences += len(lines)
    assert differences


def test_without_deltas_the_states_are_compared(run: Run, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(checkpoint("snapshots"), tmp_path / "checkpoint"))
    arguments = ["--from", 8, "--to", 9, "--json"]
    expected = run("diff", copy, *arguments).lines
    assert expected
    for path in copy.glob("state/0/*/*10.delta*"):  # version 10 has a snapshot, too
        path.unlink()
    assert sorted(map(str, run("diff", copy, *arguments).lines)) == sorted(map(str, expected))


def test_shows_both_values(run: Run) -> None:
    lines = run("diff", checkpoint("row_checksum"), "--from", 0, "--to", 2, "--json").lines
    truth = states("row_checksum")
    for line in lines:
        key = json.dumps(line["key"], separators=(",", ":"), ensure_ascii=False)
        before, after = (json.loads(truth[batch].get(key, "null")) for batch in (0, 2))
        assert (line["before"], line["after"]) == (before, after)


def test_counts_and_shows_what_changed(run: Run) -> None:
    ran = run("diff", checkpoint("aggregation"), "--from", 0, "--to", 2)
    lines = run("diff", checkpoint("aggregation"), "--from", 0, "--to", 2, "--json").lines
    kinds = [line["change"] for line in lines]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("added", "changed", "removed"))
    assert ran.out.splitlines()[0] == f"{counts} from batch 0 to batch 2"
    changed = next(line for line in lines if line["change"] == "changed" and line["before"]["sum"] is not None)
    assert f"{changed['before']['sum']} → {changed['after']['sum']}" in ran.out


def test_limit_is_for_each_kind(run: Run) -> None:
    ran = run("diff", checkpoint("window_aggregation"), "--from", 0, "--to", 2, "--limit", 1)
    assert sum("added" in line for line in ran.out.splitlines()[1:]) == 1
    assert sum("removed" in line for line in ran.out.splitlines()[1:]) == 1
    assert "The first 1 of each kind" in ran.err
    every = run("diff", checkpoint("window_aggregation"), "--from", 0, "--to", 2, "--json").lines
    some = run("diff", checkpoint("window_aggregation"), "--from", 0, "--to", 2, "--json", "--limit", 1).lines
    assert len(some) == len({line["change"] for line in every}) < len(every)


def test_no_difference(run: Run) -> None:
    # The last batch of a query with a watermark has no data; the one of this case changes nothing.
    assert run("diff", checkpoint("global_limit"), "--from", 1, "--to", 2).out.startswith("0 added, ")


@pytest.mark.parametrize(
    ("case", "arguments", "members", "content"),
    [
        ("transform_structures", ["--state-var", "total"], ["key"], "value.total"),
        ("transform_structures", ["--state-var", "seen"], ["key"], "list_element.n"),
        ("transform_structures", ["--state-var", "times"], ["key", "user_map_key"], "user_map_value.times"),
        ("transform_structures", ["--state-var", "times", "--nested"], ["key"], "map_value"),
        ("transform_event_timers", ["--timers"], ["key"], "expiration_timestamp_ms"),
        ("join_inner", ["--join-side", "left"], ["key"], "value.k"),
        ("rocksdb_join_format3", ["--join-side", "right"], ["key"], "value.k"),
    ],
)
def test_variables_timers_and_sides(
    case: str, arguments: list[str], members: list[str], content: str, run: Run
) -> None:
    newest = Checkpoint(checkpoint(case)).latest_batch_id
    batches = ["--from", 0, "--to", newest]
    lines = run("diff", checkpoint(case), *batches, *arguments, "--json").lines
    assert lines
    assert {tuple(line) for line in lines} == {("change", *members, "before", "after")}
    before, after = (
        run("read", checkpoint(case), "--batch", batch, *arguments, "--json").lines for batch in (0, newest)
    )
    come = sum(line["change"] == "added" for line in lines)
    went = sum(line["change"] == "removed" for line in lines)
    assert len(after) == len(before) + come - went
    out = run("diff", checkpoint(case), *batches, *arguments, "--limit", 0).out.splitlines()
    assert out[0].startswith(f"{come} added, ")
    assert "key." in out[2]
    assert content in out[2].split()


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["--from", "2", "--to", "1"], 2, "--from has to be an earlier batch than --to"),
        (["--from", "1", "--to", "1"], 2, "--from has to be an earlier batch than --to"),
        (["--from", "0"], 2, "--to"),
        (["--from", "0", "--to", "1", "--store", "x"], 2, "operator 0 has no store x"),
        (["--from", "0", "--to", "99"], 1, "99"),
    ],
)
def test_errors(arguments: list[str], exit_code: int, message: str, run: Run) -> None:
    assert message in run("diff", checkpoint("aggregation"), *arguments, exit_code=exit_code).err
