"""The guard: the newest entry of the offset log while a repair changes the checkpoint in place, or writes a new one.

    v99                                                           of no release: Spark refuses to start
    {"hdfsstore":{"verb":"rewind","backup":"20261122T231501.123Z","run":"c0ffee..."}}

Spark says INVALID_LOG_VERSION, or, before 4.0, UnsupportedLogVersion. A query that runs finds the name of its next
batch taken, and ends.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.errors import RepairUnderWayError

UNDO = "undo"
# In the place of a verb, where a new checkpoint is written.
TO_NEW = "--to"
_VERSION_LINE = b"v99\n"
_FIELD = "hdfsstore"


@dataclass(frozen=True, slots=True)
class Guard:
    """What the guard tells.

    Attributes:
        verb: of the repair in place; or TO_NEW.
        backup: the name of its folder in `<checkpoint>/_hdfsstore_backup`; empty with TO_NEW.
        run: of the process that is at work. Another one that takes over puts its own, and the first one stops.
    """

    verb: str
    backup: str
    run: str = ""

    def error(self, path: str) -> RepairUnderWayError:
        """The error for whoever meets the guard at a path."""
        if self.verb == TO_NEW:
            return RepairUnderWayError(
                "a new checkpoint is being written here, or the run that wrote it was killed: Spark does not start "
                "from it",
                path,
                remedy="Run the same command again, which begins anew; or delete the folder",
            )
        again = f"Run `hdfsstore {self.verb}` with the same arguments again, which ends it, or `hdfsstore undo`"
        if self.verb == UNDO:
            again = "Run `hdfsstore undo` again, which ends it"
        return RepairUnderWayError(
            f"`{self.verb}` is changing the checkpoint, or was killed while it did: Spark does not start the query, "
            "and what is read may be of no moment",
            path,
            remedy=again,
        )


def encode_guard(guard: Guard) -> bytes:
    """The content of the entry."""
    return _VERSION_LINE + dump_json({_FIELD: asdict(guard)}).encode()


def parse_guard(content: bytes) -> Guard | None:
    """The guard in an entry's content; None if it is another entry."""
    if not content.startswith(_VERSION_LINE):
        return None
    try:
        fields = json.loads(content[len(_VERSION_LINE) :])[_FIELD]
        return Guard(str(fields["verb"]), str(fields["backup"]), str(fields.get("run", "")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
