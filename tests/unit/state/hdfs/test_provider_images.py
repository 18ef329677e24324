"""Local images: when a version is loaded from one, when it is not trusted, and when it turns out to be damaged."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.hdfs.store import HdfsStateStore
from hdfsstore.state.versions.files import VersionId
from tests.support.images import needs_smaps, resident
from tests.support.partition import EMPTY, Partition, contents, read, ref
from tests.unit.state.hdfs.executors import chain, commit, damage, lineage_of, path_of, rows_at, spoil, with_image

KEY = pa.schema([("a", pa.int64()), ("b", pa.int64())])
VALUE = pa.schema([("v", pa.string()), ("timeout", pa.int64())])
INDEXED = 16  # where `expired` stands in a value


def test_a_version_is_loaded_from_its_image(any_executors: Partition) -> None:
    versions = with_image(any_executors, 3)
    for version in versions[1:3]:
        path_of(any_executors, version).unlink()
    path_of(any_executors, versions[3], "snapshot").unlink()
    provider = any_executors.open()
    if versions[3][1] is not None:
        path_of(any_executors, versions[3]).unlink()
    assert read(provider, versions[3]) == rows_at(3)
    assert provider.metrics["localImageHitCount"] == 1


def test_and_those_after_it_from_the_image_and_their_deltas(any_executors: Partition) -> None:
    versions = with_image(any_executors, 3)
    versions += chain(any_executors.open("elsewhere"), 3, versions[3])[1:]
    spoil(path_of(any_executors, versions[3], "snapshot"))
    spoil(path_of(any_executors, versions[2]))
    provider = any_executors.open()
    assert read(provider, versions[6]) == rows_at(6)
    assert provider.metrics["localImageHitCount"] == 1
    assert read(provider, commit(provider, versions[6])) == rows_at(7)


def test_images_of_a_store_that_goes_on_do_not_pile_up(any_executors: Partition) -> None:
    last = EMPTY
    with any_executors.open(min_deltas_for_snapshot=0) as provider:
        for _ in range(5):
            last = chain(provider, 1, last)[1]
            provider.do_maintenance()
    assert sorted(int(path.name.split("_")[0].split(".")[0]) for path in any_executors.images()) == [4, 5]


def test_a_damaged_image_below_deltas_is_passed_over(any_executors: Partition) -> None:
    versions = with_image(any_executors, 3)
    versions += chain(any_executors.open("elsewhere"), 2, versions[3])[1:]
    [path] = any_executors.images()
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content[:4096] + bytes(byte ^ 1 for byte in content[4096:]))  # the header is whole
    path.chmod(0o400)
    provider = any_executors.open()
    assert read(provider, versions[5]) == rows_at(5)
    assert provider.metrics["localImagesDamaged"] == 1
    assert any_executors.images() == []


@needs_smaps
def test_maintenance_keeps_no_pages_of_the_image_that_it_has_merged(executors: Partition) -> None:
    versions = with_image(executors, 3)
    provider = executors.open(min_deltas_for_snapshot=0)
    versions += chain(provider, 1, versions[3])[1:]
    [merged] = executors.images()
    assert resident(executors.root)[merged.name] > 0
    provider.do_maintenance()
    assert len(executors.images()) == 2
    assert resident(executors.root)[merged.name] == 0
    assert read(provider, versions[3]) == rows_at(3)


def test_a_cached_version_that_is_newer_is_preferred(executors: Partition) -> None:
    versions = with_image(executors, 3)
    provider = executors.open()
    versions += chain(provider, 2, versions[3])[1:]
    versions += chain(executors.open("elsewhere"), 1, versions[5])[1:]
    for path in executors.images():
        path.unlink()
    spoil(path_of(executors, versions[4]))
    assert read(provider, versions[6]) == rows_at(6)


def test_the_lineage_goes_on_from_the_image(executors: Partition) -> None:
    versions = with_image(executors, 3)
    after = commit(executors.open(), versions[3])
    # The snapshot was uploaded by a process that is gone: what this one knows is the image's own lineage.
    assert lineage_of(executors, after) == versions[1:4]
    assert read(executors.open("elsewhere"), after) == rows_at(4)


def test_without_ids_an_image_of_another_run_is_not_used(executors_v1: Partition) -> None:
    versions = with_image(executors_v1, 3)
    commit(executors_v1.open("elsewhere"), versions[2], {b"other": b"3"})
    provider = executors_v1.open()
    assert read(provider, versions[3]) == {**rows_at(2), b"other": b"3"}
    assert provider.metrics["localImageHitCount"] == 0
    assert executors_v1.images() == []


def test_without_ids_an_image_whose_file_is_gone_is_not_used(executors_v1: Partition) -> None:
    versions = with_image(executors_v1, 3)
    path_of(executors_v1, versions[3]).unlink()
    provider = executors_v1.open()
    assert read(provider, versions[3]) == rows_at(3)  # of the snapshot
    assert provider.metrics["localImageHitCount"] == 0


def test_without_ids_an_image_of_another_query_is_not_used(executors_v1: Partition) -> None:
    metadata = executors_v1.root / "metadata"
    metadata.write_text(json.dumps({"id": "one"}))
    versions = with_image(executors_v1, 3)
    metadata.write_text(json.dumps({"id": "another"}))
    provider = executors_v1.open()
    assert read(provider, versions[3]) == rows_at(3)
    assert provider.metrics["localImageHitCount"] == 0
    metadata.write_text(json.dumps({"id": "one"}))
    assert executors_v1.images() == []


def test_without_ids_an_image_on_another_snapshot_is_not_used(executors_v1: Partition) -> None:
    """Of a store that was made again only the snapshot below differs: the last delta has the same bytes and time."""
    with executors_v1.open(min_deltas_for_snapshot=0) as provider:
        first = commit(provider, EMPTY, {b"key 1": b"of the one run"})
        provider.get_store(*first).abort()
        provider.do_maintenance()
        second = commit(provider, first, {b"key 2": b"of both"})
        provider.get_store(*second).abort()
        provider.do_maintenance()
    assert any(path.name == "2.image" for path in executors_v1.images())
    path_of(executors_v1, second, "snapshot").unlink(missing_ok=True)
    with Partition(executors_v1.root / "again", checkpoint_format_version=1).open(min_deltas_for_snapshot=0) as other:
        commit(other, EMPTY, {b"key 1": b"of the other run, which is longer"})
        other.get_store(1).abort()
        other.do_maintenance()
    again = path_of(Partition(executors_v1.root / "again"), (1, None), "snapshot")
    path_of(executors_v1, (1, None), "snapshot").write_bytes(again.read_bytes())
    path_of(executors_v1, (1, None)).unlink()
    provider = executors_v1.open()
    assert read(provider, second) == {b"key 1": b"of the other run, which is longer", b"key 2": b"of both"}
    assert provider.metrics["localImageHitCount"] == 0


def test_with_ids_no_query_has_to_be_known(executors: Partition, caplog: pytest.LogCaptureFixture) -> None:
    (executors.root / "metadata").write_text("no JSON")
    versions = with_image(executors, 3)
    provider = executors.open()
    assert read(provider, versions[3]) == rows_at(3)
    assert provider.metrics["localImageHitCount"] == 1
    assert caplog.text == ""


def test_an_image_of_rows_with_other_checksums_is_not_used(any_executors: Partition) -> None:
    versions = with_image(any_executors, 3)
    for path in any_executors.folder.iterdir():
        path.unlink()
    chain(any_executors.open("elsewhere", row_checksum_enabled=True), 3)
    if versions[3][1] is None:
        provider = any_executors.open(row_checksum_enabled=True)
        assert read(provider, versions[3]) == rows_at(3)
    else:
        with pytest.raises(StateStoreError):
            any_executors.open(row_checksum_enabled=True).get_store(*versions[3])


def test_an_image_of_another_release_is_not_used(any_executors: Partition) -> None:
    versions = with_image(any_executors, 3)
    with any_executors.open() as provider:
        image = provider.get_read_store(*versions[3])._base.tree.image
        provider.images._images.drop(*versions[3])
        provider.images._images.write(*versions[3], image, {"lineage": "unknown"})
    with any_executors.open() as provider:
        assert read(provider, versions[3]) == rows_at(3)
        assert provider.metrics["localImageHitCount"] == 0


def test_without_a_place_for_images_the_store_works(any_executors: Partition) -> None:
    (any_executors.root / "host").write_bytes(b"no folder")
    provider = any_executors.open(min_deltas_for_snapshot=0)
    versions = chain(provider, 3)
    provider.do_maintenance()
    assert read(any_executors.open(), commit(provider, versions[3])) == rows_at(4)


def prefix_of(provider: HdfsStateStoreProvider, a: int) -> bytes:
    """The row of the key's first column."""
    row = provider.keys.encode(pa.RecordBatch.from_pydict({"a": [a], "b": [0]}, schema=KEY))[0].as_py()
    return bytes(row[:8] + row[8:16])


