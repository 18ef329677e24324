"""Tests the description of a query's state: written at the first start, compared at later ones."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

import hdfsstore
from hdfsstore import CorruptFileError, MissingFileError, SchemaMismatchError
from hdfsstore.checkpoint.offset_log import parse_offset_log
from hdfsstore.codecs import types as t
from hdfsstore.fs.location import resolve
from hdfsstore.fs.publish import publish
from hdfsstore.spark.querylog.log_entries import Entry, copied, settings_of
from hdfsstore.spark.querylog.state_description import StateDescription, fits, settle_state, shown
from hdfsstore.spark.spec import value_schema
from hdfsstore.state.conf import StateStoreConf

KEY = t.StructType((t.StructField("user", t.StringType()),))
STATE = t.StructType((t.StructField("n", t.LongType()), t.StructField("at", t.TimestampType(), nullable=False)))
WANTED = StateDescription("mapInArrowWithState", "NoTimeout", KEY, value_schema(STATE, "NoTimeout"), 2)
CONF = StateStoreConf()


def begin(checkpoint: Path, conf: StateStoreConf = CONF) -> None:
    """A batch of the query has begun."""
    fs, root = resolve(checkpoint)
    content = b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n-'
    entry = copied(Entry(content, parse_offset_log(content, "")), settings_of(conf, WANTED.num_partitions))
    publish(fs, f"{root}/hdfsstore/offsets/0", entry.content, overwrite=True)


def test_the_files_are_sparks(tmp_path: Path) -> None:
    assert settle_state(tmp_path, WANTED, CONF) == (WANTED, CONF)
    folder = tmp_path / "hdfsstore/state/0"
    assert (folder / "_metadata/metadata").read_text() == (
        'v1\n{"operatorInfo":{"operatorId":0,"operatorName":"mapInArrowWithState"},"stateStoreInfo":[{"storeName":'
        '"default","numColsPrefixKey":0,"numPartitions":2}],"hdfsstore":{"timeoutConf":"NoTimeout"}}'
    )
    begin(tmp_path)
    operator = hdfsstore.Checkpoint(tmp_path / "hdfsstore").operator()
    assert (operator.name, operator.store().num_partitions) == ("mapInArrowWithState", 2)
    assert (operator.store().key_type, operator.store().value_type) == (KEY, WANTED.value_type)


def test_until_a_batch_has_begun_anything_goes(tmp_path: Path) -> None:
    settle_state(tmp_path, WANTED, CONF)
    other = StateDescription("mapWithState", "EventTimeTimeout", STATE, value_schema(KEY, "EventTimeTimeout"), 5)
    assert settle_state(tmp_path, other, CONF) == (other, CONF)
    begin(tmp_path)
    with pytest.raises(SchemaMismatchError):
        settle_state(tmp_path, WANTED, CONF)


CHANGES = {
    "function": (
        {"method": "mapWithState"},
        "the query's function was mapInArrowWithState, and is mapWithState now",
    ),
    "timeouts": (
        {"timeout_conf": "EventTimeTimeout"},
        "the query's timeoutConf was NoTimeout, and is EventTimeTimeout now",
    ),
    "key": (
        {"key_type": t.StructType((t.StructField("user", t.LongType()),))},
        "the schema of the key was struct<user:string>, and is struct<user:long> now",
    ),
    "state": (
        {"value_type": value_schema(t.StructType(STATE.fields[:1]), "NoTimeout")},
        "the schema of the state was struct<groupState:struct<n:long,at:timestamp not null>>, and is "
        "struct<groupState:struct<n:long>> now",
    ),
    "nullable": (
        {
            "value_type": value_schema(
                t.StructType((STATE.fields[0], replace(STATE.fields[1], nullable=True))), "NoTimeout"
            )
        },
        "at:timestamp not null>>, and is struct<groupState:struct<n:long,at:timestamp>> now",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_refused(tmp_path: Path, change: str) -> None:
    settle_state(tmp_path, WANTED, CONF)
    begin(tmp_path)
    fields, message = CHANGES[change]
    with pytest.raises(SchemaMismatchError) as caught:
        settle_state(tmp_path, replace(WANTED, **fields), CONF)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "new checkpointLocation" in str(caught.value)
    assert settle_state(tmp_path, WANTED, CONF) == (WANTED, CONF)


def test_what_fits_as_in_spark(tmp_path: Path) -> None:
    settle_state(tmp_path, WANTED, CONF)
    begin(tmp_path)
    state = t.StructType((t.StructField("renamed", t.LongType(), nullable=False), STATE.fields[1]))
    now = replace(WANTED, value_type=value_schema(state, "NoTimeout"))
    assert settle_state(tmp_path, now, CONF) == (now, CONF)
    assert hdfsstore.Checkpoint(tmp_path / "hdfsstore").operator().store().value_type == WANTED.value_type


def test_partitions_and_codec_are_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    zstd = replace(CONF, compression_codec="zstd", row_checksum_enabled=True)
    settle_state(tmp_path, WANTED, zstd)
    begin(tmp_path, zstd)
    with caplog.at_level(logging.WARNING, "hdfsstore"):
        assert settle_state(tmp_path, WANTED, zstd) == (WANTED, zstd)
        assert not caplog.records
        assert settle_state(tmp_path, replace(WANTED, num_partitions=7), CONF) == (WANTED, zstd)
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "the state has 2 partitions since the query first started, and keeps them; 7 were asked for",
        "the codec of the state's files stays zstd; lz4 was asked for",
        "the row checksum of the state's files stays True; False was asked for",
    ]


@pytest.mark.parametrize("lost", ["_metadata/metadata", "0/_metadata/schema"])
@pytest.mark.parametrize("content", [None, b"", b"v1", b'v1\n{"operator'])
def test_a_description_that_is_lost_or_damaged(tmp_path: Path, lost: str, content: bytes | None) -> None:
    """The message says where another one comes from."""
    settle_state(tmp_path, WANTED, CONF)
    begin(tmp_path)
    path = tmp_path / "hdfsstore/state/0" / lost
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    remedy = "writes the same file when it is first started, with another checkpointLocation"
    with pytest.raises(MissingFileError if content is None else CorruptFileError, match=remedy) as caught:
        settle_state(tmp_path, WANTED, CONF)
    assert caught.value.path == str(path)
    settle_state(tmp_path / "other", WANTED, CONF)
    path.write_bytes((tmp_path / "other/hdfsstore/state/0" / lost).read_bytes())
    assert settle_state(tmp_path, WANTED, CONF) == (WANTED, CONF)


@pytest.mark.parametrize("content", [b"", b"v1\n", b'v1\n{"batchWatermarkMs"'])
def test_a_damaged_entry_of_the_newest_batch_says_how_to_go_on(tmp_path: Path, content: bytes) -> None:
    settle_state(tmp_path, WANTED, CONF)
    begin(tmp_path)
    (tmp_path / "hdfsstore/offsets/0").write_bytes(content)
    with pytest.raises(CorruptFileError, match=r"delete it and set the query back to batch 0 \(delete Spark's offsets"):
        settle_state(tmp_path, WANTED, CONF)


def test_a_log_that_was_emptied_is_no_new_query(tmp_path: Path) -> None:
    settle_state(tmp_path, WANTED, CONF)
    begin(tmp_path)
    (tmp_path / "hdfsstore/commits").mkdir()
    (tmp_path / "hdfsstore/commits/0").write_text("v1")
    (tmp_path / "hdfsstore/offsets/0").unlink()
    description = tmp_path / "hdfsstore/state/0/_metadata/metadata"
    before = description.read_bytes()
    with pytest.raises(MissingFileError, match=r"batches 0 to 0 are done, but this log has no entry .* back") as caught:
        settle_state(tmp_path, replace(WANTED, timeout_conf="EventTimeTimeout"), CONF)
    assert caught.value.path == str(tmp_path / "hdfsstore/offsets")
    assert description.read_bytes() == before


LONG, STRING = t.LongType(), t.StringType()


@pytest.mark.parametrize(
    ("new", "stored", "whether"),
    [
        (LONG, LONG, True),
        (t.IntegerType(), LONG, False),
        (t.DecimalType(10, 2), t.DecimalType(10, 3), False),
        (t.ArrayType(LONG, False), t.ArrayType(LONG, True), True),
        (t.ArrayType(LONG, True), t.ArrayType(LONG, False), False),
        (t.ArrayType(STRING), t.ArrayType(LONG), False),
        (t.MapType(STRING, LONG, False), t.MapType(STRING, LONG, True), True),
        (t.MapType(STRING, LONG, True), t.MapType(STRING, LONG, False), False),
        (t.MapType(LONG, LONG), t.MapType(STRING, LONG), False),
        (t.MapType(STRING, STRING), t.MapType(STRING, LONG), False),
        (KEY, STATE, False),
        (t.ArrayType(KEY), t.MapType(STRING, LONG), False),
    ],
)
def test_fits(new: t.DataType, stored: t.DataType, whether: bool) -> None:
    assert fits(new, stored) is whether
    struct = [t.StructType((t.StructField("f", part),)) for part in (new, stored)]
    assert fits(*struct) is whether


def test_shown() -> None:
    nested = t.StructType((t.StructField("a", t.ArrayType(KEY)), t.StructField("m", t.MapType(STRING, LONG))))
    assert shown(nested) == "struct<a:array<struct<user:string>>,m:map<string,long>>"
