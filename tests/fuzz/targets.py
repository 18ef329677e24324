"""What is damaged, and how it is read."""

from __future__ import annotations

import array
import io
import random
import shutil
import struct
import tempfile
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa

import hdfsstore
from hdfsstore._cext.versioned_map import Image, Merger, PrefixPlan, VersionedMap
from hdfsstore.checkpoint.state_schema import parse_state_schema
from hdfsstore.codecs.compression import CODECS, Reader, compress, decompress
from hdfsstore.codecs.lineage import LineageItem, encode_header, read_header
from hdfsstore.codecs.records import FileKind, RecordFormat, Start, read_chunks
from hdfsstore.codecs.unsafe_row import RowCodec
from tests.fuzz.damage import Input
from tests.fuzz.rocksdb_targets import Changelogs, Manifests, RocksDbRows, SstFiles, Zips
from tests.fuzz.target import DATA, PATH, Target, records_of, slices
from tests.support.maps import image_of, with_right_checksums

MAX_BYTES = 64 << 20
PLAN: PrefixPlan = (2, b"\0")  # of rows of two longs, the first of which is the prefix


class Codec(Target):
    def __init__(self, codec: str) -> None:
        self._codec = codec
        self.exact = codec == "lz4"

    def inputs(self) -> list[Input]:
        chance = random.Random(self._codec)
        records = records_of(20, checksums=False)
        contents = [b"x", b"ab" * 200, records, chance.randbytes(100), records[:100] + bytes(400) + records[:300]]
        # More than a block of each codec; cuts and changes of it are too many to try them all.
        contents.append(bytes(chance.choices(b"\0\0\1abc", k=70_000)))
        return [Input("", compress(self._codec, content)) for content in contents]

    def read(self, _: str, data: bytes) -> object:
        return decompress(self._codec, data, path=PATH, max_bytes=MAX_BYTES)


class Records(Target):
    """Delta and snapshot records; the compression around them is whole."""

    def __init__(self, *, row_checksums: bool) -> None:
        self.exact = row_checksums
        self._format = RecordFormat("lz4", row_checksums=row_checksums, max_record_bytes=1 << 20)

    def inputs(self) -> list[Input]:
        checksums = self._format.row_checksums
        return [
            Input("delta", records_of(10, checksums=checksums, tombstones=True)),
            Input("snapshot", records_of(10, checksums=checksums)),
            Input("delta", records_of(0, checksums=checksums)),
        ]

    def read(self, origin: str, data: bytes) -> object:
        kind: FileKind = "delta" if origin == "delta" else "snapshot"
        answer = []
        for chunk in read_chunks(io.BytesIO(compress("lz4", data)), self._format, kind, PATH):
            keys, values = (slices(chunk.data, spans) for spans in (chunk.keys, chunk.values))
            answer += zip(keys, values, strict=True)
        return answer


class Lineages(Target):
    """Deltas with a unique id: the lineage in front of the records; the compression around them is whole."""

    VERSION = 12

    def inputs(self) -> list[Input]:
        chance = random.Random("lineages")
        items = [LineageItem(v, str(uuid.UUID(int=chance.getrandbits(128)))) for v in range(5, self.VERSION)]
        return [Input("", encode_header(items[n:]) + records_of(3, checksums=False)) for n in (0, 5, len(items))]

    def read(self, _: str, data: bytes) -> object:
        answer: list[object] = []

        def header(reader: Reader) -> Start:
            lineage, start = read_header(reader, PATH, self.VERSION)
            answer.extend(lineage)
            return start

        for chunk in read_chunks(io.BytesIO(compress("lz4", data)), RecordFormat(), "delta", PATH, header):
            answer += slices(chunk.data, chunk.keys)
        return answer


