"""Partitions side by side: order, errors, bounded waiting, early close."""

import threading
import time
from collections.abc import Iterator

import pytest

from hdfsstore.state.parallel import run_all, stream_all


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_results_come_in_the_order_of_the_tasks(threads: int) -> None:
    assert run_all([lambda i=i: i * i for i in range(20)], threads) == [i * i for i in range(20)]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_a_task_is_raised(threads: int) -> None:
    def fail() -> int:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        run_all([lambda: 1, fail], threads)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_stream_yields_everything_once(threads: int) -> None:
    tasks = [lambda i=i: iter(range(10 * i, 10 * i + 10)) for i in range(7)]
    assert sorted(stream_all(tasks, threads)) == list(range(70))


def test_a_stream_raises_the_error_of_a_task() -> None:
    def fail() -> Iterator[int]:
        yield 1
        raise OSError("disk")

    stream = stream_all([fail], 2)
    assert next(stream) == 1
    with pytest.raises(OSError, match="disk"):
        next(stream)


def test_no_more_than_two_items_a_thread_are_made_ahead() -> None:
    made = []
    ahead = threading.Event()

    def endless() -> Iterator[int]:
        while True:
            made.append(1)
            if len(made) == 4:  # one taken, two waiting, one in hand
                ahead.set()
            yield 1

    stream = stream_all([endless], 1)
    next(stream)
    assert ahead.wait(60)
    time.sleep(0.3)  # in which it could make more
    assert len(made) == 4
    stream.close()


def test_closing_early_ends_the_threads() -> None:
    before = set(threading.enumerate())

    def endless() -> Iterator[int]:
        while True:
            yield 1

    stream = stream_all([endless, endless], 2)
    next(stream)
    stream.close()
    assert set(threading.enumerate()) <= before  # threads of other tests may end meanwhile


def test_no_tasks_is_an_empty_stream() -> None:
    assert list(stream_all([], 2)) == []
