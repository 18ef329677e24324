import io
import random
import struct
from collections.abc import Callable, Iterator

import lz4.block
import lz4.frame
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore import StateStoreError
from hdfsstore._cext.lz4_block import Lz4BlockReader, Lz4BlockWriter, xxhash32
from hdfsstore.codecs.compression import CODECS, compress, decompress, open_reader, open_writer
from hdfsstore.errors import CorruptFileError, UnsupportedVersionError

# Spark ends a state file by its own mark, so these two streams have none: cut between blocks, they are shorter streams.
WITHOUT_END_MARK = {"snappy", "lzf"}

# Records of a state store: compressible, and more than one block of each codec.
RECORDS = b"".join(
    struct.pack(">i", 24)
    + struct.pack("<qqq", 0, key, key % 7)
    + struct.pack(">i", 8)
    + random.Random(key).randbytes(8)
    for key in range(5_000)
)
NOISE = random.Random(0).randbytes(100_000)
COMPRESSIBLE = st.builds(
    lambda parts: b"".join(byte * n for byte, n in parts),
    st.lists(st.tuples(st.binary(min_size=1, max_size=12), st.integers(1, 3_000)), max_size=12),
)


class Trickle:
    """A raw stream that hands out as many bytes as it likes, at least one until the end."""

    def __init__(self, data: bytes, sizes: Callable[[], int]) -> None:
        self._data = io.BytesIO(data)
        self._sizes = sizes

    def readinto(self, buffer: memoryview) -> int:
        return self._data.readinto(buffer[: self._sizes()])


def read_all(codec: str, raw: object, sizes: Iterator[int]) -> bytes:
    reader = open_reader(codec, raw, path="f")
    result = bytearray()
    while True:
        buffer = bytearray(next(sizes))
        filled = reader.readinto(buffer)
        result += buffer[:filled]
        if filled == 0 and buffer:
            assert reader.readinto(bytearray(10)) == 0
            return bytes(result)
        if filled < len(buffer):
            assert reader.readinto(bytearray(10)) == 0, "a buffer was left unfilled before the end"


def constant(size: int) -> Iterator[int]:
    while True:
        yield size


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(max_size=200_000) | COMPRESSIBLE)
def test_round_trip(codec, data):
    assert decompress(codec, compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", RECORDS, NOISE, bytes(1_000_000), RECORDS[:32_768], RECORDS[:65_536]])
def test_concatenated_streams(codec, data):
    compressed = compress(codec, data)
    if data:
        assert decompress(codec, compressed * 3) == data * 3
    assert decompress(codec, compressed + compress(codec, RECORDS)) == data + RECORDS


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [1, 2, 1_000, 32_767, 32_768, 32_769, 100_000, 1 << 20])
def test_any_buffer_and_any_raw_chunking(codec, size):
    data = RECORDS if size > 2 else RECORDS[:40_000]
    compressed = compress(codec, data)
    choose = random.Random(size)
    for raw_size in (lambda: 1 << 30, lambda: choose.randrange(1, 50), lambda: 21, lambda: 65_536):
        assert read_all(codec, Trickle(compressed, raw_size), constant(size)) == data
    odd = iter(lambda: choose.randrange(0, 2 * size), None)
    assert read_all(codec, io.BytesIO(compressed), odd) == data


@pytest.mark.parametrize("codec", CODECS)
def test_reads_into_any_writable_buffer_and_from_arrow_files(codec, tmp_path):
    (tmp_path / "f").write_bytes(compress(codec, RECORDS))
    with pa.OSFile(str(tmp_path / "f")) as raw:
        buffer = pa.allocate_buffer(len(RECORDS) + 1)
        assert open_reader(codec, raw, path="f").readinto(buffer) == len(RECORDS)
    assert buffer.slice(0, len(RECORDS)).to_pybytes() == RECORDS
    with pytest.raises((BufferError, TypeError, ValueError)):
        open_reader(codec, io.BytesIO(compress(codec, RECORDS)), path="f").readinto(b"read-only")


