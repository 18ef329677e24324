"""Check that every executor has the driver's release of hdfsstore.

A package that was copied without its metadata (hdfsstore-*.dist-info) has no known release. If that is so on the driver
or on an executor, nothing is compared, and the task continues.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from hdfsstore.errors import UnsupportedQueryError
from hdfsstore.release import RELEASE, UNKNOWN


class SameRelease:
    """Fails to unpickle under another release than the driver's. It is pickled first, so nothing else is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], SameRelease], tuple[str]]:
        return _same, (RELEASE,)


def _same(release_of_driver: str) -> SameRelease:
    if release_of_driver != RELEASE and UNKNOWN not in (release_of_driver, RELEASE):
        raise UnsupportedQueryError(
            f"the driver has hdfsstore {release_of_driver}, and the executor on {socket.gethostname()} has {RELEASE}",
            remedy="Install the same release on the driver and on every executor",
        )
    return SameRelease()
