"""Where the rows of a state belong: on every checkpoint that a Spark wrote, and where the rule cannot be told."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import PlacementError, RepairError
from hdfsstore.repair.operator_kinds import KINDS
from hdfsstore.repair.placement import Placement, check_placement, placement_of
from tests.support.truth import DATA, Case, Read, cases, few_cases
from tests.unit.checkpoint.build import SHUFFLE_PARTITIONS, change_conf

# Spark 3.0 is the first to write schema files.
WITH_SCHEMAS = [case for case in cases() if "spark-2" not in str(case)]
NUMBERS = (1, 3, 10, 200)
# Name, number of partitions, version: Spark left rows where they were when a hand changed the number, and its own
# repartition moved the row of an operator without keys.
MISPLACED = {
    ("fewer_partitions_by_hand", 2, 3): "in partition 1 of 2, and belongs into 0",
    ("fewer_partitions_by_hand", 2, 4): "in partition 1 of 2, and belongs into 0",
    ("rocksdb_more_partitions_without_key", 5, 4): "in partition 2 of 5, and belongs into 0",
}


def states(case: Case) -> list[tuple[OperatorState, Store]]:
    """The stores after each committed batch that has not been removed."""
    checkpoint = Checkpoint(case.checkpoint)
    batches = {read["batch_id"] for read in case.facts["reads"] if read["batch_id"] is not None}
    found = [checkpoint.operator_state(op.operator_id, b) for b in sorted(batches) for op in checkpoint.operators]
    return [(state, store) for state in found for store in state.operator.stores]


def newest(path: Path) -> tuple[OperatorState, Store]:
    state = Checkpoint(path).operator_state()
    return state, state.operator.stores[0]


def copy(case: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / case / "checkpoint", tmp_path / "checkpoint"))


def placed(state: OperatorState, store: Store, placement: Placement, n: int) -> Counter[int]:
    """How many rows the rule puts into each of n partitions."""
    counts: Counter[int] = Counter()
    for partition_id in state.partitions(store, store.key_type):
        for chunk in state.files(store, partition_id).stream(state.version, RecordChunk.copy):
            counts.update(placement.partitions(chunk, n).to_pylist())
    return counts


@pytest.mark.parametrize("case", few_cases(WITH_SCHEMAS), ids=str)
def test_every_row_is_where_the_rule_puts_it(case: Case) -> None:
    for state, store in states(case):
        placement = placement_of(state, store)
        if moved := MISPLACED.get((case.folder.name, store.num_partitions, state.version)):
            with pytest.raises(PlacementError, match=moved):
                check_placement(state, store, placement)
            continue
        rows = check_placement(state, store, placement)
        read = {
            (each["operator_id"], each["store_name"], each["batch_id"]): each["num_rows"]
            for each in case.facts["reads"]
            if each["file"] and not (case.families or each["join_side"] or each["change_feed"])
        }
        assert rows == read.get((state.operator.operator_id, store.name, state.version - 1), rows)


@pytest.mark.parametrize("name", ["aggregation", "window_aggregation", "types_keys", "drop_duplicates_watermark"])
def test_among_any_number_of_partitions_rows_go_by_sparks_hash(name: str) -> None:
    case = Case(DATA / "spark-4.3.0" / name)
    state, store = newest(case.checkpoint)
    placement = placement_of(state, store)
    read = next(each for each in case.facts["reads"] if each["batch_id"] == state.version - 1)
    hashes = Read(case, read).rows["key_hash"].to_pylist()
    for n in NUMBERS:
        assert placed(state, store, placement, n) == Counter(hash_ % n for hash_ in hashes)


def test_all_stores_of_a_key_agree() -> None:
    """Families of one variable, and both stores of a join's side, have a key's rows in one partition."""
    for name in ("transform_ttl", "rocksdb_join_format4", "join_inner"):
        state, _ = newest(DATA / "spark-4.3.0" / name / "checkpoint")
        used = [set(placed(state, store, placement_of(state, store), 10)) for store in state.operator.stores]
        sides = [used[at : at + 2] for at in range(0, len(used), 2)]
        assert all(side[0] == side[-1] for side in sides)


@pytest.mark.parametrize("name", ["rocksdb_global_limit", "global_limit", "rocksdb_aggregation_complete"])
def test_what_has_no_keys_stays_in_partition_0(name: str) -> None:
    state, store = newest(DATA / "spark-4.3.0" / name / "checkpoint")
    placement = placement_of(state, store)
    assert "partition 0" in placement.name
    assert all(set(placed(state, store, placement, n)) == {0} for n in NUMBERS)


def test_a_row_without_keys_elsewhere_is_refused(tmp_path: Path) -> None:
    path = copy("spark-4.3.0/aggregation_complete", tmp_path)
    (path / "state/0/0").rename(path / "state/0/1")
    state, store = newest(path)
    state = replace(state, operator=replace(state.operator, stores=[store]))
    store._schema_files = []
    with pytest.raises(PlacementError, match="no schema file"):
        placement_of(state, store)
    shutil.copytree(path / "state/0/1/_metadata", path / "state/0/0/_metadata")
    state, store = newest(path)
    with pytest.raises(PlacementError, match=r"is in partition 1 of 2, and belongs into 0.*Spark's own repartition"):
        check_placement(state, store, placement_of(state, store))


def test_another_rule_does_not_fit() -> None:
    for name, kind in (("session_window", "aggregation"), ("dedup_then_aggregate", "session-window")):
        state = Checkpoint(DATA / "spark-3.5.9" / name / "checkpoint").operator_state(name != "session_window")
        (store,) = state.operator.stores
        placement = placement_of(state, store, kind)
        assert placement.kind == kind
        with pytest.raises(PlacementError, match="rows that were read are not where the rule puts them"):
            check_placement(state, store, placement)


def test_before_spark_4_the_rows_tell_what_an_operator_is() -> None:
    for name, kind in (("session_window", "session-window"), ("join_inner", "join"), ("global_limit", "limit")):
        state, store = newest(DATA / "spark-3.5.9" / name / "checkpoint")
        assert placement_of(state, store).kind == kind


def test_rows_in_one_partition_prove_nothing(tmp_path: Path) -> None:
    path = copy("spark-3.5.9/session_window", tmp_path)
    change_conf(path, SHUFFLE_PARTITIONS, "1")
    shutil.rmtree(path / "state/0/1")
    state, store = newest(path)
    assert store.num_partitions == 1
    with pytest.raises(PlacementError, match="--operator-kind"):
        placement_of(state, store)
    assert check_placement(state, store, placement_of(state, store, "session-window"))


def test_rows_that_fit_several_rules_or_none(tmp_path: Path) -> None:
    path = copy("spark-3.5.9/session_window", tmp_path)
    for partition in ("0", "1"):
        (path / "state/0" / partition).rename(path / "state/0" / f"{partition}-moved")
    (path / "state/0/0-moved").rename(path / "state/0/1")
    (path / "state/0/1-moved").rename(path / "state/0/0")
    shutil.move(path / "state/0/1/_metadata", path / "state/0/0/_metadata")
    state, store = newest(path)
    with pytest.raises(PlacementError, match="its rows fit none"):
        placement_of(state, store)


def test_kinds_that_cannot_be() -> None:
    state, store = newest(DATA / "spark-4.3.0/aggregation/checkpoint")
    assert placement_of(state, store, "aggregation").kind == "aggregation"
    with pytest.raises(PlacementError, match="Leave --operator-kind out"):
        placement_of(state, store, "join")
    with pytest.raises(PlacementError, match="there is no kind of operator 'sort'"):
        placement_of(state, store, "sort")
    unknown = replace(state, operator=replace(state.operator, name="sortWithState"))
    with pytest.raises(PlacementError, match="'sortWithState'"):
        placement_of(unknown, store)
    state, store = newest(DATA / "spark-3.5.9/aggregation/checkpoint")
    for kind in ("join", "transform-with-state"):
        with pytest.raises(PlacementError, match="is not one that an operator of kind"):
            placement_of(state, store, kind)
    assert "join" in KINDS


def test_without_a_schema_file_nothing_is_told() -> None:
    state, store = newest(DATA / "spark-2.4.8/aggregation/checkpoint")
    with pytest.raises(PlacementError, match="no schema file"):
        placement_of(state, store)


def test_families_must_have_the_same_numbers_everywhere(tmp_path: Path) -> None:
    path = copy("spark-4.3.0/transform_ttl_zips", tmp_path)
    for archive in (path / "state/0/1").glob("*.zip"):
        with zipfile.ZipFile(archive) as source:
            files = {info.filename: source.read(info) for info in source.infolist()}
        version, _, metadata = files["metadata"].decode().partition("\n")
        fields = json.loads(metadata)
        numbers = fields["columnFamilyMapping"]
        numbers["total"], numbers["seen"] = numbers["seen"], numbers["total"]
        files["metadata"] = f"{version}\n{json.dumps(fields)}".encode()
        with zipfile.ZipFile(archive, "w") as target:
            for name, content in files.items():
                target.writestr(name, content)
        archive.with_name(f".{archive.name}.crc").unlink(missing_ok=True)
    state, store = newest(path)
    with pytest.raises(RepairError, match="numbered"):
        placement_of(state, store)


def test_a_family_without_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    state, store = newest(DATA / "spark-4.3.0/rocksdb_join_format3/checkpoint")
    families = [family for family in store.column_families if family.name != "left-keyToNumValues"]
    monkeypatch.setattr(store, "column_families", families)
    with pytest.raises(PlacementError, match="a column family that the schema file does not name"):
        check_placement(state, store, placement_of(state, store))
