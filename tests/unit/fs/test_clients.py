"""Who shares a FileManager, and who gets a new one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from hdfsstore.fs import clients
from hdfsstore.fs.clients import shared
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings
from hdfsstore.fs.s3.settings import AssumedRole, S3Settings
from hdfsstore.fs.secret import Secret
from tests.support.threads import at_once

SETTINGS = S3Settings(
    endpoint_url="http://127.0.0.1:9000",
    access_key=Secret("of-the-test"),
    secret_key=Secret("first"),
    assumed_role=AssumedRole("arn:aws:iam::1:role/r", external_id=Secret("x")),
)


class Made:
    """Stands for a FileManager: what is shared is never called."""

    def __init__(self) -> None:
        self.pid = os.getpid()


def make() -> FileManager:
    return cast(FileManager, Made())


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_known", {})


def test_equal_settings_share_one() -> None:
    assert shared((SETTINGS, "bucket"), make) is shared((replace(SETTINGS), "bucket"), make)


@pytest.mark.parametrize(
    "other",
    [
        (SETTINGS, "another"),
        (replace(SETTINGS, endpoint_url="http://127.0.0.1:9001"), "bucket"),
        (replace(SETTINGS, region="eu-west-1"), "bucket"),
        (replace(SETTINGS, access_key=None, secret_key=None), "bucket"),
        (replace(SETTINGS, assumed_role=None), "bucket"),
        HdfsSettings("nn:8020"),
        HdfsSettings("nn:8020", user="other"),
    ],
)
def test_other_places_have_their_own(other: object) -> None:
    first = shared((SETTINGS, "bucket"), make)
    assert shared(other, make) is not first
    assert shared((SETTINGS, "bucket"), make) is first


@pytest.mark.parametrize(
    "renewed",
    [
        replace(SETTINGS, secret_key=Secret("second")),
        replace(SETTINGS, access_key=Secret("k"), secret_key=Secret("s")),
        replace(SETTINGS, assumed_role=AssumedRole("arn:aws:iam::1:role/r", external_id=Secret("y"))),
    ],
)
def test_new_credentials_replace_the_old_ones(renewed: S3Settings) -> None:
    first = shared((SETTINGS, "bucket"), make)
    second = shared((renewed, "bucket"), make)
    assert second is not first
    assert shared((renewed, "bucket"), make) is second
    assert len(clients._known) == 1


def test_no_key_is_kept_of_a_secret() -> None:
    shared((SETTINGS, "bucket"), make)
    (key,) = clients._known
    assert "Secret" in repr(key)
    assert repr(SETTINGS.secret_key) not in repr(key)


def test_many_threads_share_one_and_a_slow_one_holds_up_no_other() -> None:
    made: list[Made] = []
    slow, begun = threading.Event(), threading.Event()

    def make_slowly() -> FileManager:
        begun.set()
        assert slow.wait(60)
        made.append(Made())
        return cast(FileManager, made[-1])

    def work(number: int) -> FileManager:
        if number == 0:  # another place, while the first is being made
            assert begun.wait(60)
            shared((SETTINGS, "other"), make)
            slow.set()
        return shared((SETTINGS, "bucket"), make_slowly)

    assert len(set(map(id, at_once(work, 16)))) == 1
    assert len(made) == 1


def test_an_error_is_forgotten() -> None:
    def fail() -> FileManager:
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        shared(SETTINGS, fail)
    assert shared(SETTINGS, make) is shared(SETTINGS, fail)


def in_child(work: Callable[[], bool]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_makes_its_own() -> None:
    of_parent = cast(Made, shared((SETTINGS, "bucket"), make))

    def work() -> bool:
        mine = cast(Made, shared((SETTINGS, "bucket"), make))
        again = shared((SETTINGS, "bucket"), make)
        return mine is not of_parent and mine.pid == os.getpid() and again is mine

    in_child(work)
    assert shared((SETTINGS, "bucket"), make) is of_parent


def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent() -> None:
    begun, ended = threading.Event(), threading.Event()

    def make_slowly() -> FileManager:
        begun.set()
        assert ended.wait(60)
        return make()

    thread = threading.Thread(target=shared, args=[SETTINGS, make_slowly])
    thread.start()
    assert begun.wait(60)
    try:
        in_child(lambda: cast(Made, shared(SETTINGS, make)).pid == os.getpid())
    finally:
        ended.set()
        thread.join()
