"""The files of which nobody knows whether they were replaced or deleted, because the answers did not come.

Such a request may still take effect, over what is written later. So nothing is written under that name by this process,
until one of these is so:

    replaced    it is seen that the request has taken effect
    both        the timeout has passed once more. The server has dropped by then what it had not begun
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from hdfsstore.errors import FileSystemTimeoutError

HasLanded: TypeAlias = Callable[[], bool]


class UnknownOutcomes:
    """Any number of threads may use it, and a forked child too.

    Args:
        window_s: how long a request may take effect after it was given up, in seconds.
        shown: a name as the errors show it.
    """

    def __init__(self, window_s: float, shown: Callable[[str], str] = str) -> None:
        self._window_s = window_s
        self._shown = shown
        self._names: dict[str, tuple[HasLanded, float]] = {}  # by name, and until when

    @contextmanager
    def of(self, names: Iterable[str], has_landed: HasLanded) -> Iterator[None]:
        """Surrounds the requests that replace or delete these files.

        Args:
            has_landed: whether the requests have taken effect, if that can be seen later.
        """
        try:
            yield
        except FileSystemTimeoutError:
            self._add(names, has_landed)
            raise
        except Exception:  # the server has refused it, or it was never asked
            raise
        except BaseException:  # a KeyboardInterrupt
            self._add(names, has_landed)
            raise

    def check(self, name: str) -> None:
        """Is called before a file is written.

        Raises:
            FileSystemTimeoutError: an earlier request may still take effect. Its `tries` is 0.
        """
        if name not in self._names:
            return
        has_landed, until = self._names[name]
        left = until - time.monotonic()
        if left > 0 and not has_landed():
            raise FileSystemTimeoutError(
                "an earlier write or deletion of this file was given up and may still take effect, so nothing is "
                "written there",
                self._shown(name),
                remedy=f"Try again in {left:.0f} s",
                tries=0,
            )
        self._names.pop(name, None)

    def _add(self, names: Iterable[str], has_landed: HasLanded) -> None:
        now = time.monotonic()
        self._names = {name: value for name, value in list(self._names.items()) if value[1] > now}
        self._names.update((name, (has_landed, now + self._window_s)) for name in names)


def never_seen() -> bool:
    """For requests that leave nothing behind by which they could be told from others: deletions."""
    return False
