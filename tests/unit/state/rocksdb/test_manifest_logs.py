"""Edits of a MANIFEST made by hand, and the logs beside it: those of Spark have no changes, or records without any."""

from __future__ import annotations

import struct
from itertools import count

import pytest

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.errors import CorruptFileError, SizeLimitError, UnsupportedProviderError
from hdfsstore.state.rocksdb import manifest
from hdfsstore.state.rocksdb.archive import decode
from hdfsstore.state.rocksdb.manifest import live_files
from tests.support.sst_files import MAX_SEQUENCE, internal, varint
from tests.support.truth import DATA

ZIP = next((DATA / "spark-4.0.0/transform_with_state/checkpoint/state/0/0").glob("1.zip"))
FILES = decode(ZIP.read_bytes(), "1.zip").files
OF_SPARK_3_2 = bytes.fromhex("0fa926660c0001030000000000000000000000")


def log_of(batch: bytes, kind: int = 1) -> bytes:
    crc = crc32c(bytes((kind,)) + batch)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<IHB", masked, len(batch), kind) + batch


def test_records_without_updates_are_passed_over() -> None:
    assert log_of(struct.pack("<QI", 3, 0)) == OF_SPARK_3_2
    expected = live_files(FILES, "1.zip")
    for content in (b"", OF_SPARK_3_2, OF_SPARK_3_2 * 3):
        assert live_files({**FILES, "000042.log": content}, "1.zip") == expected


@pytest.mark.parametrize(
    "batch", [struct.pack("<QI", 3, 1) + b"\1\1k\1v", struct.pack("<QI", 3, 0) + b"\1\1k\1v", b"x"]
)
def test_updates_are_refused(batch: bytes) -> None:
    with pytest.raises(UnsupportedProviderError, match=r"000042.log has changes"):
        live_files({**FILES, "000042.log": OF_SPARK_3_2 + log_of(batch)}, "1.zip")


@pytest.mark.parametrize("kind", [0, 9, 10, 130, 255])
@pytest.mark.parametrize("name", ["000042.log", "MANIFEST-000005"])
def test_pieces_of_other_types_are_refused_by_name(kind: int, name: str) -> None:
    """Of the types behind 8, the first is that of a log that is compressed, and others are of logs with timestamps."""
    content = FILES.get(name, b"") + log_of(b"\0" * 4, kind)
    with pytest.raises(UnsupportedProviderError, match=f"the type {kind}") as caught:
        live_files({**FILES, name: content}, "1.zip")
    assert (caught.value.path, caught.value.offset) == (f"1.zip:{name}", len(FILES.get(name, b"")))


@pytest.mark.parametrize("place", range(len(OF_SPARK_3_2)))
def test_damage(place: int) -> None:
    content = bytearray(OF_SPARK_3_2)
    content[place] ^= 1
    with pytest.raises(CorruptFileError):
        live_files({**FILES, "000042.log": bytes(content)}, "1.zip")


def edit_of(
    number: int,
    smallest: bytes = internal(b"a"),
    largest: bytes = internal(b"b"),
    *,
    more: bytes = b"",
    level: int = 6,
    sequence: int = 1,
) -> bytes:
    """An edit that adds a file."""
    return log_of(new_file(103, number, smallest, largest, level=level, sequence=sequence) + more)


def new_file(
    tag: int,
    number: int = 11,
    smallest: bytes = internal(b"a"),
    largest: bytes = internal(b"b"),
    *,
    path: bytes = b"",
    fields: bytes = b"",
    level: int = 6,
    sequence: int = 1,
) -> bytes:
    keys = b"".join(bytes((len(key),)) + key for key in (smallest, largest))
    end = fields + b"\1" if tag == 103 else b""
    return bytes((tag, level, number)) + path + b"\x0a" + keys + varint(sequence) * 2 + end


def numbers(*edits: bytes) -> list[int]:
    files = {"CURRENT": b"MANIFEST-000001\n", "MANIFEST-000001": log_of(b"\3\2") + b"".join(edits)}
    return [file.number for file in live_files(files, "1.zip")]


def follow(edits: int) -> bytes:
    return varint(300) + varint(edits)


def test_edits_of_a_group_count_together() -> None:
    one, two = edit_of(11, more=follow(1), level=1), edit_of(12, more=follow(0), level=2)
    assert numbers(one, two, edit_of(13, level=3)) == [11, 12, 13]
    assert numbers(one) == numbers() == []
    for edits in ([one, edit_of(13, level=3)], [one, one], [edit_of(11, more=follow(2)), two]):
        with pytest.raises(CorruptFileError, match="group"):
            numbers(*edits)


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (b"\1\x20leveldb.BytewiseComparator.u64ts", r"comparator leveldb\.BytewiseComparator\.u64ts"),
        (varint(400) + bytes(6), "blob files"),
        (varint(401) + bytes(3), "blob files"),
        (varint(200) + b"\1", "column families of RocksDB"),
        (varint(8191) + b"\0", "the tag 8191"),
        (new_file(103, fields=varint(65) + b"\1\1"), "files in several folders"),
        (new_file(103, fields=varint(66) + b"\0"), "the field 66"),
        (new_file(102, path=b"\1"), "files in several folders"),
    ],
)
def test_edits_that_spark_cannot_make_are_refused_by_name(edit: bytes, named: str) -> None:
    """The first comparator is that of user-defined timestamps."""
    with pytest.raises(UnsupportedProviderError, match=named) as caught:
        numbers(log_of(edit))
    assert caught.value.path == "1.zip:MANIFEST-000001"


