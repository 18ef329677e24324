"""Runs inside the environment of the newest Spark: what its statestore source reads from the checkpoints.

python -m tests.data.generate.truth FOLDER CASE...
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructType, YearMonthIntervalType

from .borrowed_schema import readable_copy, with_first_version, with_prefixes
from .session import SHUFFLE_PARTITIONS, start, unset

VALIDATION = "spark.sql.streaming.stateStore.formatValidation.enabled"
CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
DEDUPLICATION_VALUES = (["__dummy__"], ["expiresAtMicros"])
# Types whose rows are written as JSON too.
SPECIAL = re.compile(r'"(interval|interval year.*?|interval month|variant)"')


@dataclass(frozen=True)
class Read:
    """One read of the statestore source.

    change_feed: first and last batch. of_few: these are not all batches. nested: lists and maps as they are.
    """

    operator_id: int
    store_name: str
    batch_id: int
    join_side: str | None = None
    change_feed: tuple[int, int] | None = None
    state_variable: str | None = None
    nested: bool = False
    timers: bool = False
    of_few: bool = False

    @property
    def name(self) -> str:
        parts = [f"op{self.operator_id}", self.join_side or self.store_name, self.state_variable]
        parts += ["nested" if self.nested else None, "timers" if self.timers else None]
        changes = "-".join(["changes", *map(str, self.change_feed or ())]) if self.of_few else "changes"
        parts.append(changes if self.change_feed else f"batch{self.batch_id}")
        return "-".join(part for part in parts if part)

    def frame(self, spark: SparkSession, checkpoint: Path) -> DataFrame:
        reader = spark.read.format("statestore").option("operatorId", self.operator_id)
        if self.join_side:
            reader = reader.option("joinSide", self.join_side)
        elif self.store_name != "default":
            reader = reader.option("storeName", self.store_name)
        if self.state_variable:
            reader = reader.option("stateVarName", self.state_variable)
        if self.nested:
            reader = reader.option("flattenCollectionTypes", False)
        if self.timers:
            reader = reader.option("readRegisteredTimers", True)
        if self.change_feed:
            start, end = self.change_feed
            reader = reader.option("readChangeFeed", True).option("changeStartBatchId", start)
            reader = reader.option("changeEndBatchId", end)
        else:
            reader = reader.option("batchId", self.batch_id)
        return reader.load(str(checkpoint))


def batches(log: Path) -> list[int]:
    """The batches of an offset log or commit log."""
    return sorted(int(file.name) for file in log.iterdir() if file.name.isdigit()) if log.is_dir() else []


def committed_batches(checkpoint: Path) -> list[int]:
    """Spark 2.1 has no commit log: all batches of its ended queries are taken as committed."""
    commits = checkpoint / "commits"
    return batches(commits if commits.is_dir() else checkpoint / "offsets")


def stores(operator: Path) -> list[str]:
    """The names of an operator's stores, from its folders."""
    named = {folder.name for folder in operator.glob("[0-9]*/*") if folder.is_dir() and folder.name != "_metadata"}
    return sorted(name for name in named if "-" in name) or ["default"]


def transformations(operator: Path) -> Iterator[dict[str, Any]]:
    """What the files of operator metadata say of a transformWithState, one after the other."""
    for file in sorted((operator / "_metadata" / "v2").glob("[0-9]*"), key=lambda file: int(file.name)):
        properties = json.loads(file.read_text().split("\n", 1)[1]).get("operatorPropertiesJson")
        if properties:
            yield json.loads(properties)


def state_variables(operator: Path) -> dict[str, str]:
    """The state variables of transformWithState and their types."""
    known = (variable for found in transformations(operator) for variable in found.get("stateVariables", []))
    return {variable["stateName"]: variable["stateVariableType"] for variable in known}


def joins_in_one_store(operator: Path) -> bool:
    """Whether it is a join of state format 3 or 4: column families of one store, which are read by side only."""
    files = (operator / "_metadata" / "v2").glob("[0-9]*")
    return any("symmetricHashJoin" in file.read_text(encoding="utf-8") for file in files)


