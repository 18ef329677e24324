"""python -m tests.chaos: see tests/chaos/__init__.py. Exit code 1 if anything was found."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.chaos.campaign import run, seeds_of
from tests.chaos.outages import at_random
from tests.chaos.sessions import ROOT
from tests.chaos.storage import STORAGES, running_storage

# The lanes, and their shares of the histories: a driver that is a process costs the start of a few JVMs a history, and
# on a cluster each executor that is killed costs one.
_SHARES = {"local": 0.86, "speculation": 0.07, "cluster": 0.05, "killed": 0.02}
# Lanes that run one after the other, beside those of the other row.
_ROWS = (("local",), ("killed", "speculation", "cluster"))
_RESULT = "result: "


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--histories", type=int, help="in all; without it as many as there is time for")
    parser.add_argument("--seconds", type=float, help="no history, and no kind of them, is begun later")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32), help="of all histories")
    parser.add_argument("--lane", choices=_SHARES, action="append", help="kinds of histories; all without it")
    parser.add_argument("--replay", type=int, help="the seed of one history, of the --lane")
    parser.add_argument("--as-lane", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--places", default="local", help=f"of the checkpoints: {', '.join(STORAGES)} (with commas)")
    options = parser.parse_args()
    if options.histories is None and options.seconds is None:
        options.histories = 500
    if options.as_lane:
        return _lane(options)
    print(f"seed {options.seed}", flush=True)
    # One after the other, each with its own time.
    return max([_place(place, options) for place in options.places.split(",")])


def _place(place: str, options: argparse.Namespace) -> int:
    """All lanes with their checkpoints on one of STORAGES. Returns the exit code."""
    begun = time.monotonic()
    lanes = options.lane or list(_SHARES)
    rows = [[lane for lane in row if lane in lanes] for row in _ROWS]
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hdfsstore-storage-")))
        storage = stack.enter_context(running_storage(place, folder))
        stack.enter_context(at_random(storage.outages, options.seed, done))
        pool = stack.enter_context(ThreadPoolExecutor(len(rows)))
        environ = os.environ | storage.environ
        results = [result for row in pool.map(lambda row: _row(row, options, begun, environ), rows) for result in row]
    done += sum((Counter(result["done"]) for result in results), Counter())
    for what, count in sorted(done.items()):
        print(f"{count:7,}  {what}")
    histories = sum(result["histories"] for result in results)
    seconds = time.monotonic() - begun
    print(f"{place}: {histories:,} histories in {seconds:.0f} s, {seconds / max(1, histories):.2f} s each")
    found = sum(len(result["found"]) for result in results)
    print(f"{found} were wrong" if found else "all were right", flush=True)
    return int(found > 0)


def _lane(options: argparse.Namespace) -> int:
    """One lane, in this process: there is one Spark a process."""
    name = options.lane[0]
    seeds = iter([options.replay]) if options.replay is not None else seeds_of(options.seed, name, options.histories)
    until = time.monotonic() + (options.seconds if options.seconds is not None else float("inf"))
    # In one piece: threads tell of their histories.
    result = run(name, seeds, until, lambda line: print(f"{line}\n", end="", flush=True))
    print(_RESULT + json.dumps(vars(result)), flush=True)
    return int(bool(result.found))


def _row(lanes: list[str], options: argparse.Namespace, begun: float, environ: dict[str, str]) -> list[dict[str, Any]]:
    """The lanes' results, one after the other."""
    results = []
    for i, lane in enumerate(lanes):
        command = [sys.executable, "-m", "tests.chaos", "--as-lane", "--lane", lane, "--seed", str(options.seed)]
        if options.histories is not None:
            command += ["--histories", str(max(1, round(options.histories * _SHARES[lane])))]
        if options.seconds is not None:
            left = options.seconds - (time.monotonic() - begun)
            if i and left <= 0:
                break
            command += ["--seconds", str(max(0.0, left / (len(lanes) - i)))]
        if options.replay is not None:
            command += ["--replay", str(options.replay)]
        results.append(_result(command, lane, environ))
    return results


def _result(command: list[str], lane: str, environ: dict[str, str]) -> dict[str, Any]:
    # What Spark and its workers say of faults is much, and of use only to who replays a seed.
    errors = None if os.environ.get("CHAOS_VERBOSE") else subprocess.DEVNULL
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        assert process.stdout is not None
        result = None
        for line in process.stdout:
            if line.startswith(_RESULT):
                result = json.loads(line.removeprefix(_RESULT))
            else:
                print(line, end="", flush=True)
    if result is None:
        print(f"the lane {lane} ended without a result, with exit code {process.returncode}", flush=True)
        return {"histories": 0, "found": {0: "no result"}, "done": {}}
    return result


if __name__ == "__main__":
    sys.exit(main())
