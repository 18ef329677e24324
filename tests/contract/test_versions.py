"""Versions, their ids, and where each one starts from."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from hdfsstore import StateStoreError
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, MissingFileError
from hdfsstore.state.protocols import StateStoreCheckpointInfo, StateStoreProvider
from tests.contract.backends import EVERY_CODEC, WITH_IDS
from tests.support.partition import EMPTY, Partition, contents, read, ref, state_after, write, write_chain

NOT_THERE = (BatchNotAvailableError, MissingFileError)
REFUSED = (ValueError, StateStoreError)


def test_version_0_is_empty(provider: StateStoreProvider) -> None:
    store = provider.get_store(0)
    assert (store.version, contents(store), store.get(b"k")) == (0, {}, None)
    assert read(provider, EMPTY) == {}


def test_the_store_is_the_one_that_was_asked_for(provider: StateStoreProvider, partition: Partition) -> None:
    assert provider.id == partition.store_id
    assert provider.get_store(0).id == provider.get_read_store(0).id == partition.store_id


def test_commit_of_a_version_writes_the_next(provider: StateStoreProvider) -> None:
    one = write(provider, EMPTY, {b"k": b"1"})
    two = write(provider, one, {b"l": b"2"})
    assert (one[0], two[0]) == (1, 2)
    assert provider.get_store(*two).version == 2
    assert read(provider, one) == {b"k": b"1"}
    assert read(provider, two) == {b"k": b"1", b"l": b"2"}


def test_commit_tells_what_was_written_and_on_top_of_what(provider: StateStoreProvider, partition: Partition) -> None:
    first = provider.get_store(0).commit()
    second = provider.get_store(*ref(first)).commit()
    partition_id = partition.store_id.partition_id
    first_id, second_id = first.checkpoint_unique_id, second.checkpoint_unique_id
    assert first == StateStoreCheckpointInfo(partition_id, 1, first_id, None)
    assert second == StateStoreCheckpointInfo(partition_id, 2, second_id, first_id)
    if partition.conf.checkpoint_format_version == 1:
        assert first_id is second_id is None
    else:
        assert first_id is not None
        assert second_id is not None
        assert str(uuid.UUID(first_id)) == first_id != second_id


def test_a_commit_without_updates_is_a_version(provider: StateStoreProvider, partition: Partition) -> None:
    two = write(provider, write(provider, EMPTY, {b"k": b"1"}), {})
    assert read(provider, two) == read(partition.open("elsewhere"), two) == {b"k": b"1"}


def test_an_empty_store_is_committed(provider: StateStoreProvider, partition: Partition) -> None:
    one = write(provider, EMPTY, {})
    assert one[0] == 1
    assert read(partition.open("elsewhere"), one) == {}


def test_an_id_where_none_belongs_is_refused(provider: StateStoreProvider) -> None:
    with pytest.raises(REFUSED):
        provider.get_store(0, str(uuid.uuid4()))
    with pytest.raises(REFUSED):
        provider.get_read_store(0, str(uuid.uuid4()))


def test_an_id_that_no_attempt_had_is_refused(provider: StateStoreProvider, partition: Partition) -> None:
    write(provider, EMPTY, {b"k": b"1"})
    for executor in (provider, partition.open(), partition.open("elsewhere")):
        with pytest.raises(StateStoreError):
            executor.get_store(1, str(uuid.uuid4()))


@pytest.mark.parametrize("variant", WITH_IDS, ids=str)
def test_a_version_is_not_taken_for_another_with_the_id_left_out(
    provider: StateStoreProvider, partition: Partition
) -> None:
    version, _ = write(provider, EMPTY, {b"k": b"1"})
    for executor in (provider, partition.open("elsewhere")):
        with pytest.raises(StateStoreError):
            executor.get_store(version)


@pytest.mark.parametrize("unique_id", ["", "../1", "a/b", "x" * 300, "a\nb", "*"])
def test_an_id_is_no_path(provider: StateStoreProvider, unique_id: str) -> None:
    write(provider, EMPTY, {b"k": b"1"})
    with pytest.raises(REFUSED):
        provider.get_store(1, unique_id)


def test_a_version_that_was_not_written_is_not_available(provider: StateStoreProvider, partition: Partition) -> None:
    version, unique_id = write_chain(provider, 2)[-1]
    for executor in (provider, partition.open("elsewhere")):
        with pytest.raises(NOT_THERE):
            executor.get_store(version + 1, unique_id)
    with pytest.raises(REFUSED):
        provider.get_store(-1)


def test_abort_writes_nothing(provider: StateStoreProvider, partition: Partition) -> None:
    one = write(provider, EMPTY, {b"k": b"1"})
    before = sorted(path.name for path in partition.folder.iterdir())
    store = provider.get_store(*one)
    store.put(b"k", b"2")
    store.remove(b"k")
    store.abort()
    assert sorted(path.name for path in partition.folder.iterdir()) == before
    assert read(provider, one) == {b"k": b"1"}


def test_a_version_that_is_run_again_starts_from_its_base(provider: StateStoreProvider, partition: Partition) -> None:
    base = write(provider, EMPTY, {b"k": b"base", b"gone": b"base"})
    first = write(provider, base, {b"k": b"first", b"gone": None, b"first": b"1"})
    store = provider.get_store(*base)
    assert contents(store) == {b"k": b"base", b"gone": b"base"}
    store.put(b"second", b"2")
    second = ref(store.commit())
    expected = {b"k": b"base", b"gone": b"base", b"second": b"2"}
    assert read(provider, second) == read(partition.open("elsewhere"), second) == expected
    if first != second:
        assert read(provider, first) == read(partition.open("a third"), first) == {b"k": b"first", b"first": b"1"}


def test_attempts_run_side_by_side(provider: StateStoreProvider) -> None:
    base = write(provider, EMPTY, {b"k": b"base"})
    one, two = provider.get_store(*base), provider.get_store(*base)
    one.put(b"k", b"one")
    two.put(b"l", b"two")
    assert (one.get(b"k"), one.get(b"l")) == (b"one", None)
    assert (two.get(b"k"), two.get(b"l")) == (b"base", b"two")
    one.abort()
    assert read(provider, ref(two.commit())) == {b"k": b"base", b"l": b"two"}


def test_stores_of_many_versions_are_read_beside_a_writer(provider: StateStoreProvider) -> None:
    chain = write_chain(provider, 6)
    readers = [provider.get_read_store(*version) for version in chain]
    writer = provider.get_store(*chain[-1])
    for version, reader in enumerate(readers):
        writer.put(b"key %d" % version, b"changed")
        writer.remove(b"last")
        assert contents(reader) == state_after(version)
    written = ref(writer.commit())
    provider.do_maintenance()
    assert [contents(reader) for reader in readers] == [state_after(version) for version in range(len(chain))]
    assert read(provider, written)[b"key 3"] == b"changed"
    for reader in readers:
        reader.close()


def test_a_version_is_gone_back_to(provider: StateStoreProvider, partition: Partition) -> None:
    chain = write_chain(provider, 8)
    again = write(provider, chain[3], {b"again": b"4"})
    expected = {**state_after(3), b"again": b"4"}
    assert read(provider, again) == read(partition.open("elsewhere"), again) == expected
    on_top = write(provider, again, {b"key 1": None})
    assert read(provider, on_top) == {key: value for key, value in expected.items() if key != b"key 1"}


@pytest.mark.parametrize("variant", EVERY_CODEC, ids=str, indirect=True)
def test_every_version_is_there_after_a_cold_start(provider: StateStoreProvider, partition: Partition) -> None:
    chain = write_chain(provider, 5)
    large = {b"k" * 3_000: b"v" * 100_000, b"": b"empty key", b"empty value": b"", b"\xff" * 8: bytes(8)}
    chain.append(write(provider, chain[-1], large))
    chain.append(write(provider, chain[-1], {b"": None, b"key 2": None}))
    provider.close()
    expected = [*map(state_after, range(6)), {**state_after(5), **large}]
    expected.append({key: value for key, value in expected[-1].items() if key not in (b"", b"key 2")})
    for cold in (partition.open(), partition.open("elsewhere"), partition.open("forgets", **FORGETS)):
        assert [read(cold, version) for version in chain] == expected


FORGETS = {"max_versions_to_retain_in_memory": 0}


def test_a_provider_that_keeps_nothing_in_memory_works(partition: Partition) -> None:
    provider = partition.open(**FORGETS)
    chain = write_chain(provider, 5)
    assert [read(provider, version) for version in chain] == [state_after(version) for version in range(6)]


def test_versions_that_are_retained_can_be_read(partition: Partition) -> None:
    conf = {"min_deltas_for_snapshot": 2, "min_versions_to_retain": 4}
    provider = partition.open(**conf)
    chain = [EMPTY]
    for _ in range(20):
        chain += write_chain(provider, 1, chain[-1])[1:]
        provider.do_maintenance()
        for version in chain[-5:]:
            assert read(partition.open("elsewhere", **conf), version) == state_after(version[0])
    assert list(partition.folder.glob(f"*.{partition.backend.whole}"))
    assert len(partition.backend.files(partition.folder)) <= 15
    for executor in (partition.open("elsewhere"), partition.open("a third")):
        with pytest.raises(NOT_THERE):
            executor.get_store(*chain[2])


def test_a_delta_that_is_missing_is_an_error_and_never_skipped(
    provider: StateStoreProvider, partition: Partition
) -> None:
    chain = write_chain(provider, 5)
    partition.backend.changes_of(partition.folder, *chain[3]).unlink()
    cold = partition.open("elsewhere")
    for version in (3, 4, 5):
        with pytest.raises(NOT_THERE) as error:
            cold.get_store(*chain[version])
        assert str(partition.folder) in str(error.value)
    assert read(cold, chain[2]) == state_after(2)


@pytest.mark.parametrize("damage", ["cut", "empty", "flip"])
def test_a_delta_that_is_damaged_is_an_error(provider: StateStoreProvider, partition: Partition, damage: str) -> None:
    chain = write_chain(provider, 4)
    path = partition.backend.changes_of(partition.folder, *chain[3])
    spoil(path, damage)
    cold = partition.open("elsewhere")
    with pytest.raises(CorruptFileError) as error:
        cold.get_store(*chain[4])
    assert path.name in str(error.value)
    assert read(cold, chain[2]) == state_after(2)


def spoil(path: Path, damage: str) -> None:
    """Damages the file; its checksum files would only show it sooner, and are deleted."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.with_name(f"{path.name}.crc").unlink(missing_ok=True)
    data = path.read_bytes()
    if damage == "flip":
        half = len(data) // 2
        data = data[:half] + bytes([data[half] ^ 0x55]) + data[half + 1 :]
    path.write_bytes({"cut": data[: len(data) // 2], "empty": b"", "flip": data}[damage])


def test_a_whole_file_that_is_damaged_is_passed_over_where_the_deltas_are_there(partition: Partition) -> None:
    provider = partition.open(min_deltas_for_snapshot=0)
    chain = [EMPTY]
    for _ in range(4):
        chain += write_chain(provider, 1, chain[-1])[1:]
        provider.do_maintenance()
    found = [path for path in partition.backend.files(partition.folder) if path.suffix == f".{partition.backend.whole}"]
    assert found
    for path in found:
        spoil(path, "cut")
    assert read(partition.open("elsewhere"), chain[4]) == state_after(4)
