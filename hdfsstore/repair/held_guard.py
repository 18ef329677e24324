"""The guard as one run of a repair puts it in: it tells that run whether another one has taken over."""

from __future__ import annotations

import uuid
from contextlib import closing
from dataclasses import dataclass

from hdfsstore.checkpoint.guard import Guard, encode_guard, parse_guard
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.publish import publish
from hdfsstore.fs.reading import read_whole


@dataclass(frozen=True, slots=True)
class HeldGuard:
    """The guard of this run: no other run puts in the same bytes."""

    fs: FileManager
    path: str
    content: bytes

    @classmethod
    def put(cls, fs: FileManager, path: str, verb: str, backup: str = "", *, overwrite: bool) -> HeldGuard:
        """Puts a guard in.

        Args:
            verb, backup: what it tells.
            overwrite: it takes the place of another run's. Otherwise an entry of that name is a FileExistsError.
        """
        content = encode_guard(Guard(verb, backup, uuid.uuid4().hex))
        publish(fs, path, content, overwrite=overwrite)
        return cls(fs, path, content)

    @property
    def is_there(self) -> bool:
        """Whether it is in its place. For each step, right before it."""
        return self._found() == self.content

    def is_held_by(self, verb: str) -> bool:
        """Whether the guard of another run is in its place, for this verb."""
        found = parse_guard(self._found())
        return found is not None and found.verb == verb

    def _found(self) -> bytes:
        try:
            with closing(self.fs.open_file(self.path)) as file:
                return read_whole(file)
        except FileNotFoundError:
            return b""
