"""Work that batches can do without and that may fail: what is said of it, and when it is tried again."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Hashable

# Work that goes on failing is put off for at most so many times as long as after its first failure.
_MOST_WAITS = 16
# Names, versions, ids and times of an error without a number: the same cause gives others each time.
_PARTICULARS = re.compile(r"\S*\d\S*")


class Retries:
    """One kind of work of one provider, which is tried again after it failed. One thread at a time.

    Each cause is warned of once, and again only where the work has succeeded in between.

    Args:
        log: of the module that does the work.
        what: is not done, for log lines, such as "file:///cp/state/0/0: nothing is deleted".
        wait: seconds for which it is put off once it has failed, twice as long after each further failure, up to 16
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
        """The work was tried in vain.

        Args:
            what: is not done, where that differs from try to try.
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
        """The work was done."""
        if self._failures:
            self._log.info("%s: it works again, after %d failed tries", self._what, self._failures)
            self._failures = 0
            self._causes.clear()


def _cause(error: BaseException) -> Hashable:
    while error.__cause__ is not None:
        error = error.__cause__
    number = error.errno if isinstance(error, OSError) else None
    return type(error), number or _PARTICULARS.sub("", str(error))
