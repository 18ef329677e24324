"""Refuses a start where the driver's log would be no fence: where two drivers could both finish a batch.

The entries of the log are created only if absent (driver_log.py). Some filesystems have no such promise. A server may
also take the condition of a PUT and ignore it, so each start of a query creates one file twice.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from hdfsstore.errors import NotPromisedError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.temporary_names import temporary_name
from hdfsstore.spark.querylog.log_entries import FOLDER

log = logging.getLogger("hdfsstore.spark.fence")

_REMEDY = (
    "Keep the checkpoint where this is promised (docs/filesystems.md); or set hdfsstore.singleDriver to true, if you "
    "make sure that no other driver runs the query at the same time"
)


def check_fence(checkpoint: Location, *, single_driver: bool) -> None:
    """Refuses a checkpoint whose filesystem lets two drivers write one entry. It leaves nothing there.

    Args:
        checkpoint: the query's checkpointLocation, as hdfsstore.Checkpoint takes it.
        single_driver: whether the user answers for it that there is one driver. Nothing is written then.

    Raises:
        NotPromisedError: of two drivers that write one entry at the same time, both could succeed.
        StateStoreError: the filesystem fails.
    """
    fs, path = resolve(checkpoint)
    if not fs.promises.tested:
        log.warning("%s: the tests of this package do not run on such a filesystem", fs.identity)
    if single_driver:
        return
    if not fs.promises.create_if_absent:
        raise NotPromisedError(
            f"two drivers of the query could finish the same batch: {fs.identity} has no promise that a file is "
            "created only if it is absent",
            path,
            remedy=_REMEDY,
        )
    if not _one_of_two_is_refused(fs, f"{path}/{FOLDER}/{temporary_name('fence')}"):
        raise NotPromisedError(
            f"two drivers of the query could finish the same batch: {fs.identity} has created a file that was there "
            "already, though it was asked not to",
            path,
            remedy=_REMEDY,
        )


def _one_of_two_is_refused(fs: FileManager, probe: str) -> bool:
    try:
        fs.create(probe, [b"1"])
        try:
            fs.create(probe, [b"2"])
        except FileExistsError:
            return True
        return False
    finally:
        with suppress(StateStoreError):  # a leftover like others, and cleaned as they are
            fs.delete([probe])
