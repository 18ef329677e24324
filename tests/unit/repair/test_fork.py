"""fork on the checkpoints that Sparks left: the rows of a batch, alone and whole, in a new checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import Checkpoint
from hdfsstore.errors import RepairError, RepairUnderWayError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import resolve
from hdfsstore.fs.temporary_names import temporary_name
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.limits import Limits
from hdfsstore.repair.new_checkpoint import NewCheckpoint, _uri_of
from hdfsstore.repair.plan import Report
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.source import Source
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import edit, fork
from hdfsstore.state.base import key_part
from tests.support.truth import DATA, Case, cases, few_cases
from tests.unit.repair.folders import content
from tests.unit.repair.states import raw_rows

SPARK = DATA / "spark-4.3.0"
UNFINISHED = SPARK / "unfinished_batch" / "checkpoint"


@pytest.mark.parametrize("case", few_cases(cases()), ids=str)
def test_the_rows_are_the_same(case: Case, tmp_path: Path) -> None:
    report = fork(case.checkpoint, tmp_path / "new", drop_begun=True)
    assert isinstance(report, Report)
    rows = raw_rows(case.checkpoint)
    assert raw_rows(tmp_path / "new") == rows
    counts = [store.rows_out for operator in report.operators for store in operator.stores]
    assert sum(count or 0 for count in counts) == sum(each.total() for each in rows.values())
    old, new = Checkpoint(case.checkpoint), Checkpoint(tmp_path / "new")
    assert [(o.operator_id, o.name, [s.name for s in o.stores]) for o in new.operators] == [
        (o.operator_id, o.name, [s.name for s in o.stores]) for o in old.operators
    ]
    batch, copied = old.batch(old.latest_batch_id), new.batch(new.latest_batch_id)
    assert (copied.conf, copied.offsets, copied.watermark_ms) == (batch.conf, batch.offsets, batch.watermark_ms)
    assert new.query_id != old.query_id
    assert not list((tmp_path / "new").rglob("*.tmp"))


def test_an_older_batch(tmp_path: Path) -> None:
    fork(SPARK / "aggregation" / "checkpoint", tmp_path / "new", batch_id=1, keep_query_id=True)
    new = Checkpoint(tmp_path / "new")
    assert [batch.batch_id for batch in new.batches] == [0, 1]
    assert new.latest_batch_id == 1
    assert new.query_id == Checkpoint(SPARK / "aggregation" / "checkpoint").query_id
    assert raw_rows(tmp_path / "new") == raw_rows(SPARK / "aggregation" / "checkpoint", 1)


def test_paths_of_schemas_lead_into_the_new_checkpoint(tmp_path: Path) -> None:
    fork(SPARK / "transform_unique_ids" / "checkpoint", tmp_path / "new")
    content = (tmp_path / "new/state/0/_metadata/v2/0").read_text().split("\n")[1]
    (schema,) = json.loads(content)["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert schema.startswith(f"file:{tmp_path}/new/state/0/_stateSchema/default/0_")
    assert Path(schema.removeprefix("file:")).is_file()


def test_a_begun_batch_needs_a_word(tmp_path: Path) -> None:
    with pytest.raises(RepairError, match=r"batch 3 was begun.*--drop-begun"):
        fork(UNFINISHED, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    fork(UNFINISHED, tmp_path / "dropped", drop_begun=True)
    fork(UNFINISHED, tmp_path / "kept", keep_begun=True)
    fork(UNFINISHED, tmp_path / "older", batch_id=1)
    assert [
        sorted(p.name for p in (tmp_path / name / "offsets").iterdir()) for name in ("dropped", "kept", "older")
    ] == [
        ["1", "2"],
        ["1", "2", "3"],
        ["0", "1"],
    ]
    with pytest.raises(RepairError, match="not both"):
        fork(UNFINISHED, tmp_path / "both", drop_begun=True, keep_begun=True)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").write_text("mine")
    with pytest.raises(RepairError, match="nothing is written over"):
        fork(SPARK / "aggregation" / "checkpoint", tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
    copy = shutil.copytree(SPARK / "aggregation" / "checkpoint", tmp_path / "source")
    (tmp_path / "link").symlink_to(copy)
    for place in (copy / "new", tmp_path / "link" / "new", tmp_path / "else" / ".." / "source" / "new"):
        for source in (copy, tmp_path / "link"):
            with pytest.raises(RepairError, match="lie in its source"):
                fork(source, place)
    assert not (copy / "new").exists()


@pytest.mark.parametrize("batch_id", [3, 2])
def test_another_process_that_writes_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_id: int
) -> None:
    source, new = SPARK / "aggregation" / "checkpoint", tmp_path / "new"
    late = NewCheckpoint(Source.open(source), new)
    with monkeypatch.context() as patch:
        patch.setattr("hdfsstore.repair.new_checkpoint.with_unique_ids", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            fork(source, new, batch_id=batch_id)
    there = content(new)
    with pytest.raises(RepairError, match="another process writes"):  # it has begun right after this one has looked
        late.write(_interrupt, query_id="the-query", conf={}, partitions=None)
    assert content(new) == there
    late = NewCheckpoint(Source.open(source), new)
    fork(source, new)
    there = content(new)
    with pytest.raises(RepairError, match="another process writes"):  # it has ended since
        late.write(_interrupt, query_id="the-query", conf={}, partitions=None)
    assert content(new) == there


@pytest.mark.parametrize("place", ["offsets/2", "offsets/3", "state/0/0/4.snapshot"])
def test_a_process_that_was_taken_for_dead_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Another one begins anew while this one writes a file, and ends: its checkpoint stays as it is."""
    source, new = SPARK / "aggregation" / "checkpoint", tmp_path / "new"
    write, there = LocalFileManager.replace, {}

    def taken_over(files: LocalFileManager, path: str, pieces: Iterable[Any]) -> None:
        if path == f"{new}/{place}" and not there:
            there["begun"] = b""
            edit(source, new, Edit(remove="partition_id = 0"), batch_id=1)
            there.update(content(new))
        write(files, path, pieces)

    monkeypatch.setattr(LocalFileManager, "replace", taken_over)
    with pytest.raises(RepairError, match="another process writes"):
        fork(source, new)
    assert {"begun": b"", **content(new)} == there
    assert 0 not in Checkpoint(new).read_state()["partition_id"].to_pylist()


