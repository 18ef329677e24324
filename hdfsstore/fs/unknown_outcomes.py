"""The files of which nobody knows whether they were replaced or deleted, because the answers did not come.

Such a request may still take effect, over what is written later. So nothing is written under that name by this process,
nor is a file deleted that was to be replaced, until one of these is so:

    replaced    it is seen that the request has taken effect, and no other try of it was left waiting
    all         the timeout has passed once more. The server has dropped by then what it had not begun

A request may also succeed after a try that was left waiting, and that may take effect later:

    replaced    such a try is refused where a newer file is (s3/writing.py), but it would bring back a deleted one. So
                the file is not deleted until the timeout has passed
    deleted     nothing is written there until the timeout has passed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from hdfsstore.errors import FileSystemTimeoutError

HasLanded: TypeAlias = Callable[[], bool]


@dataclass(slots=True)
class Tries:
    """The tries of a request. Who makes them counts those that the server left waiting."""

    hanging: int = 0


@dataclass(frozen=True, slots=True)
class _Unknown:
    has_landed: HasLanded
    until: float
    no_writes: bool
    no_deletions: bool


class UnknownOutcomes:
    """Any number of threads may use it, and a forked child too.

    Args:
        window_s: how long a request may take effect after it was given up, in seconds.
        shown: a name as the errors show it.
    """

    def __init__(self, window_s: float, shown: Callable[[str], str] = str) -> None:
        self._window_s = window_s
        self._shown = shown
        self._names: dict[str, _Unknown] = {}

    @contextmanager
    def of(self, name: str, has_landed: HasLanded) -> Iterator[Tries]:
        """Surrounds the requests that replace a file.

        Args:
            has_landed: whether one of the requests has taken effect.
        """
        with self._around((name,), has_landed, deletes=False) as tries:
            yield tries

    @contextmanager
    def of_deletion(self, names: Iterable[str]) -> Iterator[Tries]:
        """Surrounds the requests that delete these files. They leave nothing behind by which they could be seen."""
        with self._around(names, _never_seen, deletes=True) as tries:
            yield tries

    def check(self, name: str) -> None:
        """Is called before a file is written.

        Raises:
            FileSystemTimeoutError: an earlier request may still take effect. Its `tries` is 0.
        """
        unknown = self._names.get(name)
        if unknown is not None and unknown.no_writes:
            self._check(name, unknown)

    def check_deletion(self, name: str) -> None:
        """Is called before a file is deleted, which an earlier write could bring back. Raises what `check` raises."""
        unknown = self._names.get(name)
        if unknown is not None and unknown.no_deletions:
            self._check(name, unknown)

    def _check(self, name: str, unknown: _Unknown) -> None:
        left = unknown.until - time.monotonic()
        if left > 0 and not unknown.has_landed():
            raise FileSystemTimeoutError(
                "an earlier write or deletion of this file was given up and may still take effect, so nothing is "
                "written or deleted there",
                self._shown(name),
                remedy=f"Try again in {left:.0f} s",
                tries=0,
            )
        self._names.pop(name, None)

    @contextmanager
    def _around(self, names: Iterable[str], has_landed: HasLanded, *, deletes: bool) -> Iterator[Tries]:
        tries = Tries()
        try:
            yield tries
        except FileSystemTimeoutError as error:
            # If one of several tries is seen, another one may still be on its way.
            is_one = not tries.hanging or error.tries == 1
            if error.tries:
                self._add(names, has_landed if is_one else _never_seen, no_deletions=not deletes)
            raise
        except Exception:  # the server has refused it, or it was never asked
            if tries.hanging:
                self._add(names, _never_seen, no_deletions=not deletes)
            raise
        except BaseException:  # a KeyboardInterrupt
            self._add(names, _never_seen if tries.hanging else has_landed, no_deletions=not deletes)
            raise
        if tries.hanging:
            self._add(names, _never_seen, no_writes=deletes, no_deletions=not deletes)

    def _add(self, names: Iterable[str], has_landed: HasLanded, *, no_writes: bool = True, no_deletions: bool) -> None:
        now = time.monotonic()
        self._names = {name: unknown for name, unknown in list(self._names.items()) if unknown.until > now}
        unknown = _Unknown(has_landed, now + self._window_s, no_writes, no_deletions)
        self._names.update(dict.fromkeys(names, unknown))


def _never_seen() -> bool:
    return False
