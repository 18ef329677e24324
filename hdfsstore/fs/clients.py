"""One FileManager in each process for each place, so that 200 partitions share its connections."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Hashable

from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.secret import Secret


def shared(settings: Hashable, make: Callable[[], FileManager]) -> FileManager:
    """The FileManager of a place. Any number of threads may ask at once: they get the same.

    It is made when it is first asked for; again when a secret of the settings has changed; and again in a forked child.
    Whoever has the one from before keeps it.

    Args:
        settings: all that it takes to reach the place: a frozen dataclass or a plain value, or a tuple of them. What
            may change while the place stays the same is a Secret.
        make: makes a FileManager of these settings. If it raises an error, the next call makes one.
    """
    known = _known_without_secrets(settings)
    with known.lock:
        if known.manager is None or known.settings != settings:
            known.manager = make()
            known.settings = settings
        return known.manager


def renew(settings: Hashable, give: Callable[[FileManager], None]) -> None:
    """Gives new secrets to the FileManager of a place, if there is one, and so to all who have it.

    Args:
        settings: as for `shared`, with the new secrets.
        give: gives them to it. It is not called if the settings are those that it has.
    """
    known = _known_without_secrets(settings)
    with known.lock:
        if known.manager is not None and known.settings != settings:
            give(known.manager)
            known.settings = settings


class _Known:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.settings: Hashable = None
        self.manager: FileManager | None = None


_lock = threading.Lock()
_known: dict[Hashable, _Known] = {}
_of_parents: list[dict[Hashable, _Known]] = []


def _known_without_secrets(settings: Hashable) -> _Known:
    with _lock:
        return _known.setdefault(without_secrets(settings), _Known())


def without_secrets(value: Hashable) -> Hashable:
    """Equal for settings of which only secrets differ."""
    if isinstance(value, Secret):
        return Secret
    if isinstance(value, tuple):
        return tuple(map(without_secrets, value))
    if dataclasses.is_dataclass(value):
        return type(value), *(without_secrets(getattr(value, field.name)) for field in dataclasses.fields(value))
    return value


def _after_fork() -> None:
    """What the parent has made is kept unused: the end of a client might wait for threads, which are the parent's."""
    global _lock, _known
    _of_parents.append(_known)
    _lock, _known = threading.Lock(), {}


os.register_at_fork(after_in_child=_after_fork)
