"""A checkpoint on HDFS and S3 that is watched while its storage does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest

from hdfsstore import Checkpoint
from hdfsstore.report.watched import Watched
from tests.services.places import Place
from tests.services.toxiproxy import BREAKING, Proxy
from tests.support.remote_path import RemotePath
from tests.support.truth import DATA
from tests.unit.checkpoint.build import copy_to

TIMEOUT_S = 3.0
# A connection that was refused is not tried again at once, and the machine may be loaded.
ANSWERS_S = 60.0


@pytest.mark.parametrize("place", ["hdfs", "minio"], indirect=True)
@pytest.mark.parametrize("fault", ["connections are refused", "answers are lost"])
def test_it_goes_on_when_the_storage_answers_again(fault: str, link: Proxy, behind: Callable[[float], Place]) -> None:
    slow = behind(TIMEOUT_S)
    copy_to(DATA / "spark-4.3.0/snapshots/checkpoint", RemotePath(slow.files, slow.path))
    watched = Watched(partial(Checkpoint, slow.uri, storage_options=slow.storage_options))
    watched.look()
    before = watched.count(limited=False)
    with BREAKING[fault](link):
        for _ in range(2):
            moment = watched.look()
            assert any("The storage does not answer" in warning for warning in moment.warnings)
            assert (moment.batches, moment.stores) == (before.batches, before.stores)
    end = time.monotonic() + ANSWERS_S
    while (moment := watched.look()).warnings:
        assert time.monotonic() < end, moment.warnings
    assert (moment.batches, moment.stores) == (before.batches, before.stores)
