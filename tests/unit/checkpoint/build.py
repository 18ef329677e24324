"""Builds checkpoints by hand."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hdfsstore import Checkpoint
from tests.support.remote_path import RemotePath

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
KEY = '{"type":"struct","fields":[{"name":"k","type":"string","nullable":true,"metadata":{}}]}'
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_UPLOADS = 8
VALUE = '{"type":"struct","fields":[{"name":"n","type":"long","nullable":false,"metadata":{}}]}'


def opened(root: Any, **options: Any) -> Checkpoint:
    """The checkpoint at a path, which is on a local disk or is a RemotePath."""
    return Checkpoint((root.files, root.path) if isinstance(root, RemotePath) else root, **options)


def put(path: Any, content: str | bytes) -> Any:
    if isinstance(path, Path):
        path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def offsets(root: Any, batch_id: int, sources: str = '{"logOffset":2}', **conf: str) -> None:
    metadata = {"batchWatermarkMs": 5, "batchTimestampMs": 1700000000000, "conf": conf}
    put(root / "offsets" / str(batch_id), f"v1\n{json.dumps(metadata)}\n{sources}")


def change_conf(path: Path, name: str, value: str | None) -> None:
    """Of all batches."""
    for entry in path.glob("offsets/[0-9]*"):
        version, metadata, *sources = entry.read_text().split("\n")
        changed = json.loads(metadata)
        changed["conf"].pop(name)
        if value is not None:
            changed["conf"][name] = value
        entry.write_text("\n".join([version, json.dumps(changed), *sources]))
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def commit(root: Any, batch_id: int, content: str = 'v1\n{"nextBatchWatermarkMs":7}') -> None:
    put(root / "commits" / str(batch_id), content)


def checkpoint(root: Any, batches: int = 2, **conf: str) -> Any:
    """A query with that many committed batches and no state."""
    put(root / "metadata", '{"id":"the-query"}')
    for batch_id in range(batches):
        offsets(root, batch_id, **conf)
        commit(root, batch_id)
    return root


def utf(text: str) -> bytes:
    """Java's writeUTF."""
    return _utf(text.encode("utf-16-be"))


def long_json(text: str, chunk: int = 20_000) -> bytes:
    """A text in pieces of that many UTF-16 units, as schema files of version 2 and later have it."""
    units = text.encode("utf-16-be")
    pieces = [units[at : at + 2 * chunk] for at in range(0, len(units), 2 * chunk)]
    return len(pieces).to_bytes(4, "big") + b"".join(map(_utf, pieces))


def _utf(units: bytes) -> bytes:
    data = b"".join(
        chr(high << 8 | low).encode("utf-8", "surrogatepass") if high or low else b"\xc0\x80"
        for high, low in zip(units[::2], units[1::2], strict=True)
    )
    return len(data).to_bytes(2, "big") + data


def schema_v1(key: str = KEY, value: str = VALUE) -> bytes:
    return utf("v1") + utf(key) + utf(value)


def schema_v2(key: str = KEY, value: str = VALUE) -> bytes:
    return utf("v2") + long_json(key) + long_json(value)


def schema_v3(*names: str, ids: tuple[int, int] | None, user_key: str = "{    }") -> bytes:
    """With the schema ids of Spark 4.0.0 and later, or without them as in its previews."""
    key_id, value_id = (b"", b"") if ids is None else (number.to_bytes(2, "big") for number in ids)
    encoder = '{"keyStateEncoderType":"PrefixKeyScanStateEncoderSpec","numColsPrefixKey":1}'
    families = [
        utf(name)
        + key_id + long_json(KEY)
        + value_id + long_json(VALUE)
        + long_json(encoder) + long_json(user_key)
        for name in names
    ]  # fmt: skip
    return utf("v3") + len(names).to_bytes(4, "big") + b"".join(families)


def operator_metadata(
    *stores: dict[str, object], version: int = 1, name: str = "stateStoreSave", **more: object
) -> str:
    fields = {"operatorInfo": {"operatorId": 0, "operatorName": name}, "stateStoreInfo": list(stores), **more}
    return f"v{version}\n{json.dumps(fields)}"


def store(name: str = "default", **more: object) -> dict[str, object]:
    return {"storeName": name, "numColsPrefixKey": 0, "numPartitions": 3, **more}


def copy_to(source: Path, target: Any) -> None:
    """Copies the files of a local folder to a path as of `opened`."""

    def copy(file: Path) -> None:
        put(target / file.relative_to(source).as_posix(), file.read_bytes())

    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(copy, [path for path in source.rglob("*") if path.is_file()]))
