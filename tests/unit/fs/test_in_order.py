"""Calls that are made ahead of their turn: order, errors, early ends, and none of it on a local disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from hdfsstore.fs import ahead
from hdfsstore.fs import in_order as module
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.fs.local_files import LocalFileManager
from tests.support.waiting import wait_until

REMOTE = cast(FileManager, object())


@pytest.fixture(autouse=True)
def places(monkeypatch: pytest.MonkeyPatch) -> threading.BoundedSemaphore:
    made = threading.BoundedSemaphore(ahead._MOST)
    monkeypatch.setattr(ahead, "_places", made)
    return made


def are_free(places: threading.BoundedSemaphore) -> Callable[[], bool]:
    return lambda: places._value == ahead._MOST  # type: ignore[attr-defined]


@pytest.mark.parametrize("fs", [REMOTE, LocalFileManager()])
@pytest.mark.parametrize("works", [0, 1, 30])
def test_results_come_in_order(fs: FileManager, works: int, places: threading.BoundedSemaphore) -> None:
    with in_order(fs, [partial(int, n) for n in range(works)]) as results:
        assert list(results) == list(range(works))
        assert next(results, None) is None
    wait_until(are_free(places))


def test_calls_are_made_side_by_side_before_they_are_asked_for() -> None:
    together = threading.Barrier(module._MOST)
    with in_order(REMOTE, [lambda: together.wait(60)] * module._MOST) as results:
        assert sorted(results) == list(range(module._MOST))


def test_without_a_place_the_call_is_made_in_its_turn(places: threading.BoundedSemaphore) -> None:
    while places.acquire(blocking=False):
        pass
    with in_order(REMOTE, [threading.get_ident] * 3) as results:
        assert set(results) == {threading.get_ident()}


def test_a_local_disk_is_read_in_turn() -> None:
    made: list[int] = []
    with in_order(LocalFileManager(), [partial(made.append, n) for n in range(3)]) as results:
        assert not made
        next(results)
        assert made == [0]


def test_an_error_comes_in_its_turn_and_the_rest_is_dropped(places: threading.BoundedSemaphore) -> None:
    def fail() -> int:
        raise FileNotFoundError("/f")

    thaw = threading.Event()
    got: list[int] = []
    try:
        with (
            pytest.raises(FileNotFoundError),
            in_order(REMOTE, [lambda: 1, fail, *[lambda: int(thaw.wait(60))] * 9]) as results,
        ):
            got.extend(results)
        assert not thaw.is_set()  # nothing has waited for the others
    finally:
        thaw.set()
    wait_until(are_free(places))


def test_after_an_error_the_block_waits_for_what_has_begun_if_it_is_asked_to(
    places: threading.BoundedSemaphore,
) -> None:
    begun, ended = threading.Barrier(module._MOST), []

    def fail() -> None:
        begun.wait(60)
        raise FileNotFoundError("/f")

    def write(number: int) -> None:
        begun.wait(60)
        time.sleep(0.1)  # the error has long come by then
        ended.append(number)

    works = [fail, *[partial(write, number) for number in range(1, module._MOST)]]
    with pytest.raises(FileNotFoundError), in_order(REMOTE, works, waits=True) as results:
        next(results)
    assert sorted(ended) == list(range(1, module._MOST))
    assert are_free(places)()
