"""Repairs on a disk that is full after so many pages: nothing is lost, and the error says what to do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import needs

ROOT = Path(__file__).parents[2]


@needs.mounts
@pytest.mark.parametrize("case", ["aggregation", "rocksdb_unique_ids"])
def test_a_repair_on_a_full_disk_is_ended_or_taken_back(tmp_path: Path, case: str) -> None:
    command = ["unshare", "--map-root-user", "--mount", sys.executable, "-m", "tests.faults.full_disk"]
    run = subprocess.run([*command, str(tmp_path), case], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    guarded = {name for name, counts in seen.items() if counts.get("guarded")}
    assert guarded == seen.keys() - {"undo of repartition"}, "an undo that moves nothing takes one page, for its guard"
    assert sum(sum(counts.values()) for counts in seen.values()) > 60
