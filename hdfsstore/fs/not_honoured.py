"""Warns of settings that are not honoured, of each once in a process."""

from __future__ import annotations

import logging
import threading

log = logging.getLogger("hdfsstore.fs.settings")

_warned: set[str] = set()
_lock = threading.Lock()


def warn_of(name: str, what: str) -> None:
    """Logs a warning with the name of a setting of Hadoop, and never its value."""
    with _lock:
        is_new = name not in _warned
        _warned.add(name)
    if is_new:
        log.warning("Hadoop's setting %s %s", name, what)
