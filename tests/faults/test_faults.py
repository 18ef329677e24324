"""Full disks, lost rights, files that are cut, errors at each call, and two processes that commit the same version."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import needs, scenarios
from tests.faults.campaign import Broken, Campaign
from tests.faults.scenarios import NOBODY
from tests.faults.server import Outcome, Server
from tests.faults.shim import Fault
from tests.faults.writer import files

pytestmark = needs.shim
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, and become another user")
formats = pytest.mark.parametrize("format_version", [1, 2])
errors = pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO], ids=errno.errorcode.get)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("tests.faults.scenarios") as started:
        yield started


def ended_well(outcome: Outcome) -> Outcome:
    assert not outcome.hung
    assert outcome.error is None, outcome.error
    assert not outcome.killed
    return outcome


@formats
@errors
def test_a_commit_fails_at_any_of_its_calls(server: Server, tmp_path: Path, format_version: int, error: int) -> None:
    args = (str(tmp_path), format_version, error)
    calls = ended_well(server.run(scenarios.failing_commits, *args, fault=Fault(str(tmp_path)))).messages
    assert [at for at, _, _ in calls] == list(range(1, len(calls) + 1))
    assert {call for _, call, raised in calls if raised} >= {"open64", "write"}
    assert {call for _, call, _ in calls} & {"rename", "link"}


@formats
@errors
def test_maintenance_fails_at_any_of_its_calls(server: Server, tmp_path: Path, format_version: int, error: int) -> None:
    args = (str(tmp_path), format_version, error)
    calls = ended_well(server.run(scenarios.failing_maintenance, *args, fault=Fault(str(tmp_path)))).messages
    assert {call for _, call in calls} >= {"open64", "write", "unlink"}


@formats
@errors
def test_nobody_notices_when_images_fail(server: Server, tmp_path: Path, format_version: int, error: int) -> None:
    args = (str(tmp_path), format_version, error)
    calls = ended_well(server.run(scenarios.failing_images, *args, fault=Fault(str(tmp_path)))).messages
    assert {call for _, call in calls} >= {"mkdir", "openat64", "write", "fchmod", "renameat", "unlinkat"}


@as_root
@formats
def test_a_full_disk(server: Server, tmp_path: Path, format_version: int) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        run = server.run(scenarios.full_disk, str(tmp_path), format_version, fault=Fault(str(tmp_path)))
        [said] = ended_well(run).messages
        assert "No space left" in said
        assert "Free space" in said
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@as_root
@formats
@pytest.mark.parametrize("mode", [0o500, 0o000], ids=["read-only", "none"])
def test_rights_that_are_lost_and_given_back(server: Server, format_version: int, mode: int) -> None:
    root = Path("/tmp", f"hdfsstore-faults-{os.getpid()}")  # pytest's folders are root's own
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)
    try:
        args = (str(root), format_version, mode)
        said = ended_well(server.run(scenarios.without_rights, *args, fault=Fault(str(root)))).messages
    finally:
        shutil.rmtree(root)
    assert any("Permission denied" in text for text in said if text is not None)


@formats
def test_files_that_are_cut_behind_our_back(server: Server, tmp_path: Path, format_version: int) -> None:
    args = (str(tmp_path), format_version)
    results = ended_well(server.run(scenarios.truncated_files, *args, fault=Fault(str(tmp_path)))).messages
    assert results.count("read") >= 10
    assert results.count("refused") >= 10


@formats
def test_two_processes_commit_one_version(server: Server, tmp_path: Path, format_version: int) -> None:
    args = (str(tmp_path), format_version, 12)
    results = ended_well(server.run(scenarios.racing_commits, *args, fault=Fault(str(tmp_path)))).messages
    assert len(results) == 12


@formats
def test_a_version_that_another_process_commits_again(server: Server, tmp_path: Path, format_version: int) -> None:
    ended_well(server.run(scenarios.outrun_commits, str(tmp_path), format_version, fault=Fault(str(tmp_path))))


@formats
def test_damaged_images_are_found_and_built_anew(server: Server, tmp_path: Path, format_version: int) -> None:
    run = server.run(scenarios.damaged_images, str(tmp_path), format_version, fault=Fault(str(tmp_path)))
    assert sum(ended_well(run).messages) >= 3


@formats
def test_images_of_a_store_that_was_deleted_and_made_again(server: Server, tmp_path: Path, format_version: int) -> None:
    run = server.run(scenarios.store_made_again, str(tmp_path), format_version, fault=Fault(str(tmp_path)))
    assert min(ended_well(run).messages) >= 1


@formats
def test_a_short_campaign(tmp_path: Path, format_version: int) -> None:
    with Server("tests.faults.writer") as server:
        campaign = Campaign(server, tmp_path, [format_version], seed=5)
        campaign.sweep(calls=12)
        campaign.at_random(kills=5)
        assert campaign.figures.kills.total() == 24
        assert campaign.figures.at_random == 5
        assert campaign.figures.read > campaign.figures.all_kills


def lose(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def swap(path: Path) -> None:
    """Another version's content in its place."""
    others = [other for other in path.parent.glob("*.delta") if other != path]
    path.write_bytes(others[0].read_bytes())


@formats
@pytest.mark.parametrize("damage", [lose, cut, swap])
def test_a_campaign_finds_a_version_that_is_not_what_was_committed(
    tmp_path: Path, format_version: int, damage: Callable[[Path], None]
) -> None:
    with Server("tests.faults.writer") as server:
        campaign = Campaign(server, tmp_path, [format_version], seed=5)
        campaign.sweep(calls=16)  # so many that the newest version has a delta and no snapshot
        version, unique_id = campaign.history.tip
        damage(files(str(tmp_path)) / (f"{version}.delta" if unique_id is None else f"{version}_{unique_id}.delta"))
        with pytest.raises(Broken, match="failed: run"):
            campaign.sweep(calls=2)
