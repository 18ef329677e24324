"""Parses `--option-file`: storage options as lines `name=value`, because `ps` shows the arguments of a command."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.secret import Secret
from hdfsstore.fs.storage_options import has_secrets


def read_options(path: Path | None) -> dict[str, Secret]:
    """The options in a file; none without a file. Blank lines and those that begin with # are left out.

    Raises:
        StateStoreError: the file cannot be read, is not of such lines, or has a key and everybody may read it.
    """
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            lines = file.read().decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        # The text of a decoding error has the bytes.
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise StateStoreError(f"the options cannot be read: {why}", str(path)) from None
    options: dict[str, Secret] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        name = name.strip()
        if not name or name.startswith("#"):
            if equals and not name:
                raise _error(path, number, "a name is missing before the =")
            continue
        if not equals:
            raise _error(path, number, "an = is missing")
        if name in options:
            raise _error(path, number, f"{name} is there twice")
        options[name] = Secret(value.strip())
    if mode & stat.S_IROTH and has_secrets(options):
        raise StateStoreError(
            "everybody on this machine may read this file, and it has a key", str(path), remedy=f"chmod 600 {path}"
        )
    return options


def _error(path: Path, number: int, message: str) -> StateStoreError:
    """Names the line by its number alone: it may have a key."""
    return StateStoreError(
        f"line {number}: {message}", str(path), remedy="Write one option a line, as name=value, or # before a comment"
    )