def decompressed_or_error(codec: str, compressed: bytes) -> bytes | StateStoreError:
    try:
        return decompress(codec, compressed, path="f", max_bytes=1 << 20)
    except StateStoreError as error:
        return error


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [RECORDS[:300], b"a" * 300, NOISE[:50]])
def test_every_cut(codec, data):
    compressed = compress(codec, data) + compress(codec, data[:100])
    whole = data + data[:100]
    for size in range(len(compressed)):
        result = decompressed_or_error(codec, compressed[:size])
        if isinstance(result, StateStoreError):
            assert result.offset is not None
            assert 0 <= result.offset <= size
        else:
            assert whole.startswith(result)
            # Cut between two streams, the first one is whole.
            assert codec in WITHOUT_END_MARK or result == data


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [RECORDS[:300], b"a" * 300, NOISE[:50]])
def test_every_changed_byte(codec, data):
    compressed = compress(codec, data)
    for at in range(len(compressed)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, compressed[at] ^ 1, compressed[at] ^ 0x80} - {compressed[at]}:
            damaged = compressed[:at] + bytes([value]) + compressed[at + 1 :]
            result = decompressed_or_error(codec, damaged)
            # lz4 has checksums: what is not found there is a change that says the same in another way.
            assert codec != "lz4" or result == data or isinstance(result, StateStoreError)


@pytest.mark.parametrize("codec", CODECS)
def test_empty_file_and_other_formats(codec):
    if codec != "lzf":
        with pytest.raises(CorruptFileError, match="cut off") as caught:
            decompress(codec, b"")
        assert caught.value.offset == 0
    for other in CODECS:
        if other != codec:
            with pytest.raises(CorruptFileError):
                decompress(codec, compress(other, RECORDS))


def test_unknown_codec():
    with pytest.raises(StateStoreError, match=f"'none'.*{', '.join(CODECS)}"):
        open_reader("none", io.BytesIO(), path="f")


@pytest.mark.parametrize("name", ["LZ4", "org.apache.spark.io.LZ4CompressionCodec"])
def test_other_names_that_spark_takes(name):
    assert decompress(name, compress("lz4", RECORDS)) == RECORDS
    assert decompress("org.apache.spark.io.ZStdCompressionCodec", compress("zstd", RECORDS)) == RECORDS


