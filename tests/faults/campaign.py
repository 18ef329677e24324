"""Writers that are killed one after the other on one store, with a check after each."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.faults import writer
from tests.faults.history import Done, History
from tests.faults.server import Outcome, Server
from tests.faults.shim import Action, Fault

STEPS = 8
# After each sweep over the calls of a run so many kills at random times, with maintenance in the background.
_AT_RANDOM = 40
_LONGEST = 0.08
_LONG = 5.0
_CALLS = 100
_INTERVAL = 0.002
_WITHOUT_END = 100_000
_KINDS = re.compile(r"\.(delta|snapshot|image)\b|\b(in-use|cleaning|json)\b")


@dataclasses.dataclass
class Figures:
    """What a campaign has done: kills by call and kind of file, commits that came through, versions read after them."""

    kills: Counter[str] = dataclasses.field(default_factory=Counter)
    at_random: int = 0
    sweeps: int = 0
    commits: int = 0
    read: int = 0

    @property
    def all_kills(self) -> int:
        return self.kills.total() + self.at_random


class Broken(AssertionError):
    """A committed version is lost, or a writer failed where nothing was wrong."""


class Campaign:
    """Kills writers of one store in a folder of its own.

    Args:
        server: imports tests.faults.writer.
        root: the folder; it is kept where something is found.
        formats: the checkpoint's format version; several: each writer takes one of them.
        seed: what all that is done follows from, but for the threads' timing.
    """

    def __init__(self, server: Server, root: Path, formats: Sequence[int], seed: int) -> None:
        self.figures = Figures()
        self._server = server
        self._root = root
        self._formats = formats
        self._seed = seed
        self._chosen = random.Random(f"{seed} {formats}")
        self.history = History(writer.RETAINED)
        self._runs = 0

    def run(self, until: float) -> None:
        """Sweeps and kills at random in turn, until that time (time.monotonic) has come.

        Raises:
            Broken: what was found, and how it came about.
        """
        while time.monotonic() < until:
            self.sweep(until=until)
            self.at_random(_AT_RANDOM, until)

    def sweep(self, calls: int | None = None, until: float = math.inf) -> None:
        """A run killed at its first call that writes, the next at its second, till one gets through its steps.

        Args:
            calls: at how many calls at most.
        """
        for at in itertools.count(1):
            for action in (Action.KILL_BEFORE, Action.KILL_HALF_WAY):
                if time.monotonic() >= until or at - 1 == calls:
                    return
                outcome = self._write(Fault(str(self._root), action, at))
                if not outcome.killed:
                    self.figures.sweeps += 1
                    return
                self.figures.kills[kind(outcome.what)] += 1

    def at_random(self, kills: int, until: float = math.inf) -> None:
        """Runs with maintenance in the background, each killed after a time or at a call."""
        for _ in range(kills):
            if time.monotonic() >= until:
                return
            fault, seconds = Fault(str(self._root)), self._chosen.uniform(0, _LONGEST)
            if self._chosen.random() < 0.5:  # at a call after all, be it one of the background's
                action = self._chosen.choice((Action.KILL_BEFORE, Action.KILL_HALF_WAY))
                fault, seconds = Fault(str(self._root), action, self._chosen.randrange(1, _CALLS)), _LONG
            outcome = self._write(fault, _INTERVAL, seconds)
            self.figures.at_random += outcome.killed

    def _write(self, fault: Fault, interval: float = 0.0, kill_after: float | None = None) -> Outcome:
        history, format_version = self.history, self._chosen.choice(self._formats)
        job = writer.Job(
            str(self._root),
            format_version,
            f"{self._seed} {self._runs}",
            (history.tip, history.state(history.tip)),
            None if history.before is None else (history.before, history.state(history.before)),
            STEPS if kill_after is None else _WITHOUT_END,
            interval,
        )
        outcome = self._server.run(writer.write, job, fault=fault, kill_after=kill_after)
        story = f"run {self._runs} of seed {self._seed}, format {format_version}, {fault}, killed at {outcome.what!r}"
        self._runs += 1
        if outcome.error is not None or outcome.hung:
            raise Broken(f"the writer failed: {story}\n{outcome.error or 'it hung'}")
        for message in outcome.messages:
            history.note(message)
        self.figures.commits += sum(1 for message in outcome.messages if isinstance(message, Done))
        # Every other time without the images that the writer has left.
        images = ("images", "images-of-the-checker")[self._runs % 2]
        args = (str(self._root), format_version, history.expected(), images, story)
        checked = self._server.run(writer.check, *args, fault=Fault(str(self._root)))
        if checked.error is not None or checked.hung or checked.killed:
            raise Broken(f"the check failed: {story}\nimages in {images}\n{checked.error or 'it hung'}")
        self.figures.read += len(checked.messages)
        shutil.rmtree(self._root / "images-of-the-checker", ignore_errors=True)
        return outcome


def kind(what: str) -> str:
    """A call and the kind of file that it was about."""
    call, _, path = what.partition(" ")
    name = path.rpartition("/")[2]
    match = _KINDS.search(name)
    found = "folder" if match is None else match[1] or match[2]
    if name.endswith((".tmp", ".lock")):
        found += {".tmp": ", temporary", ".lock": ", lock"}[Path(name).suffix] if match is not None else ""
    return f"{call} {found}"
