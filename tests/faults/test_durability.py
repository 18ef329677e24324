"""A committed batch is there after a power cut: the order of all calls that write, of a query's batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import durability, needs
from tests.faults.server import Server
from tests.faults.shim import Fault

pytestmark = needs.shim


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("tests.faults.durability") as started:
        yield started


@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
@pytest.mark.parametrize("format_version", [1, 2])
def test_files_and_folders_are_synced_before_what_counts_on_them(
    server: Server, tmp_path: Path, backend: str, format_version: int
) -> None:
    folder = str(tmp_path / "checkpoint")
    outcome = server.run(durability.batches, str(tmp_path), backend, format_version, fault=Fault(folder))
    assert outcome.error is None, outcome.error
    calls = outcome.messages
    assert list(durability.broken_promises(calls, "/hdfsstore/commits")) == []
    named = [path for call, path in calls if call.startswith(("rename", "link"))]
    assert sum(path.startswith("/hdfsstore/commits/") for path in named) == durability.BATCHES
    ends = {Path(path).suffix for path in named}
    assert ends >= ({".delta", ".snapshot"} if backend == "hdfs" else {".changelog", ".zip", ".sst"})
    assert any(call == "unlink" and path.startswith("/state/0/1/1") for call, path in calls), "there was a clean-up"


def test_what_is_not_synced_is_found() -> None:
    """The check itself, on calls that lack a sync."""
    temporary = "/state/.1.delta.0f0e0d0c-0b0a-0908-0706-050403020100.tmp"
    entry = "/log/.0.0f0e0d0c-0b0a-0908-0706-050403020100.tmp"
    good = [
        *[("mkdir", "/state"), ("fsync", "")],
        *[("write", temporary), ("fsync", temporary), ("rename", "/state/1.delta"), ("fsync", "/state")],
        *[("mkdir", "/log"), ("fsync", "")],
        *[("write", entry), ("fsync", entry), ("link", "/log/0"), ("unlink", entry), ("fsync", "/log")],
        ("unlink", "/state/0.delta"),
    ]
    assert list(durability.broken_promises(good, "/log")) == []
    for at, (call, _) in enumerate(good):
        if call == "fsync":
            # The one of "state" alone can be missing: that of "log" comes before the entry.
            assert list(durability.broken_promises(good[:at] + good[at + 1 :], "/log")) or at == 1, at
