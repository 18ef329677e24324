"""The release of hdfsstore: that of the driver has to be on every executor."""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib.metadata import version

from hdfsstore.errors import UnsupportedQueryError

RELEASE = version("hdfsstore")


class SameRelease:
    """Something of the driver's that cannot be unpickled by another release, before all else that travels after it."""

    def __reduce__(self) -> tuple[Callable[[str], SameRelease], tuple[str]]:
        return _same, (RELEASE,)


def _same(release_of_driver: str) -> SameRelease:
    if release_of_driver != RELEASE:
        raise UnsupportedQueryError(
            f"the driver has hdfsstore {release_of_driver}, and the executor on {socket.gethostname()} has {RELEASE}",
            remedy="Install the same release on the driver and on every executor",
        )
    return SameRelease()
