"""Images that a stateful query's commits make, where a batch has changed much."""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.versions.files import VersionId
from tests.support.partition import EMPTY, Partition, State, read
from tests.unit.state.hdfs.executors import commit

KEYS = [b"key %d" % i for i in range(500)]


def rows(version: int, keys: list[bytes] = KEYS) -> State:
    return {key: version.to_bytes(1000, "little") for key in keys}


def image_of(version: VersionId) -> str:
    return f"{version[0]}_{version[1]}.image" if version[1] else f"{version[0]}.image"


def images(executors: Partition) -> set[str]:
    return {path.name for path in executors.images()}


def stands_on(provider: HdfsStateStoreProvider, version: VersionId) -> VersionId:
    cached = provider.versions.find(version)
    assert cached is not None
    return cached.tree.image_id


def counted(provider: HdfsStateStoreProvider) -> list[int | float]:
    names = "imagesBuilt", "localImageHitCount", "deltasLoaded", "snapshotsLoaded"
    return [provider.metrics[name] for name in names]


def test_processes_that_change_every_key_in_turn_read_no_delta(any_executors: Partition) -> None:
    providers = [any_executors.open(shared_across_workers=True) for _ in range(2)]
    versions = [EMPTY]
    for i in range(6):
        versions.append(commit(providers[i % 2], versions[-1], rows(i)))
        assert images(any_executors) == {image_of(version) for version in versions[-2:] if version != EMPTY}
    assert counted(providers[0]) == [3, 2, 0, 0]
    assert counted(providers[1]) == [3, 3, 0, 0]
    for provider in (*providers, any_executors.open(), any_executors.open("elsewhere")):
        assert read(provider, versions[6]) == rows(5)
        assert read(provider, versions[5]) == rows(4)
    assert providers[1].metrics["imageMs"] <= 60_000


@pytest.mark.parametrize(
    ("updates", "left"),
    [
        pytest.param({**rows(2), b"new": b"1"}, {**rows(2), b"new": b"1"}, id="all, and a new key"),
        pytest.param(rows(2, KEYS[:450]), {**rows(1), **rows(2, KEYS[:450])}, id="most"),
        pytest.param(
            {**dict.fromkeys(KEYS[:3]), **rows(2, KEYS[3:])}, rows(2, KEYS[3:]), id="removes some, puts all else"
        ),
        pytest.param(
            {**dict.fromkeys(KEYS[:3]), **rows(2, KEYS[5:])},
            {**rows(1, KEYS[3:5]), **rows(2, KEYS[5:])},
            id="removes some, puts most",
        ),
    ],
)
def test_what_a_batch_may_do(any_executors: Partition, updates: Mapping[bytes, bytes | None], left: State) -> None:
    provider = any_executors.open(shared_across_workers=True)
    first = commit(provider, EMPTY, rows(1))
    second = commit(provider, first, updates)
    assert images(any_executors) == {image_of(first), image_of(second)}
    assert stands_on(provider, second) == second
    other = any_executors.open(shared_across_workers=True)
    for each in (provider, other, any_executors.open("elsewhere")):
        assert read(each, second) == left
    assert counted(other) == [0, 1, 0, 0]
    assert read(other, commit(other, second, {b"key 7": b"small"})) == {**left, b"key 7": b"small"}
    assert len(images(any_executors)) == 2, "no image for a key"


def test_a_key_that_is_put_twice_is_there_once(any_executors: Partition) -> None:
    provider = any_executors.open(shared_across_workers=True)
    store = provider.get_store(0)
    for i in range(2):
        for key, value in rows(i).items():
            store.put(key, value)
    info = store.commit()
    version = info.version, info.checkpoint_unique_id
    assert images(any_executors) == {image_of(version)}
    assert read(any_executors.open(), version) == rows(1)


def test_a_provider_of_its_own_leaves_it_to_maintenance(any_executors: Partition) -> None:
    provider = any_executors.open()
    commit(provider, commit(provider, EMPTY, rows(1)), rows(2))
    assert images(any_executors) == set()


def test_the_next_commits_stand_on_it(any_executors: Partition) -> None:
    provider = any_executors.open(shared_across_workers=True, min_deltas_for_snapshot=2)
    version, expected = EMPTY, {}
    for i in range(5):
        version = commit(provider, version, rows(i) if i % 2 == 0 else {b"small": b"%d" % i})
        expected |= rows(i) if i % 2 == 0 else {b"small": b"%d" % i}
    provider.get_store(*version).abort()
    provider.do_maintenance()
    assert provider.metrics["snapshotsUploaded"] == 1
    for each in (provider, any_executors.open(), any_executors.open("elsewhere")):
        assert read(each, version) == expected


def test_without_a_disk_it_is_in_memory(any_executors: Partition, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    provider = any_executors.open(shared_across_workers=True, local_dir=str(tmp_path / "file"))
    version = EMPTY
    for i in range(3):
        version = commit(provider, version, rows(i))
        assert stands_on(provider, version) == version
    assert read(provider, version) == rows(2)
    assert read(any_executors.open(), version) == rows(2)


def test_expired_keys_are_found_in_it(any_executors: Partition) -> None:
    state = {key: struct.pack("<qqq1000x", 0, 0, i) for i, key in enumerate(KEYS)}
    version = commit(any_executors.open(shared_across_workers=True, timeout_offset=16), EMPTY, state)
    assert images(any_executors) == {image_of(version)}
    with any_executors.open(timeout_offset=16).get_read_store(*version) as store:
        assert store.next_expiry() == 0
        expired = {key for keys, _ in store.expired(5) for key in keys.to_pylist()}
    assert expired == set(KEYS[:5])


def test_the_image_below_attempts_stays(executors: Partition) -> None:
    """Any of them may be the one that the driver chooses, and none."""
    provider, other = (executors.open(shared_across_workers=True) for _ in range(2))
    base = commit(provider, EMPTY, rows(0))
    attempts = [commit(provider, base, rows(i)) for i in range(1, 5)]
    assert images(executors) == {image_of(base), image_of(attempts[-1])}
    for i, attempt in enumerate(attempts, 1):
        assert read(other, attempt) == rows(i)
    assert read(other, commit(other, base, rows(9))) == rows(9)
    assert other.metrics["snapshotsLoaded"] == 0


def test_a_commit_whose_base_is_damaged_stands(any_executors: Partition, caplog: pytest.LogCaptureFixture) -> None:
    with any_executors.open(shared_across_workers=True) as provider:
        first = commit(provider, EMPTY, rows(1))
    [path] = any_executors.images()
    content = bytearray(path.read_bytes())
    content[-5] ^= 1  # of the last record
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o400)
    provider = any_executors.open(shared_across_workers=True)
    store = provider.get_store(*first)
    for key, value in rows(2, KEYS[:-50]).items():
        store.put(key, value)
    with caplog.at_level(logging.WARNING):
        info = store.commit()
    assert "no image of version 2 is made" in caplog.text
    second = info.version, info.checkpoint_unique_id
    assert read(provider, second) == {**rows(1), **rows(2, KEYS[:-50])}
    assert read(any_executors.open(), second) == {**rows(1), **rows(2, KEYS[:-50])}


def test_a_commit_after_the_provider_was_closed_stands(any_executors: Partition) -> None:
    provider = any_executors.open(shared_across_workers=True)
    store = provider.get_store(0)
    for key, value in rows(1).items():
        store.put(key, value)
    provider.close()
    info = store.commit()
    assert images(any_executors) == set()
    assert read(any_executors.open(), (info.version, info.checkpoint_unique_id)) == rows(1)
