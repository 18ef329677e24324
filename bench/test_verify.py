"""verify of a checkpoint whose logs hold many batches."""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

from bench import big_state
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore.repair import verify

SMALL = 2_000
STATE_FILE = re.compile(r"(\.?)(\d+)(\.(?:delta|snapshot).*)")


def with_batches(checkpoint: Path, target: Path, batches: int) -> Path:
    """A copy whose logs have so many batches, each as the last one. Retention has removed the state of older ones."""
    shutil.copytree(checkpoint, target)
    last = max(int(entry.name) for entry in (target / "commits").iterdir() if entry.name.isdecimal())
    for log in (target / "offsets", target / "commits"):
        for entry in (log / f"{last}", log / f".{last}.crc"):
            content = entry.read_bytes()
            for number in range(batches):
                (log / entry.name.replace(str(last), str(number))).write_bytes(content)
    for file in [path for path in (target / "state").rglob("*") if path.is_file()]:
        if match := STATE_FILE.fullmatch(file.name):
            file.rename(file.with_name(f"{match[1]}{int(match[2]) + batches - last - 1}{match[3]}"))
    return target


def test_verify_logs(benchmark: BenchmarkFixture, report: Report, smoke: bool, rounds: int, tmp_path: Path) -> None:
    source = big_state.checkpoint(num_keys=SMALL)
    counts = (10, 100) if smoke else (100, 10_000)
    paths = {count: with_batches(source, tmp_path / str(count), count) for count in counts}
    for count, path in paths.items():
        found = verify(path, logs=True)
        assert found.sound
        assert len(found.batches) == count
    seconds = side_by_side(
        {f"verify --logs of {count:,} batches": partial(verify, path, logs=True) for count, path in paths.items()},
        rounds,
    )
    for name, taken in seconds.items():
        report.add(name, f"{taken:.2f} s", "goal: 3 s")
    benchmark.pedantic(verify, (paths[counts[0]],), {"logs": True})
