"""Migrates the state of Spark's own operator, in checkpoints that real Sparks wrote, or refuses it."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hdfsstore
from hdfsstore import CorruptFileError, MissingFileError, StateStoreError, UnsupportedQueryError
from hdfsstore.checkpoint.state_schema import encode_state_schema
from hdfsstore.spark.querylog import migration, rewind, state_copy
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.querylog.migration import migrate
from hdfsstore.spark.querylog.state_description import settle_state
from hdfsstore.spark.spec import value_schema
from hdfsstore.state.conf import StateStoreConf
from tests.support.rows import counted
from tests.support.truth import DATA
from tests.unit.spark.querylog.spark_checkpoint import CASE, CONF, KEY, LAST, METHOD, STATE, WANTED, a_copy

FORMATS = {
    "format 2": CONF,
    "format 1": replace(CONF, checkpoint_format_version=1),
    "another codec": replace(CONF, compression_codec="zstd", row_checksum_enabled=True),
}


def rows_of(checkpoint: Path, batch_id: int | None = None) -> pa.Table:
    return hdfsstore.Checkpoint(checkpoint).read_state(batch_id=batch_id)


def names(checkpoint: Path) -> set[str]:
    return {str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*") if path.is_file()}


def next_offsets(checkpoint: Path, batch_id: int) -> None:
    """Spark plans a batch of our plan."""
    before = (checkpoint / "offsets" / str(batch_id - 1)).read_text().split("\n")
    times = json.loads(before[1])
    times["batchTimestampMs"] += 1
    (checkpoint / "offsets" / str(batch_id)).write_text("\n".join([before[0], json.dumps(times), *before[2:]]))


@pytest.mark.parametrize(
    ("release", "case"),
    [
        *((release, "apply_in_pandas_with_state") for release in ("3.5.9", "4.0.5", "4.1.4", "4.3.0")),
        *((release, "rocksdb_apply_in_pandas_with_state") for release in ("3.5.9", "4.3.0")),
    ],
)
@pytest.mark.parametrize(
    "conf",
    [
        CONF,
        replace(CONF, checkpoint_format_version=1),
        replace(CONF, compression_codec="zstd", row_checksum_enabled=True),
    ],
    ids=["format 2", "format 1", "another codec"],
)
def test_the_state_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, case: str, conf: StateStoreConf
) -> None:
    monkeypatch.setitem(sys.modules, "rocksdict", None)  # as without the extra
    checkpoint = a_copy(tmp_path, f"spark-{release}/{case}")
    before, last = rows_of(checkpoint), hdfsstore.Checkpoint(checkpoint).latest_batch_id
    entry = (checkpoint / f"offsets/{last}").read_bytes()
    files = {name: (checkpoint / name).read_bytes() for name in names(checkpoint)}
    migrate(str(checkpoint), WANTED, conf, [])
    ours = hdfsstore.Checkpoint(checkpoint / "hdfsstore")
    assert ours.latest_batch_id == last
    assert ours.query_id == hdfsstore.Checkpoint(checkpoint).query_id
    assert counted(ours.read_state()) == counted(before)
    assert before.num_rows > 0
    operator = ours.operator()
    assert (operator.name, operator.store().num_partitions, operator.store().value_type) == (
        METHOD,
        2,
        WANTED.value_type,
    )
    # What Spark looks at when it starts, and what it finds if the user goes back.
    changed = {f"offsets/{last - 1}", f"offsets/{last}"} | ({"state/0/_metadata/metadata"} if release > "4" else set())
    assert (checkpoint / f"offsets/{last}").read_bytes() == entry + b"\n-"
    assert not (checkpoint / "state/0/_metadata/metadata").exists()
    assert all((checkpoint / "hdfsstore/taken-over" / name).read_bytes() == files[name] for name in changed)
    assert all((checkpoint / name).read_bytes() == files[name] for name in files.keys() - changed)
    # The next start, and the next batch.
    migrate(str(checkpoint), WANTED, conf, [])
    state, kept = settle_state(checkpoint, WANTED, conf)
    assert (state, kept) == (replace(WANTED, num_partitions=2), conf)
    log = DriverLog(checkpoint, 2, conf)
    finished = log.last_finished()
    assert finished is not None
    assert (finished.batch_id, finished.next_timeout_ms) == (last, 0)
    next_offsets(checkpoint, last + 1)
    start = log.begin(last + 1)
    ids = [each for (each,) in ours.batch(last).state_unique_ids.get(0, [])]
    assert start.base_ids == (tuple(ids) if conf.checkpoint_format_version == 2 else (None, None))
    for partition_id, unique_id in enumerate(start.base_ids):
        store_id = hdfsstore.StateStoreId(f"{checkpoint}/hdfsstore/state", 0, partition_id)
        with hdfsstore.open_provider(store_id, conf=replace(conf, local_dir=str(tmp_path / "local"))) as provider:
            provider.get_store(last + 1, unique_id).commit()


def test_without_timeouts_the_logs_stay(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    no_timeouts = value_schema(STATE, "NoTimeout")
    family = hdfsstore.Checkpoint(checkpoint).operator().store().column_families[0]
    (checkpoint / "state/0/0/_metadata/schema").write_bytes(
        encode_state_schema([replace(family, value_type=no_timeouts)], 2)
    )
    entry = (checkpoint / f"offsets/{LAST}").read_bytes()
    migrate(str(checkpoint), replace(WANTED, timeout_conf="NoTimeout", value_type=no_timeouts), CONF, [])
    assert (checkpoint / f"offsets/{LAST}").read_bytes() == entry
    finished = DriverLog(checkpoint, 2, CONF).last_finished()
    assert finished is not None
    assert finished.next_timeout_ms is None


def test_a_batch_that_was_not_committed_is_run_by_us(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    before = rows_of(checkpoint, LAST - 1)
    (checkpoint / f"commits/{LAST}").unlink()
    pending = (checkpoint / f"offsets/{LAST}").read_bytes()
    migrate(str(checkpoint), WANTED, CONF, [])
    assert counted(rows_of(checkpoint / "hdfsstore")) == counted(before)
    for batch_id in (LAST - 2, LAST - 1, LAST):
        assert len((checkpoint / f"offsets/{batch_id}").read_text().split("\n")) == 4
    assert (checkpoint / f"hdfsstore/taken-over/offsets/{LAST}").read_bytes() == pending
    assert not DriverLog(checkpoint, 2, CONF).begin(LAST).already_done


@pytest.mark.parametrize("begun", [True, False])
def test_nothing_was_committed(tmp_path: Path, begun: bool) -> None:
    checkpoint = a_copy(tmp_path)
    for path in [*checkpoint.glob("commits/*"), *checkpoint.glob("offsets/*")]:
        if not begun or path.parent.name == "commits" or path.name > "0":
            path.unlink()
    migrate(str(checkpoint), WANTED, CONF, [])
    assert not (checkpoint / "hdfsstore/commits").exists()
    assert not (checkpoint / "state/0/_metadata/metadata").exists()
    if begun:
        assert DriverLog(checkpoint, 2, CONF).begin(0).base_ids == (None, None)


def test_a_state_that_spark_has_not_left_changes_nothing(tmp_path: Path) -> None:
    """As where the query has run with us since, and all of our folder is gone."""
    checkpoint = a_copy(tmp_path)
    for path in checkpoint.glob("state/0/*/[345].*"):  # batch LAST is the third
        path.unlink()
    before = names(checkpoint)
    with pytest.raises(MissingFileError, match=r"batch 2 is committed, .* Put the files back; if the query has run"):
        migrate(str(checkpoint), WANTED, CONF, [])
    assert names(checkpoint) == before


@pytest.mark.parametrize("folder", ["commits", "."])
def test_a_state_that_was_ours_is_not_migrated_again(tmp_path: Path, folder: str) -> None:
    """Files that are lost since are no reason to go back to what Spark's operator has left."""
    checkpoint = a_copy(tmp_path)
    migrate(str(checkpoint), WANTED, CONF, [])
    for path in (checkpoint / "hdfsstore" / folder).rglob("*"):
        if path.is_file():
            path.unlink()
    before = names(checkpoint)
    with pytest.raises(MissingFileError, match=r"migrated from Spark's operator .* Put the files of") as caught:
        migrate(str(checkpoint), WANTED, CONF, [])
    assert caught.value.path == f"{checkpoint}/hdfsstore/commits"
    assert names(checkpoint) == before