def feeds_between_repartitions(checkpoint: Path, committed: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last batch of each run that has as many partitions as the batch before; none if all have."""
    starts = [batch for batch in committed[1:] if partitions(checkpoint, batch) != partitions(checkpoint, batch - 1)]
    for first, end in zip([committed[0] - 1, *starts], [*starts, committed[-1] + 1], strict=True) if starts else ():
        if first + 1 < end:
            yield first + 1, end - 1


def feed_of_changelogs(operator: Path, committed: list[int]) -> Iterator[tuple[int, int]]:
    """The batches up to the last one that have changelogs, if the first one has none."""
    written = {int(re.split("[_.]", file.name)[0]) - 1 for file in operator.glob("0/*.changelog")}
    first = next((batch for batch in reversed(committed) if batch not in written), -1) + 1
    if written and committed[0] < first <= committed[-1]:
        yield first, committed[-1]


def partitions(checkpoint: Path, batch: int) -> str:
    """How many the offset log says."""
    entry = json.loads((checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").split("\n")[1])
    number: str = entry["conf"][SHUFFLE_PARTITIONS]
    return number


def with_written_folders(checkpoint: Path, batch: int) -> Path:
    """A copy with only the folders of the partitions that the batch wrote: Spark reads whatever folder is there."""
    copy = checkpoint.with_name("readable")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkpoint, copy)
    for folder in copy.glob("state/*/[0-9]*"):
        has_it = int(folder.name) < int(partitions(checkpoint, batch))
        if not has_it or not [*folder.rglob(f"{batch + 1}.*"), *folder.rglob(f"{batch + 1}_*")]:
            shutil.rmtree(folder)
    return copy


def reads(checkpoint: Path) -> Iterator[Read]:
    """Every operator, store and committed batch, both sides of joins, and all changes."""
    committed = committed_batches(checkpoint)
    operators = sorted((f for f in (checkpoint / "state").iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
    for operator in operators:
        names = stores(operator)
        sides = ["left", "right"] if len(names) > 1 or joins_in_one_store(operator) else []
        names = [] if joins_in_one_store(operator) else names
        feed, first = (committed[0], committed[-1]), Read(int(operator.name), "default", committed[-1])
        for variable, kind in (state_variables(operator) or {None: ""}).items():
            timers = kind == "TimerState"
            for name in names:
                read = replace(first, store_name=name, state_variable=None if timers else variable, timers=timers)
                for batch in committed:
                    yield replace(read, batch_id=batch)
                if not timers:  # Spark fails on the first change of one
                    yield replace(read, change_feed=feed)
                    for part in (
                        *feeds_between_repartitions(checkpoint, committed),
                        *feed_of_changelogs(operator, committed),
                    ):
                        yield replace(read, batch_id=part[1], change_feed=part, of_few=True)
                if kind in ("ListState", "MapState"):
                    yield replace(read, nested=True)
                    yield replace(read, nested=True, change_feed=feed)
        for side in sides:
            for batch in committed:
                yield replace(first, batch_id=batch, join_side=side)
            yield replace(first, join_side=side, change_feed=feed)


def write(spark: SparkSession, read: Read, checkpoint: Path, truth: Path, deduplicates: bool) -> dict[str, Any]:
    """Writes the rows of one read and returns its entry in case.json.

    Where Spark refuses the values, its validation is switched off; values of dropDuplicates that are shorter than
    their schema says are left out, as Spark would read beyond them.
    """
    entry: dict[str, Any] = {"file": None, **asdict(read), "read_by": pyspark.__version__}
    try:
        frame = read.frame(spark, checkpoint)
        if deduplicates and frame.schema["value"].dataType.names not in DEDUPLICATION_VALUES:
            entry |= {"keys_only": True, "value_schema": frame.schema["value"].dataType.jsonValue()}
        if "keys_only" in entry and read.change_feed:  # it does not validate
            frame = frame.drop("value")
        write_rows(entry, frame, truth / read.name)
    except Exception as error:  # noqa: BLE001 (what Spark cannot read is a fact to be kept)
        entry["error"] = reason(error)
        if "FORMAT_VALIDATION_FAILURE" in entry["error"]:
            spark.conf.set(VALIDATION, "false")
            entry["format_validation"] = False
            frame = read.frame(spark, checkpoint)
            write_rows(entry, frame.drop("value") if "keys_only" in entry else frame, truth / read.name)
            spark.conf.unset(VALIDATION)
    return entry


def write_rows(entry: dict[str, Any], frame: DataFrame, path: Path) -> None:
    """Adds the schemas to an entry and writes path.arrow, and path.rows.json for the types of SPECIAL."""
    entry |= {f"{part}_schema": frame.schema[part].dataType.jsonValue() for part in row_columns(frame)}
    if entry["join_side"]:
        # The reader's rows have one field more than their schema says (matched), over which to_json falls.
        frame = frame.withColumn(
            "value", F.struct(*[F.col(f"value.`{name}`") for name in frame.select("value.*").columns])
        )
    if not has_map(frame.schema["key"].dataType):
        frame = frame.withColumn("key_hash", F.hash("key"))
    frame = frame.select(*sorted(frame.columns, key=ORDER.index))
    if SPECIAL.search(frame.schema.json()):
        entry["rows"] = f"{path.name}.rows.json"
        parts = [name for name in frame.columns if name != "key_hash"]
        lines = sorted(row[0] for row in frame.select(F.to_json(F.struct(*parts))).collect())
        path.with_name(entry["rows"]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    plain, entry["in_months"] = in_months(by_place(frame))
    table = to_arrow(plain, frame.schema)
    entry["file"], entry["num_rows"] = f"{path.name}.arrow", table.num_rows
    with pa.OSFile(str(path.with_name(entry["file"])), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)


def has_map(schema: StructType) -> bool:
    return '"type":"map"' in schema.json()


def reason(error: Exception) -> str:
    """The innermost cause of an error, without its stack."""
    text = str(error)
    causes = re.findall(r"^\s*(?:Caused by: |: )(.*)$", text, flags=re.MULTILINE)
    return f"{type(error).__name__}: {causes[-1] if causes else text.splitlines()[0]}"[:500]


# The columns of the statestore source. Map and list variables of transformWithState have no value.
ROWS = ["key", "value", "list_element", "user_map_key", "user_map_value"]
ORDER = [
    "batch_id",
    "change_type",
    *ROWS,
    "list_value",
    "map_value",
    "expiration_timestamp_ms",
    "partition_id",
    "key_hash",
]


def row_columns(frame: DataFrame) -> list[str]:
    """The columns of a read that hold whole rows of state."""
    return [name for name in ROWS if name in frame.columns]


def by_place(frame: DataFrame) -> DataFrame:
    """Names the fields of rows by their place, as several may share a name."""
    for part in row_columns(frame):
        types = [field.dataType.simpleString() for field in frame.schema[part].dataType.fields]
        if types:
            struct = ",".join(f"`_{place}`: {written}" for place, written in enumerate(types))
            frame = frame.withColumn(part, F.col(part).cast(f"struct<{struct}>"))
    return frame


def in_months(frame: DataFrame) -> tuple[DataFrame, list[str]]:
    """Turns year-month intervals, which pyarrow does not know, into ints; returns the places of the fields changed."""
    changed = []
    for part in row_columns(frame):
        for field in frame.schema[part].dataType.fields:
            if has_year_month(field.dataType):
                changed.append(f"{part}.{field.name.removeprefix('_')}")
                months = months_of(F.col(part)[field.name], field.dataType)
                frame = frame.withColumn(part, F.col(part).withField(field.name, months))
    return frame, changed


def has_year_month(data_type: DataType) -> bool:
    return "interval year" in data_type.simpleString() or "interval month" in data_type.simpleString()


def months_of(column: Column, data_type: DataType) -> Column:
    """A year-month interval as its months, in arrays too."""
    if isinstance(data_type, ArrayType):
        return F.transform(column, lambda element: months_of(element, data_type.elementType))
    if not isinstance(data_type, YearMonthIntervalType):
        raise TypeError(f"year-month intervals in {data_type.simpleString()}: add it here")
    return (F.extract(F.lit("YEAR"), column) * 12 + F.extract(F.lit("MONTH"), column)).cast("int")


def to_arrow(frame: DataFrame, named: StructType) -> pa.Table:
    """The rows in one batch, the fields of rows with their names back.

    The batches are taken as the JVM wrote them: toArrow adds checks that refuse variants and calendar intervals.
    """
    table = pa.Table.from_batches(frame._collect_as_arrow(empty_list_if_zero_records=False)).combine_chunks()
    for part in [name for name in ROWS if name in table.column_names]:
        names = named[part].dataType.names
        if names:
            place = table.schema.get_field_index(part)
            (column,) = table.column(place).chunks or [pa.array([], table.schema.field(place).type)]
            fields = [column.type.field(i).with_name(name) for i, name in enumerate(names)]
            values = [column.field(i) for i in range(len(names))]
            rows = pa.StructArray.from_arrays(values, fields=fields, mask=column.is_null())
            table = table.set_column(place, pa.field(part, rows.type), rows)
    return table


def state_metadata(spark: SparkSession, checkpoint: Path) -> list[dict[str, Any]]:
    """What Spark's state-metadata source says; empty before Spark 4.0."""
    rows = [row.asDict() for row in spark.read.format("state-metadata").load(str(checkpoint)).collect()]
    return sorted(rows, key=lambda row: (row["operatorId"], row["stateStoreName"]))


def describe(spark: SparkSession, folder: Path) -> list[dict[str, Any]]:
    """Writes the truth of one case; returns its reads."""
    checkpoint, truth = folder / "checkpoint", folder / "truth"
    shutil.rmtree(truth, ignore_errors=True)
    truth.mkdir()
    about = json.loads((folder / "case.json").read_text(encoding="utf-8"))
    names, output = about.pop("operator_names"), about.pop("output", None)
    if output is not None:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in output]
        (truth / "output.rows.json").write_text("".join(lines), encoding="utf-8")
    for conf, value in about["confs"].items():
        spark.conf.set(conf, value)  # unique ids are read only where the session asks for them
    if about["spark"].startswith("2."):
        about["borrowed_schema"], readable = True, readable_copy(checkpoint, about["case"], about["spark"])
    elif about["spark"].startswith("3.") and about["case"] == "rocksdb_session_window":
        about["borrowed_prefix"], readable = True, with_prefixes(checkpoint)
    elif about["spark"].startswith("4.0.") and about["confs"].get(CHECKPOINT_FORMAT) == "2":
        about["borrowed_version"], readable = True, with_first_version(checkpoint)
    else:
        readable = checkpoint
    committed = committed_batches(checkpoint)
    changed = len({partitions(checkpoint, batch) for batch in committed}) > 1 if about["spark"][0] > "2" else False
    if changed:
        about["borrowed_folders"] = True

    def folders_for(read: Read) -> Path:
        return with_written_folders(checkpoint, read.batch_id) if changed else readable

    deduplicates = about["case"].removeprefix("rocksdb_").startswith("drop_duplicates")
    about |= {
        "operators": [
            {"operator_id": number, "operator_name": name, "stores": stores(checkpoint / "state" / str(number))}
            for number, name in enumerate(names)
        ],
        "committed_batches": committed,
        "unfinished_batches": [batch for batch in batches(checkpoint / "offsets") if batch not in committed],
        "state_metadata": state_metadata(spark, checkpoint),
        "reads": [write(spark, read, folders_for(read), truth, deduplicates) for read in reads(checkpoint)],
    }
    unset(spark, about["confs"])
    (truth / "case.json").write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return about["reads"]


def main(folder: Path, names: list[str]) -> None:
    spark = start(folder, None, {"spark.sql.timeType.enabled": "true"})
    for name in names:
        done = describe(spark, folder / name)
        errors = [f"{read['operator_id']} {read['store_name']}: {read['error']}" for read in done if "error" in read]
        print(f"read {name}: {len(done)} reads, {len(errors)} failed", *sorted(set(errors)), sep="\n  ", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