def test_what_a_run_left_that_was_killed_at_its_first_write_is_nothing(tmp_path: Path) -> None:
    (tmp_path / "new/offsets").mkdir(parents=True)
    (tmp_path / "new/offsets" / temporary_name("3")).write_text("v")
    fork(SPARK / "aggregation" / "checkpoint", tmp_path / "new")
    assert raw_rows(tmp_path / "new") == raw_rows(SPARK / "aggregation" / "checkpoint")


def test_the_uri_of_the_new_checkpoint_takes_the_options_of_its_storage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    options = {"fs.defaultFS": "hdfs://namenode:8020"}
    fs, path = resolve("hdfs:///new", options)
    assert _uri_of(fs, path, "hdfs:///new", options) == "hdfs://namenode:8020/new"


def test_a_dry_run_only_counts(tmp_path: Path) -> None:
    plan = fork(SPARK / "aggregation" / "checkpoint", tmp_path / "new", dry_run=True)
    assert not isinstance(plan, Report)
    assert not (tmp_path / "new").exists()
    rows = raw_rows(SPARK / "aggregation" / "checkpoint")
    (store,) = plan.operators[0].stores
    assert store.rows_in == sum(each.total() for each in rows.values())
    assert store.bytes_in == sum(len(k) + len(v) for each in rows.values() for k, v in each.elements())
    assert plan.disk_bytes == store.bytes_in


def test_a_killed_run_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SPARK / "rocksdb_unique_ids" / "checkpoint"
    with monkeypatch.context() as patch:
        patch.setattr("hdfsstore.repair.new_checkpoint.with_unique_ids", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            fork(source, tmp_path / "new")
    new = tmp_path / "new"
    for refused in (lambda: Checkpoint(new).latest_batch_id, lambda: rewind(new, 1), lambda: undo(new)):
        with pytest.raises(RepairUnderWayError, match="a new checkpoint is being written"):
            refused()
    left = {path.name for path in (tmp_path / "new").rglob("*.zip")}
    assert left
    fork(source, tmp_path / "new")
    assert raw_rows(tmp_path / "new") == raw_rows(source)
    assert not left & {path.name for path in (tmp_path / "new").rglob("*.zip")}


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_aggregation", "transform_structures"])
def test_rows_that_do_not_fit_into_the_memory(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_part, "LEAST_MEMORY", 500)
    source = SPARK / case / "checkpoint"
    (tmp_path / "spill").mkdir()
    fork(source, tmp_path / "new", limits=Limits(memory=1, tmp=str(tmp_path / "spill")))
    assert raw_rows(tmp_path / "new") == raw_rows(source)
    assert not list((tmp_path / "spill").iterdir())


def test_a_sink_is_for_a_repair_in_place(tmp_path: Path) -> None:
    with pytest.raises(RepairError, match="in place: leave it out"):
        fork(SPARK / "aggregation" / "checkpoint", tmp_path / "new", file_sink=tmp_path / "sink")
    assert not (tmp_path / "new").exists()
