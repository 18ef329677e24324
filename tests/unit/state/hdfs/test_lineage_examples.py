"""Which files are read for (version, id): the examples of SPARK-49374's design, and what lies beyond them.

Every file holds one row, named after the file, so a state says which files it was made of.
"""

from __future__ import annotations

import json
import time

import pytest

from hdfsstore.codecs.compression import decompress
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, MissingFileError
from hdfsstore.state.protocols import StateStoreProvider
from tests.support.partition import EMPTY, Partition, Ref, State, read, ref, state_after, write, write_chain
from tests.unit.state.hdfs.conftest import MakePartition
from tests.unit.state.hdfs.hand_made import CODEC, HandMade, version_id

NOT_THERE = (BatchNotAvailableError, MissingFileError)


@pytest.fixture
def files(partition: Partition) -> HandMade:
    return HandMade(partition.folder)


def read_of(executor: StateStoreProvider, name: str) -> set[str]:
    """Names of the files that the version was made of."""
    return {key.decode() for key in read(executor, version_id(name))}


def of_example_2(files: HandMade) -> None:
    files.delta("20_d8e2ca47", "19_00000019")
    files.snapshot("20_d8e2ca47")
    files.delta("21_ef6618c2", "20_d8e2ca47")
    files.delta("21_f4d05ac9", "20_d8e2ca47")
    files.delta("22_4489578d", "20_d8e2ca47", "21_f4d05ac9")
    files.delta("23_689aa6bd", "20_d8e2ca47", "21_f4d05ac9", "22_4489578d")


CHAIN = {"20_d8e2ca47.snapshot", "21_f4d05ac9.delta", "22_4489578d.delta", "23_689aa6bd.delta"}


