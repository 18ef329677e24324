"""Logs failures of background work, and decides when the work is tried again."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Hashable

# The wait after a failure grows to at most this multiple of the first one.
_MOST_WAITS = 16
# Words with digits in an error: names, versions, ids and times, which differ each time for the same cause.
_PARTICULARS = re.compile(r"\S*\d\S*")


class Retries:
    """One kind of work of one provider, which is tried again after a failure. One thread at a time.

    Each cause gets one warning, and another one only after the work has succeeded in between.

    Args:
        log: of the module that does the work.
        what: the consequence of a failure for log lines, such as "file:///cp/state/0/0: nothing is deleted".
        wait: seconds before it is tried again after the first failure. They double with each further failure, up to 16
            times as long. 0: it is tried at each call.
    """

    def __init__(self, log: logging.Logger, what: str, wait: float) -> None:
        self._log = log
        self._what = what
        self._wait = wait
        self._failures = 0  # since the work succeeded last
        self._causes: set[Hashable] = set()
        self._put_off_until = 0.0  # on time.monotonic

    @property
    def is_put_off(self) -> bool:
        """Whether it is too early to try the work again. Costs less than a microsecond."""
        return self._failures > 0 and time.monotonic() < self._put_off_until

    def failed(self, error: BaseException, what: str | None = None) -> None:
        """Notes and logs that the work has failed.

        Args:
            what: the consequence, if it differs from failure to failure.
        """
        self._put_off_until = time.monotonic() + self._wait * min(_MOST_WAITS, 2**self._failures)
        self._failures += 1
        cause = _cause(error)
        if cause in self._causes:
            self._log.info("%s, for the %dth time in a row: %s", what or self._what, self._failures, error)
        else:
            self._causes.add(cause)
            self._log.warning("%s; it is tried again: %s", what or self._what, error, exc_info=error)

    def succeeded(self) -> None:
        """Notes that the work has succeeded."""
        if self._failures:
            self._log.info("%s: it works again, after %d failed tries", self._what, self._failures)
            self._failures = 0
            self._causes.clear()


def _cause(error: BaseException) -> Hashable:
    while error.__cause__ is not None:
        error = error.__cause__
    number = error.errno if isinstance(error, OSError) else None
    return type(error), number or _PARTICULARS.sub("", str(error))
