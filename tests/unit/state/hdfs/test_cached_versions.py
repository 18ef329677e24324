"""Versions in memory: which are cached, and how they move to a new image while others are committed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from hdfsstore._cext.versioned_map import Image, Layer, LayerBuilder, Merger
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, HdfsVersions, LayerTree
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.lineages import EMPTY, MAX_ATTEMPTS
from tests.support.maps import records_of

State = dict[bytes, bytes]


def empty() -> HdfsVersion:
    return HdfsVersion(EMPTY, LayerTree(Image.empty(row_checksums=False), EMPTY), 0)


def layer(updates: Mapping[bytes, bytes | None]) -> Layer:
    builder = LayerBuilder(row_checksums=False)
    builder.append(*records_of(updates.items(), row_checksums=False))
    return builder.finish()


def append(
    versions: HdfsVersions, base: HdfsVersion, unique_id: str | None = "a", **updates: bytes | None
) -> HdfsVersion:
    """The version after `base`, as a commit adds it."""
    number = base.id[0] + 1
    rows = updates or {f"key {number}": b"%d" % number}
    delta = layer({key.encode(): value for key, value in rows.items()})
    lineage = versions.lineages.lineage_after(base)
    return versions.append(base, [((number, unique_id), delta)], lineage, committed=True)


def grow(versions: HdfsVersions, count: int) -> list[HdfsVersion]:
    grown = [empty()]
    versions.add(grown[0])
    for _ in range(count):
        grown.append(append(versions, grown[-1]))
    return grown


def state(version: HdfsVersion) -> State:
    transaction = version.tree.map.transaction(version.layer)
    return {
        key: value
        for keys, values in transaction.scan()
        for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    }


def states(versions: HdfsVersions) -> dict[VersionId, State]:
    return {version.id: state(version) for version in versions.cached()}


def image_of(version: HdfsVersion) -> tuple[Image, Layer | Image]:
    """As maintenance merges it."""
    layers = [delta for _, delta in version.deltas()]
    if not layers:
        return version.tree.image, version.tree.image
    merger = Merger(version.tree.image, layers)
    while merger.build():
        continue
    return merger.finish(), layers[-1]


def test_the_deltas_of_a_version_are_told_with_their_ids() -> None:
    versions = HdfsVersions(2)
    grown = grow(versions, 4)
    assert [version_id for version_id, _ in grown[4].deltas()] == [(number, "a") for number in range(1, 5)]
    assert grown[0].deltas() == []


def test_a_new_image_takes_what_was_committed_after_it() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 6)
    before = states(versions)
    assert versions.install(*_install(grown[4]))
    cached = {version.id[0]: version for version in versions.cached()}
    assert [number for number, version in cached.items() if version.tree.image_id == (4, "a")] == [4, 5, 6]
    assert [version_id[0] for version_id, _ in cached[6].deltas()] == [5, 6]
    assert states(versions) == before
    assert (cached[6].lineage, cached[6].committed) == (grown[6].lineage, True)


def _install(version: HdfsVersion) -> tuple[Image, VersionId, Layer | Image]:
    image, top = image_of(version)
    return image, version.id, top


def test_other_attempts_stay_where_they_are() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 3)
    other = append(versions, grown[2], "b", other=b"3")
    after_other = append(versions, other, "b", other=b"4")
    after = append(versions, grown[3], "c")
    before = states(versions)
    assert versions.install(*_install(grown[3]))
    assert {version.id for version in versions.cached() if version.tree.image_id == (3, "a")} == {(3, "a"), after.id}
    assert versions.find(other.id) is other
    assert versions.find(after_other.id) is after_other
    assert states(versions) == before


def test_the_image_may_be_of_a_version_that_is_cached_no_more() -> None:
    versions = HdfsVersions(2)
    grown = grow(versions, 3)
    installed = _install(grown[3])
    for _ in range(4):
        grown.append(append(versions, grown[-1]))
    before = states(versions)
    assert versions.install(*installed)
    assert {version.tree.image_id for version in versions.cached()} == {(3, "a")}
    assert states(versions) == before


def test_an_image_that_nothing_builds_on_changes_nothing() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 2)
    installed = _install(append(versions, grown[1], "lost", other=b"1"))
    versions.drop(versions.cached()[-1])
    others = HdfsVersions(9)
    grow(others, 2)
    before = others.cached()
    assert not others.install(*installed)
    assert others.cached() == before


def test_a_mapped_image_takes_the_place_of_the_same_in_memory() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 3)
    versions.install(*_install(grown[3]))
    base = versions.cached()[-1]
    append(versions, base)
    before = states(versions)
    again = image_of(grown[3])[0]
    assert versions.install(again, (3, "a"), base.tree.image)
    assert [version.tree.image is again for version in versions.cached()] == [False, False, False, True, True]
    assert states(versions) == before


def test_a_store_in_flight_commits_where_its_base_has_moved() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 3)
    versions.install(*_install(grown[3]))
    written = append(versions, grown[3])
    assert written.tree.image_id == (3, "a")
    assert state(written) == {b"key %d" % number: b"%d" % number for number in range(1, 5)}


def test_a_store_whose_base_is_cached_no_more_commits_all_the_same() -> None:
    versions = HdfsVersions(1)
    grown = grow(versions, 3)
    written = append(versions, grown[1], "b", other=b"1")
    assert state(written) == {b"key 1": b"1", b"other": b"1"}
    assert [version.id for version in versions.cached()] == [(2, "b")]


def test_a_base_that_was_loaded_anew_is_not_taken_for_the_one_before() -> None:
    """Without ids, two runs of a version have one name."""
    versions = HdfsVersions(9)
    first = append(versions, empty(), None, key=b"first run")
    second = append(versions, empty(), None, key=b"second run")
    assert versions.find((1, None)) is second
    assert state(append(versions, first, None, other=b"2")) == {b"key": b"first run", b"other": b"2"}


def test_a_run_without_ids_drops_versions_built_on_the_one_before() -> None:
    versions = HdfsVersions(9)
    grown = [empty()]
    for _ in range(5):
        grown.append(append(versions, grown[-1], None))
    with_id = append(versions, grown[5], "a")
    append(versions, grown[1], None, again=b"2")
    assert [version.id for version in versions.cached()] == [(1, None), (2, None), with_id.id]
    versions.drop(versions.cached()[0])
    assert [version.id for version in versions.cached()] == [with_id.id]


def test_attempts_of_a_version_are_cached_but_not_all() -> None:
    versions = HdfsVersions(2)
    grown = grow(versions, 2)
    first = append(versions, grown[2], "chosen")
    versions.driver_version = first.id
    ids = [append(versions, grown[2], f"attempt {number}").id for number in range(MAX_ATTEMPTS + 5)]
    assert [version.id for version in versions.cached() if version.id[0] == 3] == [first.id, *ids[-MAX_ATTEMPTS:]]


def test_a_version_that_is_used_is_cached_longer() -> None:
    versions = HdfsVersions(2)
    grown = grow(versions, 3)
    versions.use(grown[2])
    append(versions, grown[2], "b")
    assert [version.id for version in versions.cached()] == [(2, "a"), (3, "a"), (3, "b")]
    append(versions, grown[1], "c")
    assert [version.id[0] for version in versions.cached()] == [2, 2, 3, 3]


def test_versions_on_a_damaged_image_are_dropped_at_once() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 4)
    versions.install(*_install(grown[3]))
    versions.drop_tree(versions.cached()[-1].tree)
    assert [version.id[0] for version in versions.cached()] == [0, 1, 2]


def test_lineages_begin_at_the_newest_snapshot_that_is_known() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 5)
    ids = [version.id for version in grown]
    assert versions.lineages.lineage_after(grown[0]) == ()
    assert versions.lineages.lineage_after(grown[5]) == tuple(ids[1:])
    versions.lineages.note_snapshot(ids[2])
    assert versions.lineages.lineage_after(grown[5]) == tuple(ids[2:])
    assert versions.lineages.lineage_after(grown[2]) == (ids[2],)
    assert versions.lineages.lineage_after(grown[1]) == (ids[1],)
    versions.lineages.note_snapshot(ids[4])
    versions.lineages.note_snapshot((5, "lost"))
    assert versions.lineages.lineage_after(grown[5]) == (ids[4], ids[5])
    versions.lineages.note_removed(ids[4])
    assert versions.lineages.lineage_after(grown[5]) == tuple(ids[2:])


@pytest.mark.parametrize(("snapshot", "deltas"), [(None, [0, 1, 2, 3, 4]), (2, [0, 1, 0, 1, 2]), (1, [0, 0, 1, 2, 3])])
def test_deltas_are_counted_since_the_last_snapshot(snapshot: int | None, deltas: list[int]) -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 4)
    if snapshot is not None:
        versions.lineages.note_snapshot((snapshot, "a"))
    assert [versions.lineages.deltas_since_snapshot(version) for version in grown] == deltas


def test_images_move_while_threads_commit() -> None:
    """Whatever the moment of a move, every version is what its own commits made it."""
    versions = HdfsVersions(400)
    base = empty()
    versions.add(base)
    expected: dict[VersionId, State] = {EMPTY: {}}
    moved, done = threading.Event(), threading.Event()

    def write(name: str) -> None:
        at, rows = base, dict[bytes, bytes]()
        for number in range(60):
            if number == 30:  # no writer ends before a move among its versions, however late the mover's turn comes
                assert moved.wait(60)
            at = append(versions, at, f"{name}{number}", **{name: b"%d" % number, f"{name}{number % 7}": b"x"})
            rows = {**rows, name.encode(): b"%d" % number, f"{name}{number % 7}".encode(): b"x"}
            expected[at.id] = rows

    def install() -> None:
        while not done.wait(0.001):  # one that never lets go of the interpreter starves the writers
            cached = versions.cached()
            versions.install(*_install(cached[len(cached) // 2]))
            if len(cached) > 30:
                moved.set()

    with ThreadPoolExecutor(4) as pool:
        mover = pool.submit(install)
        writers = [pool.submit(write, name) for name in ("a", "b", "c")]
        wait(writers)
        done.set()
    for future in (*writers, mover):
        future.result()
    assert states(versions) == expected
    assert len({version.tree for version in versions.cached()}) > 1


def test_bytes_of_shared_maps_count_once() -> None:
    versions = HdfsVersions(9)
    grown = grow(versions, 3)
    assert versions.nbytes == grown[3].tree.map.nbytes + grown[3].tree.image.nbytes
    versions.clear()
    assert versions.nbytes == 0


def test_a_digest_tells_runs_apart() -> None:
    assert FileDigest("delta", 1, 2, 3) != FileDigest("snapshot", 1, 2, 3)
    assert FileDigest("delta", 1, 2, 3) == FileDigest(*["delta", 1, 2, 3])
