"""What is said of work that fails, and when it is tried again."""

from __future__ import annotations

import errno
import logging
import time

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.state.maintenance.retries import Retries

log = logging.getLogger("hdfsstore.tests")


def full(name: str) -> StateStoreError:
    error = StateStoreError("it could not be written", name)
    error.__cause__ = OSError(errno.ENOSPC, "No space left on device", name)
    return error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_each_failure_doubles_the_wait_up_to_a_bound(clock: list[float]) -> None:
    work = Retries(log, "nothing is done", 60.0)
    assert not work.is_put_off
    for wait in (60, 120, 240, 480, 960, 960, 960):
        work.failed(full("a"))
        clock[0] += wait - 1
        assert work.is_put_off
        clock[0] += 1
        assert not work.is_put_off
    work.succeeded()
    work.failed(full("a"))
    clock[0] += 60
    assert not work.is_put_off


def test_without_a_wait_nothing_is_put_off() -> None:
    work = Retries(log, "nothing is done", 0)
    work.failed(full("a"))
    assert not work.is_put_off


def test_one_warning_for_each_cause(caplog: pytest.LogCaptureFixture) -> None:
    work = Retries(log, "nothing is done", 0)
    with caplog.at_level(logging.INFO):
        for number in range(3):
            work.failed(full(f"{number}.delta"))
            work.failed(OSError(f"ACCESS_DENIED for key {number}.delta (request {number}A7)"))
            work.failed(OSError(f"SLOW_DOWN for key {number}.delta (request {number}A7)"))
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.WARNING] * 3 + [logging.INFO] * 6
    assert all(record.exc_info for record in caplog.records[:3])
    assert "nothing is done; it is tried again" in caplog.messages[0]
    assert "9th time" in caplog.messages[-1]


def test_a_cause_that_comes_back_is_said_again(caplog: pytest.LogCaptureFixture) -> None:
    work = Retries(log, "nothing is done", 0)
    work.succeeded()
    work.failed(full("a"))
    work.succeeded()
    work.failed(full("a"))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