@pytest.mark.parametrize("codec", CODECS)
def test_max_bytes(codec):
    compressed = compress(codec, RECORDS)
    assert decompress(codec, compressed, max_bytes=len(RECORDS)) == RECORDS
    with pytest.raises(StateStoreError, match=f"more than {len(RECORDS) - 1} bytes"):
        decompress(codec, compressed, max_bytes=len(RECORDS) - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_an_error_of_the_raw_stream_passes_through(codec):
    class Failing:
        def readinto(self, _: memoryview) -> int:
            raise error

    for error in (OSError(5, "disk on fire"), CorruptFileError("bad checksum file", "f", 512)):
        with pytest.raises(type(error)) as caught:
            open_reader(codec, Failing(), path="f").readinto(bytearray(10))
        assert caught.value is error


# --- lz4-java --------------------------------------------------------------------------------------------------------


def block(body: bytes, raw: bytes, method: int = 0x20, nibble: int = 5, **override: int) -> bytes:
    size, raw_size = override.get("size", len(body)), override.get("raw_size", len(raw))
    check = override.get("check", xxhash32(raw, 0x9747B28C) & 0x0FFFFFFF)
    return b"LZ4Block" + struct.pack("<BiiI", method | nibble, size, raw_size, check) + body


END = b"LZ4Block\x15" + bytes(12)


def lz4_body(raw: bytes) -> bytes:
    return lz4.block.compress(raw, store_size=False)


@given(st.binary(max_size=100), st.integers(0, 2**32 - 1))
def test_xxhash32_is_the_one_of_the_lz4_library(data, seed):
    # An lz4 frame ends with the xxHash32 of its content (seed 0); other seeds: the vectors below.
    frame = lz4.frame.compress(data, content_checksum=True)
    assert struct.unpack("<I", frame[-4:])[0] == xxhash32(data) == xxhash32(data, 0)
    assert 0 <= xxhash32(data, seed) < 2**32


def test_xxhash32_known_values():
    assert xxhash32(b"", 0x9E3779B1) == 0x36B78AE7
    assert xxhash32(b"abc") == 0x32D153FF
    assert xxhash32(b"Nobody inspects the spammish repetition") == 0xE2293B2F
    long = RECORDS[:70_001]
    assert struct.unpack("<I", lz4.frame.compress(long, content_checksum=True)[-4:])[0] == xxhash32(long)


def test_lz4_layout_as_lz4_java_writes_it():
    writer = Lz4BlockWriter(portable=True)  # liblz4 has two ways to compress, and python-lz4 is not Spark's
    compressed = writer.write(RECORDS[:40_000] + NOISE[:20]) + writer.finish()
    first = lz4_body(RECORDS[:32_768])
    second = lz4_body(RECORDS[32_768:40_000] + NOISE[:20])
    assert compressed == block(first, RECORDS[:32_768]) + block(second, RECORDS[32_768:40_000] + NOISE[:20]) + END
    assert compress("lz4", NOISE[:20]) == block(NOISE[:20], NOISE[:20], 0x10) + END
    assert compress("lz4", b"") == END


def test_lz4_raw_and_compressed_blocks_take_turns():
    data = b"".join(part for i in range(20) for part in (NOISE[:32_768], bytes([i]) * 32_768)) + NOISE[:32_768]
    for portable in (False, True):
        writer = Lz4BlockWriter(portable=portable)
        compressed = writer.write(data) + writer.finish()
        assert len(compressed) < 21 * (32_768 + 400)
        assert compressed.count(block(NOISE[:32_768], NOISE[:32_768], 0x10)) == 21
        assert decompress("lz4", compressed) == data


@pytest.mark.parametrize("codec", CODECS)
@given(st.data())
def test_however_it_is_written_the_stream_is_the_same(codec, data):
    content = (RECORDS + NOISE)[: data.draw(st.integers(0, 350_000))]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)) | st.sampled_from([32_768, 65_535, 65_536]))))
    writer = open_writer(codec)
    parts = [writer.write(memoryview(content)[a:b]) for a, b in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    assert b"".join((*parts, writer.finish())) == compress(codec, content)


@pytest.mark.parametrize("codec", CODECS)
def test_a_writer_hands_out_what_is_ready(codec):
    writer = open_writer(codec)
    chance = random.Random(1)
    assert sum(len(writer.write(chance.randbytes(100_000))) for _ in range(10)) > 700_000


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize("nibble", range(16))
def test_lz4_every_block_size(nibble, portable):
    raw = (RECORDS * (1 + (1024 << nibble) // len(RECORDS)))[: 1024 << nibble]
    stream = block(lz4_body(raw), raw, nibble=nibble) + block(raw, raw, 0x10, nibble) + END
    reader = Lz4BlockReader(io.BytesIO(stream), "f", portable=portable)
    buffer = bytearray(2 * len(raw) + 10)
    assert reader.readinto(memoryview(buffer)[:7]) == 7
    assert reader.readinto(memoryview(buffer)[7:]) == 2 * len(raw) - 7
    assert reader.readinto(buffer) == 0
    assert buffer[: 2 * len(raw)] == raw + raw


def drain(reader: Lz4BlockReader, buffer: int) -> None:
    while reader.readinto(bytearray(buffer)):
        pass


GOOD = RECORDS[:3_000]
BODY = lz4_body(GOOD)


@pytest.mark.parametrize("portable", [False, True])
@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (block(BODY, GOOD, check=1), "checksum"),
        (block(BODY, GOOD, check=xxhash32(GOOD, 0x9747B28C) | 0xF0000000), "checksum"),
        (block(BODY[:-1], GOOD), "does not decode"),
        (block(BODY + b"\0", GOOD), "does not decode"),
        (block(BODY, GOOD, raw_size=len(GOOD) - 1), "does not decode"),
        (block(BODY, GOOD, raw_size=len(GOOD) + 1), "does not decode"),
        (block(GOOD, GOOD, method=0x30), "contradicts"),
        (block(GOOD, GOOD, method=0x10, raw_size=len(GOOD) - 1), "contradicts"),
        (block(BODY, GOOD, nibble=1), "contradicts"),
        (block(BODY, GOOD, size=-1), "contradicts"),
        (block(BODY, GOOD, raw_size=-1), "contradicts"),
        (block(BODY, GOOD, size=2**31 - 1, raw_size=2**31 - 1, nibble=15), "contradicts"),
        (block(BODY, GOOD, size=100, raw_size=1 << 25, nibble=15), "contradicts"),
        (block(BODY, GOOD, size=1 << 25, raw_size=1 << 25, nibble=15), "cut off"),
        (block(b"", b"", size=1, check=0), "contradicts"),
        (block(b"", b"", check=1), "contradicts"),
        (block(b"", b"x"), "contradicts|decode"),
        (b"LZ4Blocl" + bytes(13), "begins"),
        (b"LZ4Block", "cut off"),
        (b"", "cut off"),
    ],
)
@pytest.mark.parametrize("buffer", [10, 100_000])
def test_lz4_damage_is_found_and_stays_found(bad, problem, buffer, portable):
    good = block(BODY, GOOD)
    reader = Lz4BlockReader(io.BytesIO(good + bad), "f", portable=portable)
    with pytest.raises(CorruptFileError, match=problem) as caught:
        drain(reader, buffer)
    assert caught.value.path == "f"
    assert caught.value.offset == (len(good) if problem != "cut off" else len(good + bad))
    with pytest.raises(CorruptFileError, match=problem):
        reader.readinto(bytearray(buffer))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 17])