def test_files_of_a_level_that_share_a_key() -> None:
    """RocksDB before release 7 may end a file between two entries of a key."""
    newer = edit_of(12, internal(b"k", 20), internal(b"k", 15), sequence=20)
    older = edit_of(11, internal(b"k", 10), internal(b"z", 3), sequence=10)
    assert numbers(older, newer) == numbers(newer, older) == [12, 11]


def test_sequence_numbers_above_all_others() -> None:
    """A file that had them would be newer than the changelogs."""
    assert numbers(edit_of(11, sequence=MAX_SEQUENCE)) == [11]
    with pytest.raises(CorruptFileError, match="impossible sequence"):
        numbers(edit_of(11, sequence=MAX_SEQUENCE + 1))


def deletion_of(number: int, level: int = 6) -> bytes:
    return bytes((6, level, number))


def test_files_that_are_moved_deleted_and_added_again() -> None:
    add, delete = edit_of(11), log_of(deletion_of(11))
    assert numbers(add, edit_of(11, level=2, more=deletion_of(11))) == [11]
    assert numbers(add, delete) == numbers(add, log_of(deletion_of(11) * 2)) == []
    assert numbers(add, delete, add) == [11]


@pytest.mark.parametrize(
    ("edits", "named"),
    [
        ([edit_of(11), edit_of(11)], "adds the file 11, which is there already"),
        ([log_of(deletion_of(11))], "deletes the file 11 of level 6, which is not there"),
        ([edit_of(11), log_of(deletion_of(11, 5))], "deletes the file 11 of level 5, which is not there"),
        ([edit_of(11, level=64)], "impossible level or key"),
        ([edit_of(11, internal(b"c"), internal(b"b"))], "impossible level or key"),
        ([edit_of(11, b"\0" * 7)], "impossible level or key"),
        ([edit_of(11), edit_of(12)], "the files 11 and 12 of level 6 overlap"),
        ([log_of(b"\4" + b"\xff" * 9 + b"\2")], "ends within a number"),
        ([log_of(varint(8192 + 77) + b"\5abc")], "ends within a text"),
    ],
)
def test_edits_that_make_no_sense(edits: list[bytes], named: str) -> None:
    with pytest.raises(CorruptFileError, match=named) as caught:
        numbers(*edits)
    assert (caught.value.path, caught.value.remedy is not None) == ("1.zip:MANIFEST-000001", True)


def test_edits_that_may_be_passed_over() -> None:
    """A tag of a later RocksDB, the number of the only column family, and the highest one that there was."""
    edits = [varint(8192 + 77) + b"\3abc", varint(200) + b"\0", varint(203) + b"\5", b"\4" + b"\xff" * 9 + b"\1"]
    assert numbers(*map(log_of, edits), edit_of(11, more=edits[0])) == [11]


@pytest.mark.parametrize("name", ["000042.log", "MANIFEST-000005"])
def test_a_file_of_more_pieces_than_any_real_one_takes_no_minutes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = FILES.get(name, b"")
    piece = OF_SPARK_3_2 if name.endswith(".log") else log_of(b"")
    monkeypatch.setattr(manifest, "_MOST_PIECES", 100)
    logs = sum(pieces_of(log) for log in FILES if log.endswith(".log"))
    of_manifest = pieces_of("MANIFEST-000005")
    live_files({**FILES, name: content + piece * (100 - logs - of_manifest)}, "1.zip")
    with pytest.raises(SizeLimitError, match="more than 100 pieces") as caught:
        live_files({**FILES, name: content + piece * 200}, "1.zip")
    room = 100 - logs - (0 if name.endswith(".log") else of_manifest)
    assert (caught.value.path, caught.value.offset) == (f"1.zip:{name}", len(content) + len(piece) * room)
    assert caught.value.remedy


def pieces_of(name: str) -> int:
    return len(list(manifest._records(FILES[name], name, count(1))))


def test_pieces_of_several_files_count_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_MOST_PIECES", 100)
    logs = {f"0000{n}.log": OF_SPARK_3_2 * 40 for n in range(40, 43)}
    with pytest.raises(SizeLimitError, match="more than 100 pieces") as caught:
        live_files({**FILES, **logs}, "1.zip")
    assert caught.value.path == "1.zip:000042.log"


def test_a_group_of_more_edits_than_any_real_one_takes_no_memory() -> None:
    assert numbers(*(log_of(follow(1023 - n)) for n in range(1024)), edit_of(11)) == [11]
    with pytest.raises(SizeLimitError, match="a group of 1025 edits") as caught:
        numbers(log_of(follow(1024)))
    assert caught.value.path == "1.zip:MANIFEST-000001"
    assert caught.value.remedy


@pytest.mark.parametrize("in_one", [True, False])
def test_edits_of_more_numbers_than_any_real_ones_take_no_minutes(
    in_one: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "MANIFEST-000005"
    edits = log_of(b"\3\5" * 1000) if in_one else log_of(b"\3\5") * 1000
    live_files({**FILES, name: FILES[name] + edits}, "1.zip")
    monkeypatch.setattr(manifest, "_MOST_NUMBERS", 1000)
    live_files(FILES, "1.zip")
    with pytest.raises(SizeLimitError, match="more than 1000 numbers") as caught:
        live_files({**FILES, name: FILES[name] + edits}, "1.zip")
    assert caught.value.path == f"1.zip:{name}"
    assert caught.value.offset is not None
    assert caught.value.remedy
