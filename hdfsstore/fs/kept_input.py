"""Keeps what is read from a remote storage for a second read, which then asks for nothing."""

from __future__ import annotations

import logging
import tempfile
from contextlib import suppress
from typing import IO

from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.reading import Input

log = logging.getLogger("hdfsstore.fs.reading")

# What is larger goes to a file without a name in the system's folder for temporary files (TMPDIR).
_IN_MEMORY = 4 << 20


def kept(fs: FileManager, source: Input) -> Input | KeptInput:
    """The same file; after a rewind its bytes come from memory or a temporary file, if `fs` is remote."""
    return source if isinstance(fs, LocalFileManager) else KeptInput(source)


class KeptInput:
    """An Input that is read once from its start, and then again from there.

    Where there is no room to keep it, the second read asks the storage again.
    """

    def __init__(self, source: Input) -> None:
        self._source = source
        self._copy: IO[bytes] | None = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - close() does
        self._again = False

    def readinto(self, buffer: memoryview, /) -> int:
        """As Input.readinto."""
        view = memoryview(buffer).cast("B")
        if self._again and self._copy is not None:
            copied = self._copy.read(len(view))
            view[: len(copied)] = copied
            return len(copied)
        filled = self._source.readinto(view)
        if self._copy is not None:
            try:
                self._copy.write(view[:filled])
            except OSError as error:
                self._give_up(error)
        return filled

    def finish(self) -> None:
        """As Input.finish, in the first read. What was kept has been checked."""
        if not self._again or self._copy is None:
            self._source.finish()

    def rewind(self) -> None:
        """Goes back to the start."""
        self._again = True
        if self._copy is not None:
            try:
                self._copy.seek(0)
            except OSError as error:  # the last bytes are written here
                self._give_up(error)
        if self._copy is None:
            self._source.rewind()
        else:
            self._source.close()

    def close(self) -> None:
        self._source.close()
        self._drop()

    def _give_up(self, error: OSError) -> None:
        log.info("%s is read from the storage twice: it cannot be kept here (%s)", self._source.path, error)
        self._drop()

    def _drop(self) -> None:
        copy, self._copy = self._copy, None
        if copy is not None:
            with suppress(OSError):  # what could not be written is written again
                copy.close()
