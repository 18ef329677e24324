"""A checkpoint that an in-place repair is changing, or was killed while it did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hdfsstore.checkpoint.guard import Guard, encode_guard, parse_guard
from hdfsstore.checkpoint.offset_log import parse_offset_log
from hdfsstore.errors import RepairUnderWayError, UnsupportedVersionError
from tests.support.truth import DATA
from tests.unit.checkpoint.build import checkpoint, opened, put

GUARD = Guard("rewind", "20261122T231501.123Z")


def test_the_reader_reads_past_the_guard_and_says_what_it_is(tmp_path: Path) -> None:
    root = checkpoint(tmp_path, batches=2)
    assert opened(root).repair is None
    put(root / "offsets" / "2", encode_guard(GUARD))
    found = opened(root)
    assert found.latest_batch_id == 1
    assert [batch.batch_id for batch in found.batches] == [0, 1]
    assert found.damaged == []
    assert found.repair is not None
    assert found.repair.path == f"{root}/offsets/2"
    assert "`rewind` is changing the checkpoint" in str(found.repair)
    assert "hdfsstore undo" in str(found.repair)


def test_an_entry_that_is_cut_off_below_the_guard_is_named_too(tmp_path: Path) -> None:
    root = checkpoint(tmp_path, batches=2)
    put(root / "offsets" / "2", "")
    put(root / "offsets" / "3", encode_guard(GUARD))
    found = opened(root)
    assert [error.path for error in found.damaged] == [f"{root}/offsets/2"]
    assert found.repair is not None
    assert found.latest_batch_id == 1


def test_state_is_read_past_the_guard(tmp_path: Path) -> None:
    source = DATA / "spark-4.3.0/aggregation/checkpoint"
    root = shutil.copytree(source, tmp_path / "copy")
    expected = opened(source).read_state()
    newest = opened(source).latest_batch_id
    put(root / "offsets" / str(newest + 1), encode_guard(GUARD))
    assert opened(root).read_state().equals(expected)


@pytest.mark.parametrize(
    "content", [b"v99\n", b"v99\n{}", b"v99\n[1]", b'v99\n{"hdfsstore":1}', b"v99\n\xff", b"v98\n{}"]
)
def test_another_entry_of_an_unknown_version_is_no_guard(content: bytes) -> None:
    assert parse_guard(content) is None
    with pytest.raises(UnsupportedVersionError):
        parse_offset_log(content.replace(b"\xff", b""), "offsets/3")


def test_the_guard_comes_back() -> None:
    assert parse_guard(encode_guard(GUARD)) == GUARD
    with pytest.raises(RepairUnderWayError):
        parse_offset_log(encode_guard(GUARD), "offsets/3")
