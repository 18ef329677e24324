"""State variables, timers and joins in column families, row for row as Spark read them."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hdfsstore
from hdfsstore._cext import rocksdb_rows
from hdfsstore.checkpoint.join_state import SIDES
from hdfsstore.checkpoint.row_converter import RowConverter
from hdfsstore.checkpoint.state_variables import MAP, StateVariable, VariableConverter
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.types import IntegerType, StringType, StructField, StructType
from hdfsstore.errors import SchemaMismatchError, StateStoreError
from tests.support.rows import comparable, counted
from tests.support.truth import DATA, Read, family_reads, few_reads

STRUCTURES = DATA / "spark-4.3.0/transform_structures/checkpoint"
IN_AVRO = DATA / "spark-4.3.0/transform_avro/checkpoint"
TIMERS = DATA / "spark-4.3.0/transform_event_timers/checkpoint"


def ours(read: Read, **options: Any) -> pa.Table:
    checkpoint = hdfsstore.Checkpoint(read.case.checkpoint)
    facts = read.facts
    options = {
        "operator_id": facts["operator_id"],
        "store_name": facts["store_name"],
        "state_var": facts["state_variable"],
        **options,
    }
    if facts["change_feed"]:
        return checkpoint.read_changes(*facts["change_feed"], **options)
    options |= {
        "batch_id": facts["batch_id"],
        "join_side": facts["join_side"],
        "flatten_collections": not facts.get("nested"),
        "read_registered_timers": bool(facts.get("timers")),
    }
    return checkpoint.read_state(**options)


# Spark's change feed of timers has the columns of their state, and fails at the first row.
READS = [read for read in family_reads() if not (read.facts.get("timers") and read.facts["change_feed"])]


@pytest.mark.parametrize("read", few_reads(READS), ids=str)
def test_rows_are_sparks(read: Read) -> None:
    table, expected = ours(read), read.rows
    table.validate(full=True)
    expected = expected.drop_columns([name for name in expected.column_names if name == "key_hash"])
    assert table.column_names == expected.column_names
    assert counted(comparable(table)) == counted(comparable(expected))


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("variable", ["total", "seen", "times"])
@pytest.mark.parametrize("path", [STRUCTURES, IN_AVRO], ids=["unsafe", "avro"])
def test_a_stream_and_one_key_after_the_other_have_the_same_rows(path: Path, variable: str, flatten: bool) -> None:
    checkpoint = hdfsstore.Checkpoint(path)
    options: dict[str, Any] = {"state_var": variable, "flatten_collections": flatten}
    table = checkpoint.read_state(**options)
    with checkpoint.open_state(**options) as reader:
        assert counted(comparable(reader.read_all())) == counted(comparable(table))
    keys = {repr(key): key for key in table["key"].to_pylist()}
    found = [checkpoint.read_state(**options, key=key) for key in keys.values()]
    assert all(len(rows) for rows in found)
    assert counted(comparable(pa.concat_tables(found))) == counted(comparable(table))
    assert not len(checkpoint.read_state(**options, key={"k": "no such key"}))
    with pytest.raises(SchemaMismatchError, match="no key of the store"):
        checkpoint.read_state(**options, key={"other": 1})


@pytest.mark.parametrize(
    ("case", "commas"),
    [
        ("spark-4.3.0/transform_merge_operator_1", True),
        ("spark-4.3.0/transform_merge_operator_2", False),
        ("spark-4.1.4/transform_structures", True),  # its offset log names no merge operator
    ],
)
def test_merged_values_are_joined_as_the_offset_log_says(
    case: str, commas: bool, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / case / "checkpoint")
    state = checkpoint.operator_state(0)
    with_comma = without = 0
    for partition_id in (0, 1):
        reader = state.reader(state.operator.store(), partition_id, "seen")
        for chunk in reader.stream(state.version, RecordChunk.copy):
            *_, a, b = rocksdb_rows.elements(pa.py_buffer(chunk.data), chunk.values, True, True)
            with_comma, without = with_comma + a, without + b
    assert (with_comma > 0, without > 0) == (commas, not commas)
    checkpoint.read_state(state_var="seen")
    assert "another tool" not in caplog.text


@pytest.mark.parametrize("variable", ["total", "seen", "times"])
@pytest.mark.parametrize("case", ["transform_structures", "transform_structures_zips"])
def test_of_one_key_no_other_row_is_decoded(case: str, variable: str, decoded: list[int]) -> None:
    """A map has a stored row for each entry, and a list one for all elements."""
    checkpoint = hdfsstore.Checkpoint(DATA / f"spark-4.3.0/{case}/checkpoint")
    table = checkpoint.read_state(state_var=variable)
    of_all = sum(decoded)
    keys = {repr(key): key for key in table["key"].to_pylist()}
    for key in keys.values():
        decoded.clear()
        found = checkpoint.read_state(state_var=variable, key=key)
        assert sum(decoded) == (len(found) if variable == "times" else 1)
        assert sum(decoded) < of_all


def test_one_key_with_row_checksums() -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / "spark-4.3.0/transform_row_checksum_zips/checkpoint")
    table = checkpoint.read_state(state_var="seen")
    rows = checkpoint.read_state(state_var="seen", key=table["key"][0].as_py())
    assert 0 < len(rows) <= len(table)


def test_the_timers_of_one_key() -> None:
    checkpoint = hdfsstore.Checkpoint(TIMERS)
    table = checkpoint.read_state(read_registered_timers=True)
    key = table["key"][0].as_py()
    rows = checkpoint.read_state(read_registered_timers=True, key=key)
    assert rows["expiration_timestamp_ms"].to_pylist() == [
        row["expiration_timestamp_ms"] for row in table.to_pylist() if row["key"] == key
    ]


def test_names_that_do_not_exist() -> None:
    checkpoint = hdfsstore.Checkpoint(STRUCTURES)
    with pytest.raises(StateStoreError, match=r"no state variable 'count'.*seen, times, total"):
        checkpoint.read_state(state_var="count")
    with pytest.raises(StateStoreError, match="seen, times, total: give state_var"):
        checkpoint.read_state()
    with pytest.raises(StateStoreError, match="no timers"):
        checkpoint.read_state(read_registered_timers=True)
    with pytest.raises(StateStoreError, match=r"no state variable '\$eventTimers"):
        hdfsstore.Checkpoint(TIMERS).read_state(state_var="$eventTimers_keyToTimestamp")
    with pytest.raises(StateStoreError, match="no state variable"):
        hdfsstore.Checkpoint(TIMERS).read_state(state_var="count", read_registered_timers=True)
    with pytest.raises(StateStoreError, match="no state variables"):
        hdfsstore.Checkpoint(DATA / "spark-4.3.0/aggregation/checkpoint").read_state(state_var="count")
    for schema in ("key_schema", "value_schema"):
        with pytest.raises(StateStoreError, match=r"_stateSchema/.*without column families"):
            checkpoint.read_state(state_var="total", **{schema: pa.schema([("n", pa.int64())])})
        with pytest.raises(StateStoreError, match="without column families"):
            hdfsstore.Checkpoint(DATA / "spark-4.3.0/rocksdb_join_format4/checkpoint").read_state(
                join_side="left", **{schema: pa.schema([("n", pa.int64())])}
            )
    evolved = hdfsstore.Checkpoint(DATA / "spark-4.3.0/transform_avro_evolved/checkpoint")
    with pytest.raises(StateStoreError, match=r"_stateSchema/.*no state variable 'fresh' at batch 0.*seen, times"):
        evolved.diff(0, 3, state_var="fresh")
    with pytest.raises(StateStoreError, match="no stream-stream join"):
        checkpoint.read_state(join_side="left")
    with pytest.raises(StateStoreError, match="no side 'upper'"):
        hdfsstore.Checkpoint(DATA / "spark-4.3.0/rocksdb_join_format4/checkpoint").read_state(join_side="upper")


@pytest.mark.parametrize("case", ["rocksdb_join_format3", "rocksdb_join_format4"])
def test_what_is_not_read_of_a_join_names_its_sides(case: str) -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / f"spark-4.3.0/{case}/checkpoint")
    for options in ({}, {"state_var": "left-keyToNumValues"}, {"read_registered_timers": True}):
        with pytest.raises(StateStoreError, match=r"_stateSchema/.*stream-stream join.*join_side is left or right"):
            checkpoint.read_state(**options)
    with pytest.raises(StateStoreError, match=r"no store 'left-keyToNumValues'.*give join_side"):
        checkpoint.read_state(store_name="left-keyToNumValues")
    with pytest.raises(StateStoreError, match=r"_stateSchema/.*changes .* stream-stream join\. Give diff or history"):
        checkpoint.read_changes(0, 1)
    with pytest.raises(StateStoreError, match=r"no single one of them.*Leave the key or the join side out"):
        checkpoint.read_state(join_side="left", key={"field0": "a"})


@pytest.mark.parametrize(
    ("case", "arguments"),
    [("transform_structures", {"state_var": "seen"}), ("rocksdb_join_format4", {"join_side": "left"})],
)
def test_a_schema_file_that_is_missing_or_cut(case: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(DATA / f"spark-4.3.0/{case}/checkpoint", tmp_path / "checkpoint"))
    (schema,) = copy.glob("state/0/_stateSchema/default/[0-9]*")
    schema.with_name(f".{schema.name}.crc").unlink()
    for content, error in ((schema.read_bytes()[:-20], hdfsstore.CorruptFileError), (None, hdfsstore.MissingFileError)):
        schema.unlink()
        if content:
            schema.write_bytes(content)
        checkpoint = hdfsstore.Checkpoint(copy)
        for read in (checkpoint.read_state, partial(checkpoint.history, {}), partial(checkpoint.diff, 0, 1)):
            with pytest.raises(error) as caught:
                read(**arguments)
            assert caught.value.path == str(schema)
            assert caught.value.remedy
    with pytest.raises(hdfsstore.MissingFileError):
        hdfsstore.Checkpoint(copy).read_changes(0, 1, state_var=arguments.get("state_var"))


@pytest.mark.parametrize(
    "arguments", [{}, {"state_var": "seen"}, {"read_registered_timers": True}], ids=["none", "variable", "timers"]
)
def test_a_checkpoint_that_has_lost_the_metadata_of_its_operator(arguments: dict[str, Any], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(STRUCTURES, tmp_path / "checkpoint"))
    shutil.rmtree(copy / "state/0/_metadata")
    with pytest.raises(StateStoreError, match="no metadata of the operator, which would name its state variables") as e:
        hdfsstore.Checkpoint(copy).read_state(**arguments)
    assert e.value.remedy is not None
    assert e.value.remedy.endswith("restore state/0/_metadata")


@pytest.mark.parametrize("case", ["rocksdb_join_format3_outer", "rocksdb_join_format4_outer"])
@pytest.mark.parametrize("side", SIDES)
def test_a_join_that_has_lost_the_metadata_of_its_operator(case: str, side: Any, tmp_path: Path) -> None:
    """The schema file names the column families, and so the join."""
    copy = Path(shutil.copytree(DATA / "spark-4.3.0" / case / "checkpoint", tmp_path / "checkpoint"))
    expected = hdfsstore.Checkpoint(copy).read_state(join_side=side)
    assert expected.num_rows
    shutil.rmtree(copy / "state/0/_metadata")
    (copy / "state/0/_stateSchema/.DS_Store").touch()  # of somebody who has looked at it
    checkpoint = hdfsstore.Checkpoint(copy)
    assert checkpoint.read_state(join_side=side) == expected
    with pytest.raises(StateStoreError, match=r"that of a stream-stream join.*join_side is left or right"):
        checkpoint.read_state()
    shutil.rmtree(copy / "state/0/_stateSchema")
    with pytest.raises(StateStoreError, match="has lost state/0/_metadata and state/0/_stateSchema"):
        hdfsstore.Checkpoint(copy).read_state(join_side=side)


@pytest.mark.parametrize("batch_id", [0, 1, 2, 3])
def test_without_the_metadata_of_its_operator_a_batch_has_the_schemas_that_were_written_up_to_it(
    batch_id: int, tmp_path: Path
) -> None:
    evolved = DATA / "spark-4.3.0/transform_avro_evolved/checkpoint"
    copy = Path(shutil.copytree(evolved, tmp_path / "checkpoint"))
    expected = hdfsstore.Checkpoint(copy).operator(0, batch_id).store()
    shutil.rmtree(copy / "state/0/_metadata")
    found = hdfsstore.Checkpoint(copy).operator(0, batch_id).store()
    assert (found.schema_paths, found.column_families) == (expected.schema_paths, expected.column_families)


def test_rows_of_a_schema_whose_file_is_missing(tmp_path: Path) -> None:
    evolved = DATA / "spark-4.3.0/transform_avro_evolved/checkpoint"
    copy = Path(shutil.copytree(evolved, tmp_path / "checkpoint"))
    (oldest,) = copy.glob("state/0/_stateSchema/default/0_*")
    oldest.unlink()
    with pytest.raises(StateStoreError, match=r"has schema id 0, .* have 1 .*Restore the schema file of that id"):
        hdfsstore.Checkpoint(copy).read_state(state_var="seen")


def test_the_entries_of_a_map_in_several_batches() -> None:
    key = StructType((StructField("k", StringType()),))
    number = StructType((StructField("n", IntegerType()),))
    composite = StructType((StructField("key", key), StructField("userKey", number)))
    converter = VariableConverter(RowConverter(composite, number), StateVariable("m", MAP), flatten=False)
    flat = converter.flat_schema

    def batch(rows: list[tuple[str | None, int]]) -> pa.RecordBatch:
        columns = [[{"k": k} for k, _ in rows], *([{"n": n} for _, n in rows] for _ in "kv"), [0] * len(rows)]
        return pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, flat, strict=True)], schema=flat
        )

    parts = [[], [(None, 1)], [(None, 2), ("a", 3)], [("a", 4)], [("a", 5)], [("b", 6), ("c", 7)], []]
    table = pa.Table.from_batches(converter.finish(map(batch, parts)), converter.schema)
    table.validate(full=True)
    assert [(row["key"]["k"], [k["n"] for k, _ in row["map_value"]]) for row in table.to_pylist()] == [
        (None, [1, 2]),
        ("a", [3, 4, 5]),
        ("b", [6]),
        ("c", [7]),
    ]
    assert not list(converter.finish(map(batch, [[], []])))