def test_example_1_the_id_has_a_snapshot(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    files.snapshot("23_689aa6bd")
    assert read_of(partition.open(), "23_689aa6bd") == {"23_689aa6bd.snapshot"}


def test_example_2_the_id_has_only_a_delta(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    assert read_of(partition.open(), "23_689aa6bd") == CHAIN
    assert read_of(partition.open(), "21_ef6618c2") == {"20_d8e2ca47.snapshot", "21_ef6618c2.delta"}


def test_example_2_a_snapshot_of_another_id_is_ignored(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    files.delta("23_8205c96f", "20_d8e2ca47", "21_f4d05ac9", "22_4489578d")
    files.snapshot("23_8205c96f")
    assert read_of(partition.open("one"), "23_8205c96f") == {"23_8205c96f.snapshot"}
    assert read_of(partition.open("two"), "23_689aa6bd") == CHAIN
    assert read_of(partition.open("one"), "23_689aa6bd") == CHAIN


def test_example_3_the_presumed_snapshot_is_missing(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    files.delta("24_32e3cc2a", "23_689aa6bd")
    assert read_of(partition.open(), "24_32e3cc2a") == CHAIN | {"24_32e3cc2a.delta"}


def test_example_3_a_snapshot_of_another_id_stands_in_its_place(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    files.delta("23_8205c96f", "20_d8e2ca47", "21_f4d05ac9", "22_4489578d")
    files.snapshot("23_8205c96f")
    files.delta("24_32e3cc2a", "23_689aa6bd")
    assert read_of(partition.open(), "24_32e3cc2a") == CHAIN | {"24_32e3cc2a.delta"}


def test_the_presumed_snapshot_is_missing_several_times_in_a_row(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    files.delta("24_32e3cc2a", "23_689aa6bd")
    files.delta("25_00000025", "24_32e3cc2a")
    files.delta("26_00000026", "24_32e3cc2a", "25_00000025")
    files.delta("27_00000027", "26_00000026")
    deltas = {"24_32e3cc2a.delta", "25_00000025.delta", "26_00000026.delta", "27_00000027.delta"}
    assert read_of(partition.open(), "27_00000027") == CHAIN | deltas


def test_no_snapshot_ever_succeeded(files: HandMade, partition: Partition) -> None:
    files.delta("1_00000001")
    names = ["1_00000001"]
    for version in range(2, 12):
        names.append(f"{version}_{version:08}")
        files.delta(names[-1], names[-2])
    assert read_of(partition.open(), names[-1]) == {f"{name}.delta" for name in names}


def test_a_lineage_that_begins_with_the_first_version(files: HandMade, partition: Partition) -> None:
    files.delta("1_00000001")
    files.delta("2_00000002", "1_00000001")
    files.delta("3_00000003", "1_00000001", "2_00000002")
    assert read_of(partition.open(), "3_00000003") == {"1_00000001.delta", "2_00000002.delta", "3_00000003.delta"}


def test_a_snapshot_that_shows_up_late(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    files.delta("24_32e3cc2a", "23_689aa6bd")
    early = partition.open("early")
    assert read_of(early, "24_32e3cc2a") == CHAIN | {"24_32e3cc2a.delta"}
    files.snapshot("23_689aa6bd")
    assert read_of(partition.open("late"), "24_32e3cc2a") == {"23_689aa6bd.snapshot", "24_32e3cc2a.delta"}
    assert read_of(early, "24_32e3cc2a") == CHAIN | {"24_32e3cc2a.delta"}


def test_a_snapshot_that_shows_up_late_within_the_chain_changes_nothing(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    before = read_of(partition.open("early"), "23_689aa6bd")
    files.snapshot("22_4489578d", "20_d8e2ca47.snapshot", "21_f4d05ac9.delta", "22_4489578d.delta")
    assert read_of(partition.open("late"), "23_689aa6bd") == before == CHAIN


def test_the_only_delta_of_that_version_has_another_id(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    (partition.folder / "22_{}.delta".format(version_id("22_4489578d")[1])).rename(
        partition.folder / "22_{}.delta".format(version_id("22_8205c96f")[1])
    )
    with pytest.raises(NOT_THERE) as error:
        partition.open().get_store(*version_id("23_689aa6bd"))
    assert "22_4489578d" in str(error.value)


def test_the_only_snapshot_of_that_version_has_another_id(files: HandMade, partition: Partition) -> None:
    files.snapshot("23_8205c96f")
    files.delta("24_32e3cc2a", "23_689aa6bd")
    for name in ("23_689aa6bd", "24_32e3cc2a"):
        with pytest.raises(NOT_THERE):
            partition.open().get_store(*version_id(name))


def test_a_snapshot_that_is_damaged_is_passed_over(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    files.delta("24_32e3cc2a", "23_689aa6bd")
    damaged = files.snapshot("23_689aa6bd")
    damaged.write_bytes(damaged.read_bytes()[:-25])
    assert read_of(partition.open("one"), "23_689aa6bd") == CHAIN
    assert read_of(partition.open("two"), "24_32e3cc2a") == CHAIN | {"24_32e3cc2a.delta"}


def test_a_delta_of_format_1_under_the_name_of_format_2_is_damaged(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    one = HandMade(partition.root / "other")
    path = one.snapshot("23_689aa6bd")
    path.rename(partition.folder / path.with_suffix(".delta").name)
    with pytest.raises(CorruptFileError) as error:
        partition.open().get_store(*version_id("23_689aa6bd"))
    assert f"23_{version_id('23_689aa6bd')[1]}.delta" in str(error.value)


@pytest.mark.parametrize(
    "lineage", [[(23, "x")], [(24, "x")], [(21, "x")], [(20, "x"), (22, "y")], [(0, "x")]], ids=str
)
def test_a_lineage_with_gaps_is_damaged(files: HandMade, partition: Partition, lineage: list[Ref]) -> None:
    of_example_2(files)
    files.delta_of(version_id("23_689aa6bd"), lineage, {})
    with pytest.raises(CorruptFileError):
        partition.open().get_store(*version_id("23_689aa6bd"))


def test_files_of_format_1_are_never_mixed_in(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    for version in range(1, 25):
        files.snapshot(f"{version}_00000000", "of format 1").rename(partition.folder / f"{version}.snapshot")
        files.delta(f"{version}_00000000").rename(partition.folder / f"{version}.delta")
    assert read_of(partition.open(), "23_689aa6bd") == CHAIN


def test_what_is_written_on_top_carries_the_lineage(files: HandMade, partition: Partition) -> None:
    of_example_2(files)
    executor = partition.open()
    first = write(executor, version_id("23_689aa6bd"), {b"24": b""})
    second = write(executor, first, {b"25": b""})
    chain = [version_id(name) for name in ("20_d8e2ca47", "21_f4d05ac9", "22_4489578d", "23_689aa6bd")]
    assert lineage_of(partition, first) == chain
    assert lineage_of(partition, second) == [*chain, first]
    expected = CHAIN | {"24", "25"}
    assert {key.decode() for key in read(partition.open("elsewhere"), second)} == expected


def lineage_of(partition: Partition, written: Ref) -> list[Ref]:
    """The header of a delta, read by hand."""
    path = partition.backend.changes_of(partition.folder, *written)
    data = decompress(CODEC, path.read_bytes())
    assert data[:4] == b"\0\2v3"
    size = int.from_bytes(data[4:6], "big")
    items = json.loads(data[6 : 6 + size])
    assert json.dumps(items, separators=(",", ":")).encode() == data[6 : 6 + size]
    return [(item["version"], item["checkpointUniqueId"]) for item in items]


def test_the_first_delta_has_no_lineage_and_the_next_ones_grow_it(partition: Partition) -> None:
    chain = write_chain(partition.open(), 4)
    assert [lineage_of(partition, written) for written in chain[1:]] == [chain[1:version] for version in range(1, 5)]


def test_the_lineage_begins_with_the_last_snapshot(make_partition: MakePartition) -> None:
    partition = make_partition(min_deltas_for_snapshot=2)
    provider = partition.open()
    chain = [EMPTY]
    for _ in range(12):
        chain += write_chain(provider, 1, chain[-1])[1:]
        provider.do_maintenance()
    snapshots = [written[0] for written in chain[1:] if partition.backend.whole_of(partition.folder, *written).exists()]
    assert len(snapshots) >= 2
    for version in range(snapshots[0] + 2, 13):
        lineage = lineage_of(partition, chain[version])
        assert lineage == chain[lineage[0][0] : version]
        assert lineage[0][0] in snapshots


@pytest.mark.thorough
def test_a_lineage_that_grows_too_long_is_cut_and_loads(make_partition: MakePartition) -> None:
    partition = make_partition(min_deltas_for_snapshot=100_000)
    provider = partition.open()
    count = 1_000  # about 70 bytes each, and the header holds 65,535
    chain = write_chain(provider, count)
    lineages = [lineage_of(partition, written) for written in chain[-200:]]
    assert all(lineage == chain[lineage[0][0] : version] for version, lineage in enumerate(lineages, count - 199))
    assert lineages[-1][0][0] > 1
    assert read(partition.open("elsewhere"), chain[-1]) == state_after(count)


def two_attempts(provider: StateStoreProvider) -> tuple[list[Ref], list[State]]:
    """Version 23, twice by one executor, as a loop over a batch in foreachBatch does it."""
    base = write_chain(provider, 22)[-1]
    attempts = [provider.get_store(*base) for _ in range(2)]
    for number, store in enumerate(attempts):
        store.put(b"attempt", b"%d" % number)
    committed = [ref(store.commit()) for store in attempts]
    return committed, [{**state_after(22), b"attempt": b"%d" % number} for number in range(2)]


def by_snapshot(partition: Partition, written: Ref) -> State:
    """The version, when nothing but its snapshot is there to load it from."""
    partition.backend.changes_of(partition.folder, *written).unlink()
    return read(partition.open(f"host of {written[1]}"), written)


@pytest.mark.parametrize("chosen", [0, 1])
def test_of_two_attempts_of_one_executor_the_chosen_one_gets_a_snapshot(
    make_partition: MakePartition, chosen: int
) -> None:
    partition = make_partition(min_deltas_for_snapshot=0)
    provider = partition.open()
    committed, expected = two_attempts(provider)
    provider.do_maintenance()
    assert not list(partition.folder.glob("23_*.snapshot"))  # nobody knows yet which it is
    following = provider.get_store(*committed[chosen])
    provider.do_maintenance()
    assert not partition.backend.whole_of(partition.folder, *committed[1 - chosen]).exists()
    following.put(b"next", b"batch")
    last = ref(following.commit())
    assert by_snapshot(partition, committed[chosen]) == expected[chosen]
    assert read(partition.open("elsewhere"), last) == {**expected[chosen], b"next": b"batch"}


def test_where_no_batch_follows_both_attempts_get_a_snapshot(make_partition: MakePartition) -> None:
    partition = make_partition(min_deltas_for_snapshot=0)
    provider = partition.open(maintenance_interval=0.05)
    committed, expected = two_attempts(provider)
    give_up = time.monotonic() + 60
    while len(list(partition.folder.glob("23_*.snapshot"))) < 2:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert [by_snapshot(partition, written) for written in committed] == expected
