"""The fuzz targets of RocksDB's files, and of the rows in them."""

from __future__ import annotations

import array
import io
import zlib
from typing import Any, ClassVar

import lz4.block
import pyarrow as pa

from hdfsstore import Checkpoint
from hdfsstore._cext.crc32c import crc32c
from hdfsstore._cext.sst import Merge
from hdfsstore.checkpoint.row_converter import Converter
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.checkpoint.stored_rows import rows_of_request
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.lineage import read_start
from hdfsstore.codecs.records import RecordChunk, RecordFormat, read_chunks
from hdfsstore.codecs.rocksdb_keys import family_prefix
from hdfsstore.codecs.sst_table import KeyRange, Table, open_table
from hdfsstore.state.rocksdb.archive import decode, encode
from hdfsstore.state.rocksdb.manifest import HEADER, live_files, masked
from tests.fuzz.damage import Input
from tests.fuzz.target import DATA, PATH, Target, records_of, slices
from tests.support import sst_files
from tests.support.changelogs import DELETE, DELETE_RANGE, MERGE, PUT, encode_typed

FAMILY = len(family_prefix(0))  # bytes in front of a key


class Changelogs(Target):
    """Changelogs without a unique id, whose records have types or not; the compression around them is whole."""

    def inputs(self) -> list[Input]:
        typed = [(kind, b"key %d" % kind, None if kind == DELETE else b"value") for kind in (PUT, DELETE, MERGE)]
        return [
            Input("", b"\0\2v2" + encode_typed([*typed, (DELETE_RANGE, b"a", b"b")])),
            Input("", b"\0\2v2" + encode_typed([])),
            Input("", records_of(3, checksums=False, tombstones=True)),
        ]

    def read(self, _: str, data: bytes) -> object:
        answer: list[object] = []
        raw = io.BytesIO(compress("lz4", data))
        for chunk in read_chunks(raw, RecordFormat(), "delta", PATH, lambda reader: read_start(reader, PATH)):
            answer.append(None if chunk.kinds is None else chunk.kinds.to_pybytes())
            answer += slices(chunk.data, chunk.keys) + slices(chunk.data, chunk.values)
        return answer


class SstFiles(Target):
    """SST files, merged with each other.

    Args:
        forged: whether the files have no checksums.
    """

    def __init__(self, *, forged: bool) -> None:
        self._checksum = 0 if forged else sst_files.XXH3
        self._beside = sst_files.sst_of(
            [(sst_files.internal(b"key %02d" % i, 50 + i, sst_files.MERGE), b"operand") for i in range(12)]
        )

    def inputs(self) -> list[Input]:
        entries = [(sst_files.internal(b"key %02d" % i, 90 - i, i % 3), b"value %d" % i) for i in range(10)]
        deletions = [(sst_files.internal(b"key 02", 95, sst_files.RANGE_DELETION), b"key 05")]
        files = DATA.glob("spark-4.3.0/transform_with_state/**/*.sst")
        spark = min(files, key=lambda path: (path.stat().st_size, path.name)).read_bytes()
        of_spark = spark[:-53] + bytes((self._checksum,)) + spark[-52:]
        contents = [of_spark, sst_files.sst_of(entries, deletions, self._checksum), sst_files.sst_of([])]
        many = [(sst_files.internal(b"a key of the number %03d" % i, 90), b"value %d" % i) for i in range(60)]
        contents.append(sst_files.sst_of(many, (), self._checksum, 9, 16, delta_index=True))
        old = sst_files.File(self._checksum)  # of format 1, whose blocks have other sizes in front, or none
        blocks = [sst_files.block_of(entries[:5]), sst_files.block_of(entries[5:])]
        stream = zlib.compressobj(wbits=-15)
        lz4_of_1 = len(blocks[0]).to_bytes(8, "little") + lz4.block.compress(blocks[0], store_size=False)
        handles = [old.add(lz4_of_1, 4), old.add(stream.compress(blocks[1]) + stream.flush(), 2)]
        index = [(entry[0][:-8], handle) for entry, handle in zip(entries[4::5], handles, strict=True)]
        contents.append(old.finish(sst_files.block_of(index), version=1))
        return [Input("", content) for content in contents]

    def read(self, _: str, data: bytes) -> object:
        largest = KeyRange(
            sst_files.internal(b"", sst_files.MAX_SEQUENCE, sst_files.RANGE_DELETION),
            sst_files.internal(b"\xff" * 20, sst_files.MAX_SEQUENCE, sst_files.RANGE_DELETION),
        )
        answer = []
        for first, end in ((None, None), (b"key 03", b"key 07")):
            runs = [[_opened(content, largest)] for content in (data, self._beside)]
            merge = Merge(runs, delimiter=b",", first=first, end=end, chunk_bytes=1)
            while (chunk := merge.read()) is not None:
                answer += zip(*(slices(memoryview(chunk[0]), spans) for spans in chunk[1:]), strict=True)
        return answer


