"""The offset log and the commit log, in each version and damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hdfsstore import CorruptFileError, StateStoreError, UnsupportedVersionError
from hdfsstore.checkpoint.commit_log import read_commit_log
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import read_offset_log
from hdfsstore.fs.local_files import LocalFileManager
from tests.unit.checkpoint.build import put

LOCAL = LocalFileManager()

OFFSETS_V1 = 'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"b"}}\n{"logOffset":2}\n-\n[3, "\u2028"]'
OFFSETS_V2 = (
    'v2\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"b"},'
    '"sourceMetadataInfo":{"clicks":{"sourceId":"clicks","providerName":"rate","apiVersion":"v2"}},'
    '"controlBatchInfo":{"operationType":"x"}}\nclicks:{"logOffset":2}\n1:-\nx:a:b'
)
COMMIT_V3 = (
    'v3\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"0":[["a","b"],["c","d"]]},'
    '"sinkMetadataMap":{"s":{"sinkName":"s","commitOffset":"-","providerName":"p","isActive":true}}}'
)


def test_offsets_of_version_1(tmp_path: Path) -> None:
    entry = read_offset_log(LOCAL, str(put(tmp_path / "3", OFFSETS_V1)))
    assert (entry.version, entry.watermark_ms, entry.timestamp_ms, entry.conf) == (1, 5, 9, {"a": "b"})
    assert entry.offsets == ['{"logOffset":2}', None, '[3, "\u2028"]']
    assert entry.source_ids == ["0", "1", "2"]
    assert entry.source_metadata == entry.control_batch == {}


def test_offsets_of_version_2(tmp_path: Path) -> None:
    entry = read_offset_log(LOCAL, str(put(tmp_path / "3", OFFSETS_V2)))
    assert (entry.version, entry.watermark_ms, entry.timestamp_ms, entry.conf) == (2, 5, 9, {"a": "b"})
    assert dict(zip(entry.source_ids, entry.offsets, strict=True)) == {
        "clicks": '{"logOffset":2}',
        "1": None,
        "x": "a:b",
    }
    assert entry.source_metadata["clicks"]["providerName"] == "rate"
    assert entry.control_batch == {"operationType": "x"}


@pytest.mark.parametrize(
    ("content", "offsets"),
    [
        ("v1\n\n{}", ["{}"]),
        ('v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}\n{}', ["{}"]),
        ("v1\r\n{}\r\n0\r\n", ["0"]),
        ("v1\n", []),
        ("v1", []),
    ],
)
def test_offsets_of_spark_2(tmp_path: Path, content: str, offsets: list[str]) -> None:
    entry = read_offset_log(LOCAL, str(put(tmp_path / "3", content)))
    assert (entry.watermark_ms, entry.timestamp_ms, entry.conf, entry.offsets) == (0, 0, {}, offsets)


@pytest.mark.parametrize("content", ["v1\n{}", "v1", "v1\n", "v2\n{}", "v3\n{}"])
def test_commit_without_fields(tmp_path: Path, content: str) -> None:
    entry = read_commit_log(LOCAL, str(put(tmp_path / "3", content)))
    assert (entry.next_watermark_ms, entry.state_unique_ids, entry.sinks) == (0, {}, {})


def test_commit_of_version_3(tmp_path: Path) -> None:
    entry = read_commit_log(LOCAL, str(put(tmp_path / "3", COMMIT_V3)))
    assert (entry.version, entry.next_watermark_ms) == (3, 7)
    assert entry.state_unique_ids == {0: [["a", "b"], ["c", "d"]]}
    assert entry.sinks["s"]["isActive"] is True


@pytest.mark.parametrize(("read", "version", "newest"), [(read_offset_log, 3, 2), (read_commit_log, 12, 3)])
def test_newer_version(tmp_path: Path, read: Callable[..., object], version: int, newest: int) -> None:
    path = put(tmp_path / "3", f"v{version}\n{{}}")
    with pytest.raises(UnsupportedVersionError, match=rf"version {version} .* version {newest}") as caught:
        read(LOCAL, str(path))
    assert caught.value.path == str(path)


DAMAGED = [
    "", "\n", "v0\n{}", "v\n{}", "1\n{}", "v-1\n{}", "va\n{}", "v1\n{", "v1\n[]", "v1\n3", "v1\n" + "[" * 100_000,
    "v1\n" + '{"a":' * 100_000, "v1\n" + "9" * 10_000, f"v{'9' * 5000}\n{{}}",
]  # fmt: skip
DAMAGED_OFFSETS = [
    'v1\n{"conf":[]}', 'v1\n{"conf":{"a":1}}', 'v1\n{"batchWatermarkMs":"1"}', 'v1\n{"batchWatermarkMs":true}',
    'v1\n{"batchTimestampMs":1e9}', 'v1\n{"batchTimestampMs":92233720368547758080}', "v2\n{}\n{}", "v2\n{}\n-",
    'v2\n{"sourceMetadataInfo":1}',
]  # fmt: skip
DAMAGED_COMMITS = [
    'v2\n{"stateUniqueIds":[]}', 'v2\n{"stateUniqueIds":{"a":[]}}', 'v2\n{"stateUniqueIds":{"0":["a"]}}',
    'v2\n{"stateUniqueIds":{"0":[[1]]}}', 'v1\n{"nextBatchWatermarkMs":null}', 'v3\n{"sinkMetadataMap":"x"}',
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "content"),
    [(read_offset_log, text) for text in DAMAGED + DAMAGED_OFFSETS]
    + [(read_commit_log, text) for text in DAMAGED + DAMAGED_COMMITS],
    ids=lambda value: value[:30] if isinstance(value, str) else value.__name__,
)
def test_damage_is_told_with_the_file(tmp_path: Path, read: Callable[..., object], content: str) -> None:
    path = put(tmp_path / "3", content)
    with pytest.raises(CorruptFileError) as caught:
        read(LOCAL, str(path))
    assert caught.value.path == str(path)
    assert caught.value.offset is not None


def test_offset_of_damage(tmp_path: Path) -> None:
    path = put(tmp_path / "3", 'v1\n{"conf":{"é":"x"},,}')
    with pytest.raises(CorruptFileError) as caught:
        read_offset_log(LOCAL, str(path))
    assert caught.value.offset == path.read_bytes().index(b",,") + 1
    put(path, b"v1\n{}\n\xff")
    with pytest.raises(CorruptFileError, match="UTF-8") as caught:
        read_offset_log(LOCAL, str(path))
    assert caught.value.offset == 6


@pytest.mark.parametrize(
    ("read", "content"),
    [(read_offset_log, OFFSETS_V1), (read_offset_log, OFFSETS_V2), (read_commit_log, COMMIT_V3)],
)
def test_any_changed_or_cut_byte_is_read_or_a_typed_error(
    tmp_path: Path, read: Callable[..., object], content: str
) -> None:
    data = content.encode()
    path = tmp_path / "3"
    blamed = []
    for at in range(len(data)):
        for changed in (data[:at], data[:at] + bytes([data[at] ^ 0x15]) + data[at + 1 :]):
            put(path, changed)
            try:
                read(LOCAL, str(path))
            except StateStoreError as error:
                blamed.append(error.path)
    assert len(blamed) > len(data) // 4
    assert set(blamed) == {str(path)}


def test_only_numbers_are_batches_and_each_file_is_read_once(tmp_path: Path) -> None:
    for name in ["0", "2", "10", ".2.crc", ".4.0f8f.tmp", "..4.0f8f.tmp.crc", "3.tmp", "x", "٣"]:
        put(tmp_path / name, "v1\n{}")
    (tmp_path / "7").mkdir()
    reads: list[str] = []

    def read(_: object, path: str, names: object) -> str:
        assert ".2.crc" in names  # type: ignore[operator]
        reads.append(Path(path).name)
        return Path(path).read_text()

    log: MetadataLog[str] = MetadataLog(LOCAL, str(tmp_path), read)
    listing = log.list()
    assert list(listing.files) == [0, 2, 10]
    assert list(log.read_all(listing, listing.files)) == [0, 2, 10]
    assert log.read(listing, 2) == "v1\n{}"
    assert sorted(reads) == ["0", "10", "2"]
    put(tmp_path / "2", "v1\n{} rewritten")
    assert log.read(log.list(), 2) == "v1\n{} rewritten"


def test_a_file_that_vanishes_after_the_listing(tmp_path: Path) -> None:
    put(tmp_path / "0", "v1\n{}")
    put(tmp_path / "1", "v1\n{}")
    log = MetadataLog(LOCAL, str(tmp_path), read_commit_log)
    listing = log.list()
    (tmp_path / "0").unlink()
    assert log.read(listing, 0) is None
    assert list(log.read_all(listing, listing.files)) == [1]


def test_what_is_purged_from_a_log_is_not_kept_in_memory(tmp_path: Path) -> None:
    log = MetadataLog(LOCAL, str(tmp_path), read_offset_log)
    for batch_id in range(20):
        put(tmp_path / str(batch_id), OFFSETS_V1)
        (tmp_path / str(batch_id - 3)).unlink(missing_ok=True)
        listing = log.list()
        assert list(log.read_all(listing, listing.files)) == list(listing.files)
        assert len(log._entries) == len(listing.files) <= 3
