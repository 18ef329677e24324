"""applyInPandasWithState's engine beside its floor, the user's function alone; and where the time of a key goes."""

from __future__ import annotations

import statistics

from bench.events import Events
from bench.pandas_sides import PARTITIONS, STAGES, Workers
from bench.report import Report


def test_pandas_floor(report: Report, smoke: bool, rounds: int) -> None:
    events = Events(1_000, 500, 500) if smoke else Events(100_000, 50_000, 50_000)
    workers = Workers([events.table(batch) for batch in range(2)])
    taken: dict[str, list[float]] = {name: [] for name in ("floor", "engine", *STAGES)}
    try:
        for turn in range(rounds + 1):
            for name, seconds in taken.items():
                seconds.append(workers.run(name, turn).cpu)
    finally:
        workers.close()
    keys = events.users / PARTITIONS
    of_key = {name: statistics.median(seconds[1:]) / keys * 1e6 for name, seconds in taken.items()}
    floor, engine = of_key.pop("floor"), of_key.pop("engine")
    report.add("a key of applyInPandasWithState: the function alone", f"{floor:.1f} us", "CPU time")
    report.add("the same by our engine, over a store", f"{engine:.1f} us", "")
    report.add("the engine takes, of the function alone", f"{engine / floor:.2f} x", "goal: at most 1.3 x with Spark")
    for name, cost in of_key.items():
        report.add(f"the engine with a function that does nothing: {name}", f"{cost:.1f} us", "")