class Rows(Target):
    """Single UnsafeRows of every type that the types_* checkpoints have."""

    has_path = False  # a row does not know which file it is from

    def __init__(self) -> None:
        self._codecs: dict[str, RowCodec] = {}

    def inputs(self) -> list[Input]:
        inputs = []
        for checkpoint in sorted(DATA.glob("spark-*/types_*/checkpoint")):
            for file in sorted(checkpoint.glob("state/0/0/**/_metadata/schema")):
                family = parse_state_schema(file.read_bytes(), str(file))[0]
                schemas = {f"{file}/key": family.key_type, f"{file}/value": family.value_type}
                self._codecs |= {name: RowCodec(schema) for name, schema in schemas.items()}
                delta = min(file.parents[1].glob("*.delta"))
                with delta.open("rb") as raw:
                    for chunk in read_chunks(raw, RecordFormat(), "delta", str(delta)):
                        for name, spans in zip(schemas, (chunk.keys, chunk.values), strict=True):
                            rows = [row for row in slices(chunk.data, spans) if row is not None]
                            inputs += [Input(name, row) for row in rows[:4]]
        return inputs

    def read(self, origin: str, data: bytes) -> object:
        spans = pa.py_buffer(array.array("i", (0, len(data), 0, -1)).tobytes())
        rows = self._codecs[origin].decode(data, spans)
        rows.validate()
        return pa.concat_arrays([rows, rows])  # touches every buffer


class Images(Target):
    """Image files of the versioned map, and everything that a transaction reads and writes on top of them.

    Args:
        forged: whether the checksums are put right after the damage.
    """

    def __init__(self, *, forged: bool) -> None:
        self.exact = not forged
        self._forged = forged
        self._rows = [struct.pack("<qqq", 0, i % 5, i) for i in range(100)]

    def inputs(self) -> list[Input]:
        inputs = []
        for checksums in (False, True):
            for count in (0, 1, 100):
                rows = {row: row * (row[8] % 3) for row in self._rows[:count]}
                image = image_of(rows, row_checksums=checksums, prefix=PLAN, timeout_offset=16)
                inputs.append(Input("", b"".join(image.parts(b"metadata"))))
        return inputs

    def read(self, _: str, data: bytes) -> object:
        if self._forged:
            data = with_right_checksums(data)
        image = Image.open(pa.py_buffer(data), PATH)
        transaction = VersionedMap(image).transaction(0)
        keys = pa.array([*self._rows, b"absent"], pa.binary())
        answer = [image.metadata, image.num_keys, transaction.get_many(keys).to_pylist()]
        if image.prefix is not None:  # else the damage is in the header, and was forged
            for prefix in range(6):
                answer += [column.to_pylist() for column in transaction.prefix_scan(struct.pack("<qq", 0, prefix))]
        answer += [transaction.remove_many(keys[::3]), transaction.put_many(keys[::2], keys[::2])]
        if image.timeout_offset is not None:
            answer += [column.to_pylist() for batch in transaction.expired(70, 20) for column in batch]
            answer.append(transaction.next_expiry())
        answer += [column.to_pylist() for batch in transaction.scan(1000) for column in batch]
        merger = Merger(image, [transaction.seal()], prefix=PLAN, timeout_offset=16)
        while (chunk := merger.read()) is not None:
            answer.append(bytes(chunk))
        while merger.build():
            continue
        merged = VersionedMap(merger.finish()).transaction(0)
        batches = [*merged.scan(), *merged.expired(70, 20), merged.prefix_scan(struct.pack("<qq", 0, 3))]
        return [*answer, *(column.to_pylist() for batch in batches for column in batch)]


class Schemas(Target):
    """State schema files."""

    def inputs(self) -> list[Input]:
        files = sorted(
            [*DATA.glob("spark-*/*/checkpoint/state/*/0/**/_metadata/schema"), *DATA.rglob("_stateSchema/*/*")]
        )
        contents = dict.fromkeys(file.read_bytes() for file in files if file.is_file() and file.suffix != ".crc")
        return [Input("", content) for content in sorted(contents, key=lambda content: (len(content), content))[:12]]

    def read(self, _: str, data: bytes) -> object:
        return parse_state_schema(data, PATH)


