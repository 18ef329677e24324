"""Opens URIs whose schemes only fsspec knows: memory:, webhdfs:, sftp: and others.

Who writes to such a place, and how, fsspec's filesystem decides. `ArrowFileManager` says what is promised there.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.redaction import scrubbed, shown

_SECRET = re.compile(r"[^/]*//[^/]*:[^/]*@|[^?]*\?")


@dataclass(frozen=True, slots=True)
class FsspecPlace:
    """A filesystem of fsspec that is not connected yet.

    Attributes:
        protocol: fsspec's name of it.
        options: what its constructor takes.
        path: of the URI.
        uri: as messages may show it.
    """

    protocol: str
    options: tuple[tuple[str, Hashable], ...]
    path: str
    uri: str

    @property
    def key(self) -> Hashable:
        """Equal for places on the same filesystem."""
        return "fsspec", self.protocol, self.options

    def connect(self) -> FileSystem:
        """The filesystem, without a cache of lists: other processes write there too.

        Raises:
            StateStoreError: it cannot be reached, or a package is missing.
        """
        import fsspec

        try:
            fs = fsspec.filesystem(self.protocol, **dict(self.options), skip_instance_cache=True)
        except Exception as error:  # noqa: BLE001 fsspec's filesystems have errors of their own
            why = scrubbed(str(error), self.uri)
        else:
            if hasattr(fs, "dircache"):
                fs.dircache.use_listings_cache = False
            return PyFileSystem(FSSpecHandler(fs))
        raise StateStoreError(f"fsspec cannot open this filesystem: {why}", self.uri, remedy="Check the URI")


def fsspec_place(uri: str, scheme: str) -> FsspecPlace | None:
    """What fsspec makes of a URI; None: it does not know the scheme, or is not installed.

    Raises:
        UnsupportedSettingError: the URI has a password or settings in it, or is a chain of filesystems.
        StateStoreError: fsspec knows the scheme, and a package for it is missing.
    """
    try:
        import fsspec
    except ImportError:
        return None
    if scheme not in fsspec.available_protocols():
        return None
    if "::" in uri or _SECRET.match(uri):
        raise UnsupportedSettingError(
            "the URI has a password or settings in it, or is a chain of filesystems",
            shown(uri),
            remedy="Give a pair (pyarrow.fs.FileSystem, path), or say them in fsspec's own configuration: "
            "a URI is stored and logged",
        )
    try:
        kind: Any = fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        raise StateStoreError(
            f"fsspec needs another package for {scheme}: {error}", uri, remedy="Install it"
        ) from error
    options = kind._get_kwargs_from_urls(uri)
    path = str(kind._strip_protocol(uri))
    return FsspecPlace(scheme, tuple(sorted(options.items())), path, uri)
