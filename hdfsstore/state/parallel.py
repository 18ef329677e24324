"""Runs tasks in parallel threads. Compression, decompression and decoding do not hold the interpreter lock."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_DONE = object()
_POLL_SECONDS = 0.1


def run_all(tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """The results of all tasks, in their order. Raises the first error."""
    if threads == 1 or len(tasks) < 2:
        return [task() for task in tasks]
    with ThreadPoolExecutor(min(threads, len(tasks)), thread_name_prefix="hdfsstore") as pool:
        return list(pool.map(lambda task: task(), tasks))


def stream_all(tasks: Sequence[Callable[[], Iterator[T]]], threads: int) -> Generator[T, None, None]:
    """Yields the items of all tasks as they come. At most two items for each thread wait at any time.

    Closing the iterator early ends the threads.
    """
    pending = deque(tasks)
    ready: queue.Queue[object] = queue.Queue(maxsize=2 * threads)
    stopped = threading.Event()

    def put(item: object) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=_POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            while True:
                try:
                    task = pending.popleft()
                except IndexError:
                    break
                for item in task():
                    if not put(item):
                        return
        except BaseException as error:  # noqa: BLE001 - raised again by the consumer
            put(_Failure(error))
        put(_DONE)

    workers = [
        threading.Thread(target=work, name=f"hdfsstore-stream-{i}", daemon=True)
        for i in range(min(threads, len(tasks)))
    ]
    for worker in workers:
        worker.start()
    try:
        running = len(workers)
        while running:
            item = ready.get()
            if item is _DONE:
                running -= 1
            elif isinstance(item, _Failure):
                raise item.error
            else:
                yield item  # type: ignore[misc]
    finally:
        stopped.set()
        for worker in workers:
            worker.join()


class _Failure:
    def __init__(self, error: BaseException) -> None:
        self.error = error
