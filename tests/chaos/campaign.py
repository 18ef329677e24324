"""Many histories on one session, several at a time."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import deaths
from tests.chaos.history import History
from tests.chaos.killed import killed_history
from tests.chaos.sessions import session

# Histories at a time. They wait for one another's processes most of the time.
_THREADS = {"local": 3, "cluster": 2, "speculation": 2, "killed": 1}


@dataclass
class Result:
    """Attributes:
    histories: how many were run.
    found: seed -> what is wrong.
    done: what went wrong on purpose.
    """

    histories: int = 0
    found: dict[int, str] = field(default_factory=dict)
    done: Counter[str] = field(default_factory=Counter)


def run(name: str, seeds: Iterator[int], until: float, tell: Callable[[str], None]) -> Result:
    """Runs histories of these seeds.

    Args:
        name: of a session, or "killed" for drivers that are processes of their own.
        until: by time.monotonic: no history is begun later, but there is one at least.
        tell: gets a line for each history.
    """
    result = Result()
    lock = threading.Lock()
    root = Path(tempfile.mkdtemp(prefix="hdfsstore-chaos-"))
    first = next(seeds)
    seeds = itertools.chain([first], itertools.takewhile(lambda _: time.monotonic() < until, seeds))

    with ExitStack() as stack:
        if name == "killed":
            spark = None
        else:
            deaths.install()
            spark = stack.enter_context(session(name, root))

        def one(seed: int) -> None:
            folder = root / str(seed)
            begun = time.monotonic()
            try:
                if spark is None:
                    killed_history(folder, seed, result.done)
                else:
                    History(spark, name, folder, seed, result.done).run()
            except Exception as error:  # noqa: BLE001  # whatever it is, it was found
                what = f"{error}" if isinstance(error, AssertionError) else traceback.format_exc(limit=-3)
                result.found[seed] = what
                tell(f"{name} {seed} FOUND, files in {folder}: {what}")
                return
            finally:
                with lock:
                    result.histories += 1
            shutil.rmtree(folder, ignore_errors=True)
            tell(f"{name} {seed} is right, {time.monotonic() - begun:.1f} s")

        def work() -> None:
            while True:
                with lock:
                    seed = next(seeds, None)
                if seed is None:
                    return
                one(seed)

        with ThreadPoolExecutor(_THREADS[name]) as pool:
            for future in [pool.submit(work) for _ in range(_THREADS[name])]:
                future.result()
    if not result.found:
        shutil.rmtree(root, ignore_errors=True)
    return result


def seeds_of(seed: int, name: str, count: int | None) -> Iterator[int]:
    """The seeds of the histories of a lane; count None: without end."""
    chance = random.Random(f"{seed}-{name}")
    endless = (chance.getrandbits(32) for _ in itertools.count())
    return endless if count is None else itertools.islice(endless, count)
