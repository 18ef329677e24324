"""The release of hdfsstore: that of the driver has to be on every executor.

A folder that was copied without the package's metadata (hdfsstore-*.dist-info) does not tell its release. Where that is
so on the driver or on an executor, there is nothing to compare, and the task goes on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from hdfsstore.errors import UnsupportedQueryError

UNKNOWN = "unknown (no package metadata)"


def _installed() -> str:
    try:
        return version("hdfsstore")
    except PackageNotFoundError:
        return UNKNOWN


RELEASE = _installed()


class SameRelease:
    """Something of the driver's that cannot be unpickled by another release, before all else that travels after it."""

    def __reduce__(self) -> tuple[Callable[[str], SameRelease], tuple[str]]:
        return _same, (RELEASE,)


def _same(release_of_driver: str) -> SameRelease:
    if release_of_driver != RELEASE and UNKNOWN not in (release_of_driver, RELEASE):
        raise UnsupportedQueryError(
            f"the driver has hdfsstore {release_of_driver}, and the executor on {socket.gethostname()} has {RELEASE}",
            remedy="Install the same release on the driver and on every executor",
        )
    return SameRelease()