def keys(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"a": [i % 10 for i in range(count)], "b": list(range(count))}, schema=KEY)


def values(count: int, tag: str) -> pa.RecordBatch:
    columns = {"v": [f"{tag} {i}" for i in range(count)], "timeout": range(count)}
    return pa.RecordBatch.from_pydict(columns, schema=VALUE)


def row(provider: HdfsStateStoreProvider, b: int) -> bytes:
    return bytes(provider.keys.encode(pa.RecordBatch.from_pydict({"a": [3], "b": [b]}, schema=KEY))[0].as_py())


Call = Callable[[HdfsStateStoreProvider, HdfsStateStore], object]
CALLS: dict[str, Call] = {
    "get": lambda provider, store: store.get(row(provider, 713)),
    "get_many": lambda provider, store: store.get_many(provider.keys.encode(keys(900))).to_pylist(),
    "get_batch": lambda _, store: store.get_batch(keys(900)).to_pylist(),
    "put": lambda provider, store: store.put(row(provider, 713), b"put"),
    "put_many": lambda provider, store: store.put_many(
        provider.keys.encode(keys(900)), provider.values.encode(values(900, "many"))
    ),
    "put_batch": lambda _, store: store.put_batch(keys(900), values(900, "batch")),
    "remove": lambda provider, store: store.remove(row(provider, 713)),
    "remove_many": lambda provider, store: store.remove_many(provider.keys.encode(keys(900))),
    "remove_batch": lambda _, store: store.remove_batch(keys(900)),
    "iterator": lambda _, store: sorted(store.iterator()),
    "scan": lambda _, store: sorted(str(row) for batch in store.scan() for row in batch.to_pylist()),
    "prefix_scan": lambda provider, store: sorted(store.prefix_scan(prefix_of(provider, 3))),
    "expired": lambda _, store: sorted(
        str(pair) for rows in store.expired(900, 70) for pair in zip(*rows, strict=True)
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_damage_shows_only_in_the_log(any_executors: Partition, call: str, caplog: pytest.LogCaptureFixture) -> None:
    """What a call returns, what was updated before it, and what is committed are those of a store without damage."""

    def history(host: str, spoiled: bool) -> tuple[object, dict[bytes, bytes], dict[bytes, bytes], list[float]]:
        provider = any_executors.open(
            host, key_schema=KEY, value_schema=VALUE, num_cols_prefix_key=1, timeout_offset=INDEXED
        )
        store = provider.get_store(*base)
        store.put_batch(keys(3), values(3, "before"))
        store.remove_batch(keys(20).slice(15))
        store.put(row(provider, 5000), provider.values.encode(values(1, "new"))[0].as_py())
        if spoiled:
            (image,) = any_executors.images(host)
            damage(image, 0.5)  # what was touched before has been verified, and is elsewhere
        result = CALLS[call](provider, store)
        store.put(row(provider, 5001), b"2")
        rows = contents(store)
        version = ref(store.commit())
        counted = [store.metrics[f"num{what}StateRows"] for what in ("Total", "Updated", "Removed")]
        assert provider.metrics["localImagesDamaged"] == spoiled
        assert read(provider, version) == rows
        return (
            result,
            rows,
            read(
                any_executors.open(
                    "third", key_schema=KEY, value_schema=VALUE, num_cols_prefix_key=1, timeout_offset=INDEXED
                ),
                version,
            ),
            counted,
        )

    def hundreds(host: str) -> VersionId:
        with any_executors.open(
            host,
            key_schema=KEY,
            value_schema=VALUE,
            num_cols_prefix_key=1,
            timeout_offset=INDEXED,
            min_deltas_for_snapshot=0,
        ) as provider:
            store = provider.get_store(0)
            store.put_batch(keys(1000), values(1000, "base"))
            version = ref(store.commit())
            provider.do_maintenance()
        return version

    base = hundreds("one")
    damaged = history("one", spoiled=True)
    assert "does not match its checksum" in caplog.text
    assert any_executors.images("one") == []
    assert damaged == history("another", spoiled=False)


@pytest.mark.parametrize("formats", [(1, 2), (2, 1)])
def test_so_does_damage_that_a_full_snapshot_meets(
    tmp_path: Path, formats: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    executors = Partition(tmp_path, checkpoint_format_version=formats[0])
    versions = with_image(executors, 3)
    provider = executors.open(checkpoint_format_version=formats[1])
    store = provider.get_store(*versions[3])
    store.put(b"k", b"v")
    (image,) = executors.images()
    damage(image)
    written = ref(store.commit())
    assert "does not match its checksum" in caplog.text
    elsewhere = executors.open("elsewhere", checkpoint_format_version=formats[1])
    assert read(elsewhere, written) == read(provider, written) == {**rows_at(3), b"k": b"v"}
    executors.close()


def test_damage_that_maintenance_meets(any_executors: Partition, caplog: pytest.LogCaptureFixture) -> None:
    versions = with_image(any_executors, 3)
    provider = any_executors.open(min_deltas_for_snapshot=0)
    versions.append(commit(provider, versions[3]))
    (image,) = any_executors.images()
    damage(image)
    provider.do_maintenance()
    assert "does not match its checksum" in caplog.text
    assert path_of(any_executors, versions[4], "snapshot").exists()
    assert read(provider, versions[4]) == read(any_executors.open("elsewhere"), versions[4]) == rows_at(4)


def test_damage_where_the_files_are_gone_is_an_error(executors: Partition) -> None:
    versions = with_image(executors, 3)
    provider = executors.open()
    store = provider.get_store(*versions[3])
    (image,) = executors.images()
    damage(image)
    for path in executors.folder.iterdir():
        path.unlink()
    with pytest.raises(StateStoreError, match=str(executors.folder)):
        store.get(b"key 1")
    with pytest.raises(StateStoreError, match="lost its image"):
        store.get(b"key 1")
    assert read(provider, EMPTY) == {}


def test_damage_of_a_run_that_was_replaced_is_an_error(executors_v1: Partition) -> None:
    """The base that the updates were made for is nowhere any more."""
    versions = with_image(executors_v1, 3)
    store = executors_v1.open().get_store(*versions[3])
    commit(executors_v1.open("elsewhere"), versions[2], {b"other": b"3"})
    (image,) = executors_v1.images()
    damage(image)
    with pytest.raises(StateStoreError, match="written again"):
        store.get(b"key 1")


def test_a_read_store_recovers_too(executors: Partition, caplog: pytest.LogCaptureFixture) -> None:
    versions = with_image(executors, 3)
    provider = executors.open()
    store = provider.get_read_store(*versions[3])
    damage(*executors.images())
    with caplog.at_level(logging.WARNING):
        assert contents(store) == rows_at(3)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


def test_an_image_without_the_index_that_is_asked_for_is_as_good_as_none(
    any_executors: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    def expired(provider: HdfsStateStoreProvider, version: VersionId) -> int:
        with provider.get_read_store(*version) as store:
            return sum(len(batch[0]) for batch in store.expired(1000))

    indexed = {"timeout_offset": INDEXED, "min_deltas_for_snapshot": 0}
    with any_executors.open("host", key_schema=KEY, value_schema=VALUE, min_deltas_for_snapshot=0) as provider:
        store = provider.get_store(0)
        store.put_batch(keys(500), values(500, "base"))
        version = ref(store.commit())
        provider.do_maintenance()
    with (
        any_executors.open("host", key_schema=KEY, value_schema=VALUE, **indexed) as provider,
        caplog.at_level(logging.INFO),
    ):
        assert expired(provider, version) == 500
        assert provider.metrics["localImageHitCount"] == 0
        assert "no index of the longs at 16" in caplog.text
        assert any_executors.images() == []
        version = commit(provider, version)
        provider.do_maintenance()
    assert len(any_executors.images()) == 1
    # What has more than is asked for is used, and stays.
    for more, count in (({}, None), (indexed, 500), ({"timeout_offset": 8}, 0)):
        with any_executors.open("host", **more) as provider:
            if count is None:
                assert len(read(provider, version)) == 501
            else:
                assert expired(provider, version) == count
            assert provider.metrics["localImageHitCount"] == (more != {"timeout_offset": 8})