def test_nothing_to_migrate(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    shutil.rmtree(checkpoint / "state")
    before = names(checkpoint)
    migrate(str(checkpoint), WANTED, CONF, [])
    migrate(str(tmp_path / "new"), WANTED, CONF, [])
    # Spark's own operators before ours are Spark's affair.
    other = shutil.copytree(DATA / "spark-4.3.0/drop_duplicates/checkpoint", tmp_path / "other")
    kept = names(other)
    migrate(str(other), WANTED, CONF, ["Deduplicate"])
    assert (names(checkpoint), names(other)) == (before, kept)


REFUSED: dict[str, tuple[str, dict[str, Any], tuple[str, ...], str]] = {
    "method": (CASE, {"method": "mapInArrowWithState"}, (), "which keeps its state for itself"),
    "key": (
        CASE,
        {"key_type": STATE},
        (),
        "whose key is struct<k:string>, not struct<total:long>",
    ),
    "state": (
        CASE,
        {"value_type": value_schema(KEY, "EventTimeTimeout")},
        (),
        "whose state is struct<groupState:struct<total:long>,timeoutTimestamp:long>, not "
        "struct<groupState:struct<k:string>,timeoutTimestamp:long not null>",
    ),
    "timeouts": (
        CASE,
        {"value_type": value_schema(STATE, "NoTimeout"), "timeout_conf": "NoTimeout"},
        (),
        "not struct<groupState:struct<total:long>>",
    ),
    "upstream": (CASE, {}, ("Deduplicate",), "and Deduplicate beside it"),
    "aggregation": ("spark-4.3.0/aggregation", {}, (), "Spark's operator stateStoreSave"),
    "two": ("spark-4.3.0/dedup_then_aggregate", {}, (), "beside it"),
    "of the JVM": ("spark-4.3.0/flat_map_groups_with_state", {}, (), "Spark's operator flatMapGroupsWithState"),
    "transformWithState": ("spark-4.3.0/transform_with_state", {}, (), "Spark's operator transformWithState"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path: Path, name: str) -> None:
    case, fields, upstream, message = REFUSED[name]
    checkpoint = a_copy(tmp_path, case)
    before = names(checkpoint)
    with pytest.raises(UnsupportedQueryError) as caught:
        migrate(str(checkpoint), replace(WANTED, **fields), CONF, upstream)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert f"hdfsstore's {fields.get('method', METHOD)} cannot go on from it" in str(caught.value)
    assert names(checkpoint) == before


def change_conf(checkpoint: Path, **confs: str) -> None:
    path = checkpoint / f"offsets/{LAST}"
    version, metadata, *sources = path.read_text().split("\n")
    fields = json.loads(metadata)
    fields["conf"].update({f"spark.sql.streaming.{name.replace('__', '.')}": value for name, value in confs.items()})
    path.write_text("\n".join([version, json.dumps(fields), *sources]))


@pytest.mark.parametrize(
    ("confs", "message"),
    [
        ({"flatMapGroupsWithState__stateFormatVersion": "1"}, "stateFormatVersion=1, not 2"),
        ({"stateStore__encodingFormat": "avro"}, "encodingFormat=avro, not unsaferow"),
        ({"stateStore__providerClass": "com.example.Provider"}, "kept by com.example.Provider"),
    ],
)
def test_states_that_cannot_be_read(tmp_path: Path, confs: dict[str, str], message: str) -> None:
    checkpoint = a_copy(tmp_path)
    change_conf(checkpoint, **confs)
    with pytest.raises(StateStoreError, match=message):
        migrate(str(checkpoint), WANTED, CONF, [])
    assert (checkpoint / "state/0/_metadata/metadata").exists()
    assert not (checkpoint / "hdfsstore/commits").exists()


@pytest.mark.parametrize("release", ["3.5.9", "4.3.0"])
def test_a_partition_s_folder_is_lost(tmp_path: Path, release: str) -> None:
    """Before Spark 4.0 nothing but the conf of the batches says how many partitions there are."""
    checkpoint = a_copy(tmp_path, f"spark-{release}/apply_in_pandas_with_state")
    shutil.rmtree(checkpoint / "state/0/1")
    (checkpoint / "state/0/_metadata/metadata").unlink(missing_ok=True)
    before = names(checkpoint)
    with pytest.raises(MissingFileError, match=r"has written 2 partitions .* is not there\. Put it back") as caught:
        migrate(str(checkpoint), WANTED, CONF, [])
    assert caught.value.path == f"{checkpoint}/state/0/1"
    assert names(checkpoint) == before


def test_the_file_with_the_query_s_id_is_lost(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    (checkpoint / "metadata").rename(tmp_path / "metadata")
    with pytest.raises(MissingFileError, match="the query's id is not there") as caught:
        migrate(str(checkpoint), WANTED, CONF, [])
    assert caught.value.path == f"{checkpoint}/metadata"
    (tmp_path / "metadata").rename(checkpoint / "metadata")
    migrate(str(checkpoint), WANTED, CONF, [])
    assert counted(rows_of(checkpoint / "hdfsstore")) == counted(rows_of(checkpoint, LAST))


@pytest.mark.parametrize(
    "name",
    [
        f"offsets/{LAST}",
        "state/0/_metadata/metadata",
        "state/0/0/_metadata/schema",
        "state/0/0/1.delta",
    ],
)
def test_a_file_of_spark_s_is_damaged(tmp_path: Path, name: str) -> None:
    checkpoint = a_copy(tmp_path)
    (checkpoint / name).write_bytes(b"\xff")
    with pytest.raises(
        CorruptFileError, match="Put it back as Spark has written it; or start the query with a new"
    ) as caught:
        migrate(str(checkpoint), WANTED, CONF, [])
    assert caught.value.path == f"{checkpoint}/{name}"


def test_the_offsets_of_the_committed_batch_are_lost(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    (checkpoint / f"offsets/{LAST}").unlink()
    with pytest.raises(MissingFileError, match="the batch is committed"):
        migrate(str(checkpoint), WANTED, CONF, [])


def test_an_offset_log_that_finds_sources_by_id_needs_no_place_for_the_timeout_source(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    path = checkpoint / f"offsets/{LAST}"
    _, metadata, source = path.read_text().split("\n")
    path.write_text(f"v2\n{metadata}\n0:{source}")
    before, rows = path.read_bytes(), rows_of(checkpoint)
    migrate(str(checkpoint), WANTED, CONF, [])
    assert path.read_bytes() == before
    assert counted(rows_of(checkpoint / "hdfsstore")) == counted(rows)


def test_spark_s_operator_was_used_again(tmp_path: Path) -> None:
    checkpoint = a_copy(tmp_path)
    migrate(str(checkpoint), WANTED, CONF, [])
    kept = checkpoint / "hdfsstore/taken-over/state/0/_metadata/metadata"
    shutil.copy(kept, checkpoint / "state/0/_metadata/metadata")
    with pytest.raises(UnsupportedQueryError, match="two states of the query"):
        migrate(str(checkpoint), WANTED, CONF, [])


class Killed(BaseException):
    pass


def killed_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """From the call after so many that change the checkpoint on, the process is dead."""
    made = 0
    for module in (migration, state_copy, rewind):
        for name in ("publish", "remove"):
            if (real := getattr(module, name, None)) is None:
                continue

            def call(*args: object, real: object = real, **options: object) -> None:
                nonlocal made
                if made == calls:
                    raise Killed
                made += 1
                real(*args, **options)  # type: ignore[operator]

            monkeypatch.setattr(module, name, call)
    monkeypatch.setattr(state_copy, "_THREADS", 1)


def snapshot_of(checkpoint: Path) -> tuple[object, ...]:
    ours = hdfsstore.Checkpoint(checkpoint / "hdfsstore")
    return (
        counted(ours.read_state()),
        {name for name in names(checkpoint) if not name.startswith("hdfsstore")},
        (checkpoint / f"offsets/{LAST}").read_bytes(),
        DriverLog(checkpoint, 2, CONF).last_finished(),
        (checkpoint / "hdfsstore/takeover").exists(),
    )


@pytest.mark.parametrize("calls", range(15))
def test_killed_half_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    checkpoint = a_copy(tmp_path)
    (checkpoint / f"commits/{LAST}").unlink()
    shutil.copytree(checkpoint, tmp_path / "other")
    migrate(str(tmp_path / "other"), WANTED, CONF, [])
    killed_after(monkeypatch, calls)
    with pytest.raises(Killed):
        migrate(str(checkpoint), WANTED, CONF, [])
    monkeypatch.undo()
    migrate(str(checkpoint), WANTED, CONF, [])
    assert snapshot_of(checkpoint) == snapshot_of(tmp_path / "other")


def test_spark_went_on_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as Spark's metadata is there, its query can run on; what it has committed then is migrated."""
    checkpoint = a_copy(tmp_path)
    later = {name: (checkpoint / name).read_bytes() for name in (f"commits/{LAST}", f"offsets/{LAST}")}
    for name in later:
        (checkpoint / name).unlink()
    killed_after(monkeypatch, 5)
    with pytest.raises(Killed):
        migrate(str(checkpoint), WANTED, CONF, [])
    monkeypatch.undo()
    assert list((checkpoint / "hdfsstore/offsets").iterdir())
    for name, content in later.items():
        (checkpoint / name).write_bytes(content)
    migrate(str(checkpoint), WANTED, CONF, [])
    assert counted(rows_of(checkpoint / "hdfsstore")) == counted(rows_of(checkpoint, LAST))
