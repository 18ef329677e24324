"""The names of files that are not finished, as Spark gives them (CheckpointFileManager.scala)."""

from __future__ import annotations

import re
import uuid

# A killed writer, of Spark or of this package, leaves such a file behind.
TEMPORARY_NAME = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.tmp")


def temporary_name(name: str) -> str:
    """A new name, for the content of the file `name` until it is whole."""
    return f".{name}.{uuid.uuid4()}.tmp"


def temporary_path(path: str) -> str:
    """The same for a path, in the same folder."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + temporary_name(name)
