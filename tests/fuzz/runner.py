"""Runs the cases of a target in a child process and watches over it."""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import resource
import sys
import time
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

from hdfsstore import CorruptFileError, SchemaMismatchError, StateStoreError, UnsupportedTypeError
from tests.fuzz.damage import Cases
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SECONDS_PER_CASE = 20.0
MEMORY_PER_CASE = 1 << 30
LOCATED = (CorruptFileError, SchemaMismatchError)


@dataclass(frozen=True)
class Report:
    """What came of a target: the cases that were run, and the number and story of the one that failed."""

    cases: int
    failed: int | None = None
    story: str = ""


class Bench:
    """A target with its inputs and the right answers."""

    def __init__(self, name: str, seed: int) -> None:
        self.target: Target = TARGETS[name]()
        self._inputs = self.target.inputs()
        self.cases = Cases(seed, name, self._inputs)
        self._answers = [self.target.read(i.origin, i.data) for i in self._inputs]

    def problem(self, number: int) -> str | None:
        """What is wrong with the way a case was read, or None."""
        case = self.cases[number]
        try:
            answer = self.target.read(self._inputs[case.index].origin, case.data)
        except StateStoreError as error:
            # A type that is not known is told by the path of its field.
            if self.target.has_path and error.path is None and not isinstance(error, UnsupportedTypeError):
                return f"the error names no file:\n{traceback.format_exc()}"
            if self.target.has_offset and error.offset is None and isinstance(error, LOCATED):
                return f"the error names no offset:\n{traceback.format_exc()}"
            return None
        except BaseException:  # noqa: BLE001 (that is what is looked for)
            return traceback.format_exc()
        if case.small and self.target.exact and answer != self._answers[case.index]:
            return f"a wrong answer in spite of a checksum: {answer!r:.2000}"
        return None

    def origin(self, number: int) -> str:
        return self._inputs[self.cases[number].index].origin


def run(name: str, seed: int, seconds: float) -> Report:
    """Runs cases 0, 1, ... in a child process until the time is over or one fails."""
    context = multiprocessing.get_context("spawn")
    current = context.Value("q", -1, lock=False)
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(name, seed, seconds, current, sender), daemon=True)
    child.start()
    sender.close()
    since, number = time.monotonic(), -1
    while not receiver.poll(0.2):
        if current.value != number:
            since, number = time.monotonic(), current.value
        elif time.monotonic() - since > (SECONDS_PER_CASE if number >= 0 else 5 * SECONDS_PER_CASE):
            child.kill()
            child.join()
            return Report(number, number, f"no answer after {SECONDS_PER_CASE:.0f} s")
    try:
        report: Report = receiver.recv()
    except EOFError:  # it is dead; the fault handler has said where on stderr
        child.join()
        return Report(current.value, current.value, f"the process ended with exit code {child.exitcode}")
    child.join()
    return report


def _work(name: str, seed: int, seconds: float, current: Any, sender: Any) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    logging.disable()
    bench = Bench(name, seed)
    _bound_memory()
    end = time.monotonic() + seconds
    number, problem = 0, None
    while problem is None and time.monotonic() < end:
        current.value = number
        problem = bench.problem(number)
        number += 1
    bench.target.close()
    sender.send(Report(number) if problem is None else Report(number, number - 1, problem))


def _bound_memory() -> None:
    """From here on allocating MEMORY_PER_CASE more is a MemoryError, where the system can see to that (Linux)."""
    if sys.platform == "linux":
        with open("/proc/self/statm") as statm:  # noqa: PTH123
            size = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY_PER_CASE, resource.RLIM_INFINITY))
