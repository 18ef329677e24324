"""read_state in a process for each partition, all at once: what the machine gives to two cores beside one.

Processes share no interpreter lock and no address space. What they lose too, the machine takes.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import hdfsstore


class Readers:
    """A process for each partition, which reads that one when told to."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def read(self) -> None:
        """Reads all partitions, and returns when the last one is in the memory of its process."""
        self._tell("read")

    def free(self) -> None:
        """Frees what was read."""
        self._tell("free")

    def _tell(self, what: str) -> None:
        for pipe in self._pipes:
            pipe.send(what)
        for pipe in self._pipes:
            pipe.recv()


@contextmanager
def readers(path: Path, partitions: int) -> Iterator[Readers]:
    """Processes that have read their partition once."""
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(partitions)]
    processes = [context.Process(target=_serve, args=(theirs, path, i)) for i, (_, theirs) in enumerate(pairs)]
    for process, (_, theirs) in zip(processes, pairs, strict=True):
        process.start()
        theirs.close()
    try:
        made = Readers([ours for ours, _ in pairs])
        made.read()
        made.free()
        yield made
    finally:
        for ours, _ in pairs:
            ours.close()
        for process in processes:
            process.join()


def _serve(pipe: Connection, path: Path, partition: int) -> None:
    checkpoint = hdfsstore.Checkpoint(path, num_threads=1)
    table = None
    while True:
        try:
            what = pipe.recv()
        except EOFError:
            return
        table = checkpoint.read_state(partitions=[partition]) if what == "read" else None
        if table is None:
            gc.collect()
        pipe.send(what)
