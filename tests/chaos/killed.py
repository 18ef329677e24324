"""Histories whose drivers are processes: each is killed with its JVM at a step of the protocol; the next one starts.

python -m tests.chaos.killed FOLDER      # a driver, which finds in the folder what it is to do
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.chaos.deaths import STEPS, install, kill_process
from tests.chaos.history import OUTAGES, Found
from tests.chaos.query import Query, Settings
from tests.chaos.sessions import ROOT, session
from tests.chaos.shapes import SHAPES
from tests.chaos.storage import failure_of_storage

_ORDERS = "orders.json"
_SECONDS = 600


def killed_history(
    folder: Path, seed: int, done: Counter[str], steps: Sequence[str] | None = None, settings: Settings | None = None
) -> None:
    """Runs a history whose drivers die at these steps, one after the other, before one comes to the end.

    Args:
        done: counts the kills.
        steps: None: two or three, as the seed has it.
        settings: None: as the seed has it.
    """
    chance = random.Random(f"{seed}-killed")
    steps = steps or chance.sample(STEPS, chance.randint(2, 3))
    query = Query(None, folder, settings or Settings.at_random(chance, with_v1=True))
    for i, step in enumerate((*steps, "never")):
        # The first batch may be one that the driver before has committed: there is no step in it.
        query.write(chance)
        orders = {"seed": seed, "run": i, "step": step, "settings": asdict(query.settings)}
        (folder / _ORDERS).write_text(json.dumps(orders))
        for tries in range(OUTAGES):
            said = folder / f"driver-{i}-{tries}"
            with said.open("w") as file:
                command = [sys.executable, "-m", "tests.chaos.killed", str(folder)]
                code = subprocess.run(command, cwd=ROOT, stdout=file, stderr=file, timeout=_SECONDS).returncode
            if code == -signal.SIGKILL:
                done[f"SIGKILL of the driver {step}"] += 1
            if code in (0, -signal.SIGKILL):
                break
            text = said.read_text()[-4000:]
            failure = failure_of_storage(text)
            if failure is None:
                raise Found(f"driver that was to die {step}: exit code {code}\n{text}")
            done[f"storage fails a driver: {failure}"] += 1
        else:
            raise Found(f"no driver that was to die {step} comes to its end")
    query.check(chance)


def _drive(folder: Path, seed: int, run: int, step: str, settings: dict[str, Any]) -> None:
    install()
    chance = random.Random(f"{seed}-{run}")

    def at(name: str, batch_id: int) -> None:  # noqa: ARG001
        if name == step:
            kill_process()

    with session("local", folder / f"spark-{run}") as spark:
        query = Query(spark, folder, Settings(**settings))
        query.start(lambda _: None, lambda _: chance.choice(list(SHAPES)), at).awaitTermination()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    _drive(path, **json.loads((path / _ORDERS).read_text()))
