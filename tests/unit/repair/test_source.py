"""What a repair starts from, on checkpoints that Sparks wrote."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from hdfsstore.errors import BatchNotAvailableError, CheckpointNotFoundError, RepairError
from hdfsstore.repair.plan import OperatorPlan, Plan, StorePlan
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.source import Source
from hdfsstore.repair.verbs import convert, fork, repartition
from tests.support.truth import DATA
from tests.unit.repair.folders import content, copy_of

UNFINISHED = DATA / "spark-4.3.0" / "unfinished_batch" / "checkpoint"


def test_the_newest_committed_batch_is_the_default() -> None:
    source = Source.open(str(UNFINISHED))
    assert (source.batch_id, source.latest, source.begun) == (2, 2, (3,))
    assert list(source.offsets) == [1, 2, 3]
    assert all(content == (UNFINISHED / "offsets" / str(n)).read_bytes() for n, content in source.offsets.items())
    assert source.commits == {n: (UNFINISHED / "commits" / str(n)).read_bytes() for n in (1, 2)}
    assert [state.version for state in source.states] == [3]


def test_an_older_batch_has_nothing_of_those_after_it() -> None:
    source = Source.open(str(UNFINISHED), 0)
    assert (source.batch_id, source.latest, list(source.offsets)) == (0, 2, [0])
    assert [state.version for state in source.states] == [1]


def test_a_batch_that_is_not_committed_is_refused() -> None:
    with pytest.raises(BatchNotAvailableError, match="newest committed batch is 2"):
        Source.open(str(UNFINISHED), 3)


def test_entries_that_spark_needs_must_be_there(tmp_path: Path) -> None:
    copy = shutil.copytree(UNFINISHED, tmp_path / "checkpoint")
    (copy / "offsets" / "1").unlink()
    with pytest.raises(BatchNotAvailableError, match="offsets/1: the checkpoint does not keep"):
        Source.open(str(copy))


def test_queries_of_hdfsstore_are_refused(tmp_path: Path) -> None:
    copy = shutil.copytree(UNFINISHED, tmp_path / "checkpoint")
    (copy / "hdfsstore").mkdir()
    with pytest.raises(RepairError, match=r"runs with hdfsstore\.spark"):
        Source.open(str(copy))


@pytest.mark.parametrize(
    ("case", "lost", "operators"),
    [
        ("dedup_then_aggregate", "state/0", r"operator 0\b"),
        ("rocksdb_unique_ids", "state", r"operator 0\b"),
        ("rocksdb_unique_ids", "state/0", r"operator 0\b"),
    ],
)
def test_an_operator_whose_state_is_gone_is_named(tmp_path: Path, case: str, lost: str, operators: str) -> None:
    root = copy_of(case, tmp_path / "checkpoint")
    shutil.rmtree(root / lost)
    files = content(root)
    for verb in (partial(fork, root, tmp_path / "new"), partial(rewind, root, 1, sink_accepts_batches_again=True)):
        with pytest.raises(CheckpointNotFoundError, match=f"the state of {operators} is gone"):
            verb()
    assert content(root) == files
    assert not (tmp_path / "new").exists()


def test_a_query_without_state_is_copied_with_a_word(tmp_path: Path) -> None:
    """Nothing tells such a query from one whose folder `state` is gone, where its versions have no ids."""
    root = copy_of("aggregation", tmp_path / "checkpoint")
    shutil.rmtree(root / "state")
    assert any("There is no state" in note for note in fork(root, tmp_path / "new").notes)
    for verb in (partial(repartition, partitions=3), partial(convert, provider="rocksdb")):
        with pytest.raises(RepairError, match="there is no state"):
            verb(root, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_plan_in_words_and_in_json() -> None:
    store = StorePlan("default", "the group", 2, 10, rows_in=1000, rows_out=900, bytes_in=64_000)
    plan = Plan("edit", "/a", 7, None, [OperatorPlan(0, "stateStoreSave", [store])], {"x": (None, "1")})
    assert list(plan.lines()) == [
        "edit /a at batch 7, in place",
        "operator 0 (stateStoreSave)",
        "  default: 2 partitions become 10, 1,000 rows become 900, 64,000 bytes of keys and values, by the group",
        "x: not set -> 1",
    ]
    assert plan.as_json()["operators"][0]["stores"][0]["rows_out"] == 900
