"""S3, on a MinIO of this machine: our commit and our read beside the bare client's. Time spent on the way is small."""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.delta_commits import DELTA_BYTES, DeltaCommits
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore.fs.s3.open import open_bucket
from hdfsstore.fs.s3.s3_files import S3FileManager
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.secret import Secret
from tests.services import minio as service

BUCKET = "bench"
STATE_BYTES = 25_000_000
PARALLEL = (1, 4)
SMALL_ROUNDS = 20  # for each of the usual rounds: a PUT is short, and its times vary


@pytest.fixture(scope="module")
def files() -> Iterator[S3FileManager]:
    """A bucket of a MinIO that ends with the tests."""
    with tempfile.TemporaryDirectory(prefix="hdfsstore-bench-") as folder:
        server = service.Minio(Path(folder))
        server.start()
        try:
            server.create_bucket(BUCKET)
            settings = S3Settings(
                endpoint_url=server.endpoint(),
                path_style=True,
                access_key=Secret(service.USER),
                secret_key=Secret(service.PASSWORD),
            )
            yield open_bucket(settings, BUCKET)
        finally:
            server.stop()


def test_commit_of_a_delta(
    benchmark: BenchmarkFixture, report: Report, files: S3FileManager, rounds: int, tmp_path: Path
) -> None:
    delta = os.urandom(DELTA_BYTES)
    client = files._bucket.client()
    commit = DeltaCommits(files, BUCKET, tmp_path)
    seconds = side_by_side(
        {
            "bare PUT": lambda: client.put_object(Bucket=BUCKET, Key=str(uuid.uuid4()), Body=delta),
            "our PUT": lambda: files.write_unique(f"{BUCKET}/{uuid.uuid4()}", [delta]),
            "our create": lambda: files.create(f"{BUCKET}/{uuid.uuid4()}", [delta]),
            "store's commit": commit,
        },
        rounds * SMALL_ROUNDS,
    )
    benchmark.pedantic(commit, rounds=rounds)
    bare = seconds["bare PUT"]
    for name, taken in seconds.items():
        report.add(f"S3: {DELTA_BYTES:,} bytes, {name}", f"{taken * 1e3:.2f} ms", f"{taken / bare:.2f} x the bare PUT")


def test_read_of_a_state(
    benchmark: BenchmarkFixture, report: Report, files: S3FileManager, rounds: int, smoke: bool
) -> None:
    size = STATE_BYTES // 100 if smoke else STATE_BYTES
    files.write_unique(f"{BUCKET}/state", [os.urandom(size)])
    client = files._bucket.client()
    target = bytearray(size)

    def get(start: int, end: int) -> None:
        with client.get_object(Bucket=BUCKET, Key="state", Range=f"bytes={start}-{end - 1}")["Body"] as body:
            target[start:end] = body.read()

    def download(parallel: int) -> None:
        step = -(-size // parallel)
        with ThreadPoolExecutor(parallel) as pool:
            list(pool.map(get, range(0, size, step), [min(at + step, size) for at in range(0, size, step)]))

    ours: Callable[[], Any] = partial(_read, files, target)
    sides: dict[str, Callable[[], Any]] = {f"bare GETs, {n} at once": partial(download, n) for n in PARALLEL}
    sides |= {"our read": ours, "our read, size known": partial(_read, files, target, size)}
    seconds = side_by_side(sides, rounds * 4)
    benchmark.pedantic(ours, rounds=rounds)
    bare = min(taken for name, taken in seconds.items() if name.startswith("bare"))
    for name, taken in seconds.items():
        report.add(
            f"S3: {size:,} bytes, {name}", f"{taken * 1e3:.1f} ms", f"{taken / bare:.2f} x the quickest bare GETs"
        )


def _read(files: S3FileManager, target: bytearray, size: int | None = None) -> None:
    file = files.open_file(f"{BUCKET}/state", size)
    if file.readinto(target) != len(target):
        raise RuntimeError("the file is shorter than it was written")
    file.close()
