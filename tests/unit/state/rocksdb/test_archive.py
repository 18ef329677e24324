"""The zips of versions."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
import zlib

import pytest

from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedProviderError, UnsupportedVersionError
from hdfsstore.state.rocksdb.archive import Archive, Sst, belongs, decode, encode, refuse_families
from hdfsstore.state.rocksdb.manifest import LiveFile, live_files
from tests.support.truth import DATA

FILES = {"CURRENT": b"MANIFEST-000005\n", "MANIFEST-000005": bytes(range(256)) * 9, "000004.log": b""}
SSTS = [Sst("000008.sst", "000008-739bca93-a046-4785-9e98-3f697e8d5a5d.sst", 1507)]


def zipped(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        for name, data in files.items():
            target.writestr(name, data)
    return content.getvalue()


def with_metadata(**fields: object) -> bytes:
    return zipped({**FILES, "metadata": b"v1\n" + json.dumps({"sstFiles": [], "numKeys": 3, **fields}).encode()})


@pytest.mark.parametrize("num_keys", [None, 0, 7])
def test_what_was_put_in_comes_out(num_keys: int | None) -> None:
    archive = Archive(FILES, SSTS, num_keys)
    assert decode(encode(archive), "1.zip") == archive


def test_the_metadata_is_sparks() -> None:
    with zipfile.ZipFile(io.BytesIO(encode(Archive(FILES, SSTS, 4)))) as found:
        version, fields = found.read("metadata").decode().split("\n")
    assert version == "v1"
    assert (
        json.loads(fields).items()
        >= {
            "sstFiles": [{"localFileName": SSTS[0].local, "dfsSstFileName": SSTS[0].remote, "sizeBytes": 1507}],
            "numKeys": 4,
            "numInternalKeys": 0,
        }.items()
    )


def test_a_zip_that_is_cut_off_is_damaged() -> None:
    content = encode(Archive(FILES, SSTS, 1))
    for size in range(len(content)):
        with pytest.raises(CorruptFileError, match=r"1\.zip"):
            decode(content[:size], "1.zip")


def test_every_flipped_byte_is_an_error_or_does_no_harm() -> None:
    archive = Archive(FILES, SSTS, 1)
    content = encode(archive)
    for place in range(len(content)):
        flipped = content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :]
        try:
            found = decode(flipped, "1.zip")
        except (CorruptFileError, UnsupportedVersionError):
            continue
        assert set(found.files.values()) == set(FILES.values())


@pytest.mark.parametrize(
    "case",
    [
        "spark-3.5.9/rocksdb_aggregation",
        pytest.param("spark-4.3.0/transform_with_state", marks=pytest.mark.thorough),  # with column families
    ],
)
def test_every_cut_and_every_change_of_a_zip_of_spark_is_found_or_changes_nothing(case: str) -> None:
    """What may change are times, attributes, and the sizes that Java repeats behind each file."""
    content = (DATA / case / "checkpoint/state/0/0/1.zip").read_bytes()

    def read(damaged: bytes) -> tuple[Archive, list[LiveFile]]:
        found = decode(damaged, "1.zip")
        return found, live_files(found.files, "1.zip")

    whole, passed_over = read(content), 0
    assert whole[1]
    for at in range(len(content)):
        with pytest.raises(CorruptFileError, match=r"1\.zip"):
            read(content[:at])
        for change in (1, 0x80, 0xFF):
            try:
                assert read(content[:at] + bytes([content[at] ^ change]) + content[at + 1 :]) == whole, (at, change)
            except StateStoreError as error:
                assert error.path == "1.zip"  # noqa: PT017 - most are found, and all found ones name the file
            else:
                passed_over += 1
    assert 0 < passed_over < len(content)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"v1\n",
        b"v1\n[]",
        b"v1\n{}",
        b"{",
        b'v1\n{"sstFiles":[{}],"numKeys":1}',
        b'v1\n{"sstFiles":[],"numKeys":1e999}',
        b'v1\n{"sstFiles":[],"numKeys":1,"columnFamilyMapping":{"default":32768}}',
        b'v1\n{"sstFiles":[],"numKeys":1,"columnFamilyMapping":{"default":-1}}',
        b'v1\n{"sstFiles":[],"numKeys":1,"columnFamilyMapping":{"default":1,"count":1}}',
    ],
)
def test_metadata_that_makes_no_sense(metadata: bytes) -> None:
    with pytest.raises(CorruptFileError, match="metadata"):
        decode(zipped({"metadata": metadata}), "1.zip")


@pytest.mark.parametrize("compression", [*range(1, 8), 9, 12, 14, 93, 95, 99, 255])
def test_other_compressions(compression: int) -> None:
    content = bytearray(zipped(FILES))
    content[content.index(b"PK\1\2") + 10] = compression
    with pytest.raises(CorruptFileError, match=r"1\.zip"):
        decode(bytes(content), "1.zip")


def zeros(count: int, mebibytes: int, declared: int) -> bytes:
    """A zip of so many files of zeros, each of which declares a size."""
    small = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = bytes(1 << 20)
    body = b"".join([*(small.compress(piece) for _ in range(mebibytes)), small.flush()])
    content, entries = b"", b""
    for i in range(count):
        name = b"%06d.log" % i
        fields = struct.pack("<HHHHHIIIHH", 20, 0, 8, 0, 0, 0, len(body), declared, len(name), 0)
        entries += b"PK\1\2" + struct.pack("<H", 20) + fields + struct.pack("<HHHII", 0, 0, 0, 0, len(content)) + name
        content += b"PK\3\4" + fields + name + body
    return content + entries + struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(entries), len(content), 0)


def test_a_zip_that_would_fill_the_memory() -> None:
    with pytest.raises(CorruptFileError, match="take 335544320 bytes"):
        decode(zeros(5, 64, 64 << 20), "1.zip")


def test_metadata_that_would_fill_the_memory_as_objects() -> None:
    content = with_metadata(more="x" * (8 << 20))
    with pytest.raises(CorruptFileError, match="metadata takes 838"):
        decode(content, "1.zip")


def test_a_file_that_has_more_bytes_than_it_declares_takes_no_memory_for_them() -> None:
    content = zeros(1, 256, 10)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError, match="damaged one"):
            decode(content, "1.zip")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_files_that_are_there_twice() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as target:
        target.writestr("CURRENT", b"MANIFEST-000005\n")
        with pytest.warns(UserWarning, match="Duplicate name"):
            target.writestr("CURRENT", b"MANIFEST-000006\n")
    with pytest.raises(CorruptFileError, match=r"1\.zip: it has the file 'CURRENT' 2 times"):
        decode(content.getvalue(), "1.zip")
    ssts = [{"localFileName": "000008.sst", "dfsSstFileName": f"000008-{n}.sst", "sizeBytes": 7} for n in range(3)]
    with pytest.raises(CorruptFileError, match=r"1\.zip: it names the file '000008\.sst' 3 times"):
        decode(with_metadata(sstFiles=ssts), "1.zip")


def test_files_of_64_bits_and_of_either_compression() -> None:
    metadata = b'v1\n{"sstFiles":[],"numKeys":-1}'
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as target:
        with target.open("metadata", "w", force_zip64=True) as file:
            file.write(metadata)
        target.writestr("CURRENT", b"x" * 500)
        target.writestr("000004.log", b"", zipfile.ZIP_STORED)
    assert decode(content.getvalue(), "1.zip").files == {"CURRENT": b"x" * 500, "000004.log": b""}


@pytest.mark.parametrize("offset", [1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_zip_whose_file_lies_behind_all_numbers(offset: int) -> None:
    content = zipped({"metadata": b"v1\n{}"})
    at, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    extra = struct.pack("<HHQ", 1, 8, offset)  # the offset, in 64 bits
    entry = bytearray(content[at:end] + extra)
    entry[30:32] = struct.pack("<H", len(extra))
    entry[42:46] = b"\xff" * 4
    tail = content[end : end + 12] + struct.pack("<I", len(entry)) + content[end + 16 :]
    with pytest.raises(CorruptFileError, match="zip file"):
        decode(content[:at] + bytes(entry) + tail, "1.zip")


def test_metadata_with_the_checkpoint_format_version_as_spark_4_0_writes_it() -> None:
    content = b'v2\n{"sstFiles":[],"numKeys":7,"columnFamilyMapping":{}}'
    assert decode(zipped({"metadata": content}), "1.zip").num_keys == 7


def test_metadata_of_a_later_version() -> None:
    with pytest.raises(UnsupportedVersionError, match="version v3, not v1 or v2"):
        decode(zipped({"metadata": b"v3\n{}"}), "1.zip")


@pytest.mark.parametrize("name", ["../1.sst", "/tmp/1.sst", "a/1.sst", ".sst", ""])
def test_names_that_lead_out_of_the_folder(name: str) -> None:
    for sst in ((name, "1-a.sst"), ("1.sst", name)):
        fields = {"localFileName": sst[0], "dfsSstFileName": sst[1], "sizeBytes": 1}
        with pytest.raises(CorruptFileError, match="names a file"):
            decode(with_metadata(sstFiles=[fields]), "1.zip")


@pytest.mark.parametrize("families", [{}, {"default": 1}, {"sum": 3, "default": 1, "$count": 2}])
def test_column_families(families: dict[str, int]) -> None:
    found = decode(with_metadata(columnFamilyMapping=families), "1.zip")
    assert found.families == families
    assert decode(encode(found), "2.zip") == found


def test_column_families_are_refused_and_the_default_one_is_none() -> None:
    refuse_families({"default": 1}, "1.zip")
    with pytest.raises(UnsupportedProviderError, match="count, sum"):
        refuse_families({"sum": 3, "default": 1, "count": 2}, "1.zip")


def test_which_files_of_a_rocksdb_go_into_it() -> None:
    there = ["000004.log", "CURRENT", "MANIFEST-000005", "OPTIONS-000007"]
    others = ["000008.sst", "IDENTITY", "LOCK", "LOG", "rocksdict-config.json"]
    assert list(filter(belongs, [*there, *others])) == there