class Checkpoints(Target):
    """Whole checkpoints with one damaged file. With the checksum files that Hadoop left, any damage has to be found."""

    has_offset = False  # some of the files are text, and some errors are about two files
    HDFS: ClassVar = ("aggregation", "codec_zstd", "row_checksum", "session_window", "query_evolution", "join_inner")
    ROCKSDB: ClassVar = (
        *("rocksdb_aggregation", "rocksdb_codec_zstd", "rocksdb_row_checksum_zips", "rocksdb_unique_ids_snapshots"),
        *("rocksdb_range_deletions_in_changelogs", "rocksdb_changelog_later", "rocksdb_ingested"),
    )

    def __init__(self, cases: Sequence[str], *, checksum_files: bool) -> None:
        self._cases = cases
        self._changes = cases is self.HDFS  # many versions of RocksDB have a zip alone
        self.exact = checksum_files
        self._checksum_files = checksum_files
        self._folder = Path(tempfile.mkdtemp(prefix="hdfsstore-fuzz-"))
        self._whole: dict[str, bytes] = {}
        self._answers: dict[Path, object] = {}

    def inputs(self) -> list[Input]:
        # Of each case the one of the newest Spark.
        for checkpoint in (max(DATA.glob(f"spark-*/{case}/checkpoint")) for case in self._cases):
            copy = self._folder / checkpoint.parent.parent.name / checkpoint.parent.name
            shutil.copytree(checkpoint, copy)
            for file in sorted(path for path in copy.rglob("*") if path.is_file()):
                hadoops = file.name.startswith(".") and file.suffix == ".crc"
                if hadoops and not self._checksum_files:
                    file.unlink()
                elif "sources" not in file.relative_to(copy).parts:
                    self._whole[str(file.relative_to(self._folder))] = file.read_bytes()
        return [Input(name, data) for name, data in self._whole.items()]

    def read(self, origin: str, data: bytes) -> object:
        checkpoint = self._folder.joinpath(*Path(origin).parts[:2])
        if data == self._whole[origin]:
            if checkpoint not in self._answers:
                self._answers[checkpoint] = _read_everything(checkpoint, self.exact, self._changes)
            return self._answers[checkpoint]
        (self._folder / origin).write_bytes(data)
        try:
            return _read_everything(checkpoint, self.exact, self._changes)
        finally:
            (self._folder / origin).write_bytes(self._whole[origin])

    def close(self) -> None:
        shutil.rmtree(self._folder)


def _read_everything(path: Path, compare: bool, with_changes: bool) -> object:
    checkpoint = hdfsstore.Checkpoint(path)
    answer: list[object] = [checkpoint.query_id, checkpoint.batches, checkpoint.latest_batch_id]
    for operator in checkpoint.operators:
        for store in operator.stores:
            answer += [store.key_schema, store.value_schema]
            tables = [checkpoint.read_state(operator.operator_id, store.name)]
            if with_changes:
                last = checkpoint.latest_batch_id
                tables.append(checkpoint.read_changes(last, last, operator.operator_id, store.name))
            for table in tables:
                table.validate()
                answer.append(_rows(table) if compare else table.nbytes)
    for error in checkpoint.damaged:  # what a power cut may leave of a log's newest entry hides nothing else
        raise error
    return answer


def _rows(table: pa.Table) -> list[str]:
    """The rows in an order of their own. Structs are taken apart, as fields may have one name."""
    columns = [array.to_pylist() for column in table.flatten().flatten().columns for array in [column.combine_chunks()]]
    return sorted(map(repr, zip(*columns, strict=True)))


TARGETS: dict[str, Callable[[], Target]] = {
    **{codec: lambda codec=codec: Codec(codec) for codec in CODECS},
    "records": lambda: Records(row_checksums=False),
    "changelogs": Changelogs,
    "checked_records": lambda: Records(row_checksums=True),
    "lineages": Lineages,
    "sst_files": lambda: SstFiles(forged=False),
    "forged_sst_files": lambda: SstFiles(forged=True),
    "manifests": lambda: Manifests(forged=False),
    "forged_manifests": lambda: Manifests(forged=True),
    "zips": Zips,
    "rocksdb_rows": RocksDbRows,
    "rows": Rows,
    "images": lambda: Images(forged=False),
    "forged_images": lambda: Images(forged=True),
    "schemas": Schemas,
    "checkpoints": lambda: Checkpoints(Checkpoints.HDFS, checksum_files=False),
    "checked_checkpoints": lambda: Checkpoints(Checkpoints.HDFS, checksum_files=True),
    "rocksdb_checkpoints": lambda: Checkpoints(Checkpoints.ROCKSDB, checksum_files=False),
    "checked_rocksdb_checkpoints": lambda: Checkpoints(Checkpoints.ROCKSDB, checksum_files=True),
}
