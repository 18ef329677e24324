"""python -m tests.fuzz: see tests/fuzz/__init__.py. Exit code 1 if anything was found."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.runner import Bench, Report, run
from tests.fuzz.targets import TARGETS

FOUND = Path("build/fuzz")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all targets together (60)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--target", choices=TARGETS, action="append", help="may be repeated; all of them by default")
    parser.add_argument("--case", type=int, help="run this case of one target only, in this process")
    options = parser.parse_args()
    names = options.target or list(TARGETS)
    if options.case is not None:
        if len(names) > 1:
            parser.error("--case needs --target")
        return _one(names[0], options.seed, options.case)

    print(f"seed {options.seed}")
    workers = min(os.cpu_count() or 1, len(names))
    rounds = -(-len(names) // workers)
    with ThreadPoolExecutor(workers) as pool:
        reports = pool.map(lambda name: _run(name, options.seed, options.seconds / rounds), names)
        return int(any(report.failed is not None for report in reports))


def _run(name: str, seed: int, seconds: float) -> Report:
    started = time.monotonic()
    report = run(name, seed, seconds)
    print(f"{name}: {report.cases:,} cases in {time.monotonic() - started:.1f} s", flush=True)
    if report.failed is not None:
        _save(name, seed, report)
    return report


def _save(name: str, seed: int, report: Report) -> None:
    print(f"FOUND in {name}: {report.story}")
    if report.failed is None or report.failed < 0:
        return
    bench = Bench(name, seed)
    file = FOUND / f"{name}-{seed}-{report.failed}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bench.cases[report.failed].data)
    print(f"{bench.origin(report.failed) or 'the input'} as in {file}; again: ", end="")
    print(f"python -m tests.fuzz --target {name} --seed {seed} --case {report.failed}", flush=True)
    bench.target.close()


def _one(name: str, seed: int, number: int) -> int:
    bench = Bench(name, seed)
    problem = bench.problem(number)
    bench.target.close()
    print(problem or "nothing is wrong")
    return int(problem is not None)


if __name__ == "__main__":
    sys.exit(main())