def _opened(data: bytes, keys: KeyRange) -> Table:
    def read(offset: int, size: int) -> bytes:
        return data[offset : offset + size]

    return open_table(PATH, len(data), read, read, 0, keys)


class Manifests(Target):
    """MANIFEST files.

    Args:
        forged: whether the checksums are put right after the damage.
    """

    def __init__(self, *, forged: bool) -> None:
        self._forged = forged

    def inputs(self) -> list[Input]:
        zips = sorted(DATA.glob("spark-*/*/checkpoint/state/**/*.zip"))
        archives = [decode(path.read_bytes(), str(path)) for path in zips]
        contents = {data for archive in archives for name, data in archive.files.items() if name.startswith("MANIFEST")}
        return [Input("", content) for content in sorted(contents, key=lambda content: (len(content), content))[:4]]

    def read(self, _: str, data: bytes) -> object:
        content = _with_right_checksums(data) if self._forged else data
        return live_files({"CURRENT": b"MANIFEST-000001\n", "MANIFEST-000001": content}, PATH)


def _with_right_checksums(manifest: bytes) -> bytes:
    """The same pieces of records, as far as their sizes are those of the file."""
    content, at = bytearray(manifest), 0
    while at + HEADER <= len(content):
        end = at + HEADER + int.from_bytes(content[at + 4 : at + 6], "little")
        content[at : at + 4] = masked(crc32c(bytes(content[at + 6 : end])))
        at = end
    return bytes(content)


class Zips(Target):
    """Zips of versions, up to the list of their files."""

    has_offset = False  # zipfile does not tell where a zip is damaged

    def inputs(self) -> list[Input]:
        zips = sorted(DATA.glob("spark-4.3.0/*/checkpoint/state/**/*.zip"), key=lambda path: path.stat().st_size)
        contents = [path.read_bytes() for path in (zips[0], zips[len(zips) // 2])]
        archive = decode(contents[0], PATH)
        small = {name: content for name, content in archive.files.items() if not name.startswith("OPTIONS")}
        return [Input("", content) for content in (*contents, encode(archive._replace(files=small)))]

    def read(self, _: str, data: bytes) -> object:
        archive = decode(data, PATH)
        return live_files(archive.files, PATH), archive.ssts, archive.families


class RocksDbRows(Target):
    """The key and the value of one record: each layout of keys and kind of value that Spark has in RocksDB."""

    has_path = False  # bytes in memory do not know which file they are from

    WANTED: ClassVar[dict[str, list[dict[str, Any]]]] = {
        "rocksdb_aggregation": [{}],
        "rocksdb_session_window": [{}],
        "rocksdb_row_checksum_zips": [{}],
        "rocksdb_join_format4": [{"join_side": "left"}],
        "transform_structures": [{"state_var": name} for name in ("total", "seen", "times")],
        "transform_row_checksum": [{"state_var": name} for name in ("total", "seen", "times")],
        "transform_event_timers": [{"read_registered_timers": True}],
    }

    def __init__(self) -> None:
        # By origin: what decodes the record, where the key begins, and where it ends.
        self._layouts: dict[str, tuple[Converter, int, int]] = {}

    def inputs(self) -> list[Input]:
        inputs = []
        for case, reads in self.WANTED.items():
            state = Checkpoint(DATA / "spark-4.3.0" / case / "checkpoint").operator_state()
            for read in reads:
                fields = {"join_side": None, "key_schema": None, "value_schema": None, **read}
                request = StateRequest(0, "default", batch_id=None, partitions=None, **fields)
                converter, readers, _ = rows_of_request(state, request)
                start = FAMILY if state.operator.store().has_families else 0
                for partition, reader in readers.items():
                    for chunk in reader.stream(state.version, RecordChunk.copy):
                        (at, size), (value_at, value_size) = (
                            memoryview(spans).cast("B").cast("i")[:2] for spans in (chunk.keys, chunk.values)
                        )
                        origin = f"{case} {read} {partition}"
                        self._layouts[origin] = converter, start, start + size
                        record = chunk.data[at - start : at + size], chunk.data[value_at : value_at + value_size]
                        inputs.append(Input(origin, b"".join(record)))
                        break
        return inputs

    def read(self, origin: str, data: bytes) -> object:
        converter, start, end = self._layouts[origin]
        end = max(min(end, len(data)), start)
        data = data.ljust(start, b"\0")
        keys, values = (
            pa.py_buffer(array.array("i", span).tobytes()) for span in ((start, end - start), (end, len(data) - end))
        )
        rows = converter.of_partition(0)(RecordChunk(memoryview(data), keys, values, PATH, 0))
        rows.validate()
        return pa.Table.from_batches([rows, rows]).combine_chunks()  # touches every buffer
