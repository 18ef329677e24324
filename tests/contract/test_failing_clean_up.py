"""Batches go on where their process may write and not delete, as next to files of another user in a sticky folder."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.backends import VARIANTS, Variant
from tests.support.partition import Partition, read, state_after, write_chain

NOBODY = 65534
LONG = 600.0  # a bound for what takes a second
SETTINGS = {"min_deltas_for_snapshot": 2, "min_versions_to_retain": 2}

pytestmark = pytest.mark.local_disk


class Heard(logging.Handler):
    """The warnings of this package."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []
        logging.getLogger("hdfsstore").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def delete_in_vain(root: Path, variant: Variant) -> None:
    """Commits and maintains; first as the owner of all, then as nobody, then as the owner again."""
    heard = Heard()
    owner = Partition(root, variant.backend, variant.conf)
    first = owner.open("host", **SETTINGS)
    chain = write_chain(first, 3)
    first.do_maintenance()  # a whole file of version 3
    first.close()
    for path in (root, root / "state", *(root / "state").rglob("*")):
        if path.is_dir():
            path.chmod(0o1777)
    "".encode("cp437")  # zipfile's names; nobody may not read what a Python of root's imports later
    os.seteuid(NOBODY)
    nobody = Partition(root, variant.backend, variant.conf)
    with nobody.open("other-host", **SETTINGS) as provider:
        for _ in range(8):
            chain += write_chain(provider, 1, chain[-1])[1:]
            provider.do_maintenance()
        metrics = provider.metrics
        assert read(provider, chain[-1]) == state_after(11)
    assert metrics["cleanupsFailed"] > 3, metrics
    assert metrics["maintenanceRunsFailed"] >= metrics["cleanupsFailed"]
    assert metrics["snapshotsUploaded"] > 0, "snapshots do not wait for the clean-up"
    [warning] = [record.getMessage() for record in heard.records]
    assert str(owner.backend.files(owner.folder)[0].parent) in warning
    assert "the clean-up ended early" in warning
    os.seteuid(0)
    with owner.open("host", **SETTINGS) as provider:
        chain += write_chain(provider, 1, chain[-1])[1:]
        provider.do_maintenance()
        assert provider.metrics["cleanupsFailed"] == 0
        assert provider.metrics["filesDeleted"] > 6
        assert read(provider, chain[-1]) == state_after(12)


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody can reach, as pytest's own cannot."""
    folder = Path(tempfile.mkdtemp(prefix="hdfsstore-tests-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.thorough
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("number", range(len(VARIANTS)), ids=map(str, VARIANTS))
def test_batches_go_on_where_nothing_can_be_deleted(public: Path, number: int) -> None:
    script = f"""
import pathlib, sys
from tests.contract import test_failing_clean_up as tests
tests.delete_in_vain(pathlib.Path(sys.argv[1]), tests.VARIANTS[{number}])
"""
    command = [sys.executable, "-c", script, str(public)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
    assert ran.returncode == 0, ran.stderr
