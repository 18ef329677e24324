"""Makes the state of old Sparks readable for the statestore source, in a copy of the checkpoint.

No Spark before 3.0 writes the schema file that it wants. Spark 2.1 has no commit log either, and no confs in its
offset log. Spark 4.0 gives the metadata in zips another version.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

from pyspark.sql.types import StructType

from .session import PARTITIONS

KEYS = {
    "aggregation": [("k", "string")],
    "drop_duplicates": [("k", "string")],
    "window_aggregation": [("window", "struct<start: timestamp, end: timestamp>"), ("k", "string")],
}
VALUES = {
    "aggregation": [("count", "long"), ("sum", "long"), ("count", "long"), ("sum", "double")],
    "drop_duplicates": [("__dummy__", "void")],
    "window_aggregation": [("count", "long"), ("sum", "double")],
}
CONFS = f',"conf":{{"spark.sql.shuffle.partitions":"{PARTITIONS}"}}}}'


def struct(fields: list[tuple[str, str]]) -> StructType:
    result = StructType()
    for name, written in fields:
        result.add(name, StructType.fromDDL(f"field {written.replace('long', 'bigint')}")["field"].dataType)
    return result


def write_utf(text: str) -> bytes:
    """Java's DataOutput.writeUTF of ASCII text."""
    return len(text).to_bytes(2, "big") + text.encode("ascii")


def readable_copy(checkpoint: Path, case: str, spark: str) -> Path:
    """A copy of a checkpoint of Spark 2 with a schema file (version 1), confs and a commit log."""
    copy = checkpoint.with_name("readable")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkpoint, copy)
    key, value = KEYS[case], VALUES[case]
    if spark < "2.4":  # aggregation state format 1 repeats the key in the value
        value = key + value
    metadata = copy / "state" / "0" / "0" / "_metadata"
    metadata.mkdir()
    parts = ["v1", struct(key).json(), struct(value).json()]
    (metadata / "schema").write_bytes(b"".join(write_utf(part) for part in parts))
    commits = copy / "commits"
    if not commits.exists():
        commits.mkdir()
        for file in (copy / "offsets").glob("[0-9]*"):
            (commits / file.name).write_text('v1\n{"nextBatchWatermarkMs":0}', encoding="utf-8")
            file.write_text(file.read_text(encoding="utf-8").replace("}\n", f"{CONFS}\n", 1), encoding="utf-8")
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    return copy


def with_prefixes(checkpoint: Path) -> Path:
    """A copy of a session window's checkpoint of RocksDB with the operator metadata of Spark 4.

    Spark 3 keeps none, without which the statestore source does not know that keys have a prefix of one column.
    """
    copy = checkpoint.with_name("readable")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkpoint, copy)
    metadata = copy / "state" / "0" / "_metadata" / "metadata"
    metadata.parent.mkdir()
    operator = {"operatorId": 0, "operatorName": "sessionWindowStateStoreSaveExec"}
    store = {"storeName": "default", "numColsPrefixKey": 1, "numPartitions": PARTITIONS}
    content = {"operatorInfo": operator, "stateStoreInfo": [store]}
    metadata.write_text(f"v1\n{json.dumps(content)}", encoding="utf-8")
    return copy


def with_first_version(checkpoint: Path) -> Path:
    """A copy of a checkpoint of Spark 4.0 with unique ids, in whose zips the metadata is in version 1.

    Spark 4.0 wrote the same in version 2, which no other Spark reads.
    """
    copy = checkpoint.with_name("readable")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkpoint, copy)
    for path in copy.glob("state/**/*.zip"):
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
        files["metadata"] = b"v1\n" + files["metadata"].removeprefix(b"v2\n").removeprefix(b"v1\n")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return copy