def test_lz4_checks_blocks_of_one_size_together(count):
    for size in (*range(1, 70), 3_000):
        raws = [RECORDS[i * size : (i + 1) * size] for i in range(count)]
        blocks = [block(raw, raw, 0x10) for raw in raws] + [block(GOOD[:50], GOOD[:50], 0x10)]
        assert decompress("lz4", b"".join(blocks) + END) == b"".join(raws) + GOOD[:50]
        for bad in {0, count // 2, count - 1}:
            offset = sum(map(len, blocks[:bad]))
            damaged = bytearray(b"".join(blocks) + b"LZ4 no more")
            damaged[offset + 17] ^= 1
            reader = Lz4BlockReader(io.BytesIO(damaged), "f")
            for _ in range(2):
                with pytest.raises(CorruptFileError, match="checksum") as caught:
                    reader.readinto(bytearray(1 << 20))
                assert caught.value.offset == offset


def test_lz4_never_writes_behind_the_buffer():
    buffer = bytearray(b"\xaa" * 10_000)
    for size in (0, 1, 2_999, 3_000, 5_999, 6_000, 7_000):
        reader = Lz4BlockReader(io.BytesIO(block(BODY, GOOD) * 2 + END), "f")
        assert reader.readinto(memoryview(buffer)[:size]) == min(size, 6_000)
        assert buffer[size:] == b"\xaa" * (10_000 - size)
        buffer[:] = b"\xaa" * 10_000


def test_lz4_raw_stream_that_lies():
    class Lying:
        def readinto(self, buffer: memoryview) -> int:
            return len(buffer) + 1

    with pytest.raises(ValueError, match="returned"):
        Lz4BlockReader(Lying(), "f").readinto(bytearray(10))


# --- snappy, lzf, zstd -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (struct.pack(">i", 0), "0 bytes long"),
        (struct.pack(">i", -1), "-1 bytes long"),
        (struct.pack(">i", 2**31 - 1), "cut off"),
        (struct.pack(">i", 6) + b"\xff\xff\xff\xff\x0fx", "cannot hold"),
        (struct.pack(">i", 6) + b"\xff\xff\xff\xff\xff\x0f", "cannot hold"),
        (struct.pack(">i", 4) + b"\x05\x00aa", "damaged"),
        (b"\x82SNA", "cut off"),
        (b"\x82SNAPPX\0", "not a snappy-java stream"),
    ],
)
def test_snappy_damage(damage, problem):
    good = compress("snappy", GOOD)
    with pytest.raises(CorruptFileError, match=problem) as caught:
        decompress("snappy", good + damage)
    assert len(good) <= caught.value.offset <= len(good + damage)


def test_snappy_of_a_newer_version():
    with pytest.raises(UnsupportedVersionError, match="version 2, this one has 1"):
        decompress("snappy", b"\x82SNAPPY\0" + struct.pack(">ii", 2, 2))
    assert decompress("snappy", b"\x82SNAPPY\0" + struct.pack(">ii", 2, 1)) == b""


@pytest.mark.parametrize(
    ("stream", "raw"),
    [
        (b"ZV\0\0\3abc", b"abc"),
        (b"ZV\1\0\4\0\3\2abc", b"abc"),
        (b"ZV\1\0\4\0\4\0a\x20\0", b"aaaa"),  # a copy that overlaps itself
        (b"ZV\1\0\5\1\x09\0a\xe0\xff\0", b"a" * 265),
        (b"ZV\1\0\5\0\3\2abc", None),
        (b"ZV\1\0\4\0\4\2abc", None),
        (b"ZV\1\0\4\0\2\2abc", None),
        (b"ZV\1\0\2\0\3\x20\0", None),  # a copy from before the start
        (b"ZV\1\0\1\0\3\x20", None),
        (b"ZV\1\0\3\0\3\0a\xe0", None),
        (b"ZV\1\0\0\0\0", None),
        (b"ZV\2\0\3abc", None),
    ],
)
def test_lzf_known_chunks(stream, raw):
    if raw is None:
        with pytest.raises(CorruptFileError):
            decompress("lzf", b"ZV\0\0\1x" + stream)
    else:
        assert decompress("lzf", stream) == raw


def test_zstd_refuses_a_huge_window():
    frame = b"\x28\xb5\x2f\xfd\x00" + bytes([(31 - 10) << 3]) + b"\x01\x00\x00"
    with pytest.raises(CorruptFileError, match="zstd"):
        decompress("zstd", frame)
