"""Shows a checkpoint on the whole terminal while a thread looks at it again and again."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live

from hdfsstore.cli.terminal import Wakes, keys_at_once
from hdfsstore.cli.watch_screen import screen
from hdfsstore.report.watched import Moment, Watched

_END_SECONDS = 1.0


def show_live(console: Console, watched: Watched, interval: float, rows: bool, count: int) -> None:
    """Shows it until `q`, Ctrl-C (KeyboardInterrupt), SIGTERM (SystemExit), an error, or so many committed batches.

    Args:
        interval: seconds between two looks.
        count: 0 means that their number has no end.
    """
    wakes = Wakes()
    looks = _Looks(watched, interval, rows, wakes)
    seen: set[int] = set()
    with wakes.on_signals(), keys_at_once(), Live(console=console, screen=True, auto_refresh=False) as live, looks:
        for typed in wakes.typed():
            if typed in ("q", "Q"):
                return
            moment = looks.newest()
            footer = f"q ends. {datetime.now(UTC):%H:%M:%S} UTC, a look every {interval:g} s"
            live.update(screen(moment, console.size, time.time_ns() // 1_000_000, footer), refresh=True)
            if moment is not None and moment.committed is not None:
                seen.add(moment.committed.batch_id)
            if count and len(seen) >= count:
                return


class _Looks:
    """Looks in a thread of its own, so that a slow storage delays no key."""

    def __init__(self, watched: Watched, interval: float, rows: bool, wakes: Wakes) -> None:
        self._watched = watched
        self._interval = interval
        self._rows = rows
        self._wakes = wakes
        self._ends = threading.Event()
        self._newest: Moment | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="hdfsstore-watch", daemon=True)

    def newest(self) -> Moment | None:
        """What was seen last; None before the first look. Raises the error that has ended the looks."""
        if self._error is not None:
            raise self._error
        return self._newest

    def __enter__(self) -> None:
        self._wakes.wake()
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        try:
            while True:
                self._newest = self._watched.look()
                self._wakes.wake()
                if self._rows:
                    self._newest = self._watched.count()
                    self._wakes.wake()
                if self._ends.wait(self._interval):
                    return
        except BaseException as error:  # noqa: BLE001 - raised again by newest()
            self._error = error
            self._wakes.wake()
