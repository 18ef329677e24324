"""The objects of which nobody knows whether they were replaced or deleted, because the answers did not come.

Such a request may still take effect, over what is written later. So nothing is written under that name by this process,
until one of these is so:

    replaced    the owner's token is seen in the object: the request has taken effect
    both        the timeout has passed once more. The server has dropped by then what it had not begun
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hdfsstore.errors import FileSystemTimeoutError


class UnknownOutcomes:
    """Any number of threads may use it, and a forked child too.

    Args:
        window_s: how long a request may take effect after it was given up, in seconds.
        owner_of: reads the owner's token of a key; None if there is no object.
        uri: of a key, for the errors.
    """

    def __init__(self, window_s: float, owner_of: Callable[[str], str | None], uri: Callable[[str], str]) -> None:
        self._window_s = window_s
        self._owner_of = owner_of
        self._uri = uri
        self._names: dict[str, tuple[str | None, float]] = {}  # by key: the owner, and until when

    @contextmanager
    def of(self, keys: Iterable[str], owner: str | None) -> Iterator[None]:
        """Surrounds the requests that replace (with an owner's token) or delete (without one) these keys."""
        try:
            yield
        except FileSystemTimeoutError:
            self._add(keys, owner)
            raise
        except Exception:  # the server has refused it, or it was never asked
            raise
        except BaseException:  # a KeyboardInterrupt
            self._add(keys, owner)
            raise

    def check(self, key: str) -> None:
        """Is called before an object is written.

        Raises:
            FileSystemTimeoutError: an earlier request may still take effect. Its `tries` is 0.
        """
        if key not in self._names:
            return
        owner, until = self._names[key]
        left = until - time.monotonic()
        if left > 0 and (owner is None or self._owner_of(key) != owner):
            raise FileSystemTimeoutError(
                "an earlier write or deletion of this file was given up and may still take effect, so nothing is "
                "written there",
                self._uri(key),
                remedy=f"Try again in {left:.0f} s",
                tries=0,
            )
        self._names.pop(key, None)

    def _add(self, keys: Iterable[str], owner: str | None) -> None:
        now = time.monotonic()
        self._names = {key: value for key, value in list(self._names.items()) if value[1] > now}
        self._names.update((key, (owner, now + self._window_s)) for key in keys)
