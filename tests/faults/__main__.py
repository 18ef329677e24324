"""python -m tests.faults: see tests/faults/__init__.py. Exit code 1 if anything was found."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.campaign import Broken, Campaign
from tests.faults.server import Server

_MORE_SECONDS = 5.0
# Each in a store of its own; in the last one the writers take turns.
FORMATS = {"1": (1,), "2": (2,), "both": (1, 2)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="for all campaigns together, at least")
    parser.add_argument("--kills", type=int, default=0, help="of all campaigns together, at least")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--formats", choices=FORMATS, action="append", help="of the checkpoint; all by default")
    options = parser.parse_args()
    formats = options.formats or list(FORMATS)
    print(f"seed {options.seed}")
    started = time.monotonic()
    campaigns: list[Campaign] = []

    def until() -> float:
        """When to stop, as far as that is known: a little later for as long as there are not enough kills."""
        enough = sum(campaign.figures.all_kills for campaign in campaigns) >= options.kills
        return started + options.seconds if enough else time.monotonic() + _MORE_SECONDS

    with ThreadPoolExecutor(len(formats)) as pool:
        results = list(pool.map(lambda name: _run(name, options.seed, until, campaigns), formats))
    minutes = (time.monotonic() - started) / 60
    kills = sum((campaign.figures.kills for campaign, _ in results), Counter())
    for what, count in sorted(kills.items()):
        print(f"{count:7,}  {what}")
    total = sum(campaign.figures.all_kills for campaign, _ in results)
    print(f"{total:,} kills, {total / minutes:,.0f} a minute")
    return int(any(broken for _, broken in results))


def _run(formats: str, seed: int, until: Callable[[], float], campaigns: list[Campaign]) -> tuple[Campaign, bool]:
    root = Path(tempfile.mkdtemp(prefix="hdfsstore-faults-"))
    with Server("tests.faults.writer") as server:
        campaign = Campaign(server, root, FORMATS[formats], seed)
        campaigns.append(campaign)
        try:
            while (end := until()) > time.monotonic():
                campaign.run(end)
        except Broken as broken:
            print(f"FOUND, files in {root}: {broken}", flush=True)
            return campaign, True
    figures = campaign.figures
    print(
        f"formats {formats}: {figures.kills.total():,} kills at calls in {figures.sweeps} sweeps, "
        f"{figures.at_random:,} at random times, {figures.commits:,} commits, {figures.read:,} versions read",
        flush=True,
    )
    shutil.rmtree(root)
    return campaign, False


if __name__ == "__main__":
    sys.exit(main())
