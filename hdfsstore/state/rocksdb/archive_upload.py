"""Makes the zip of a RocksDB, and uploads the SST files that the checkpoint does not have yet.

An SST file never changes. A zip names again the files that an earlier zip of the same RocksDB has uploaded, unless that
zip is so old that retention may delete it, with files that only it names, before the new zip is written.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.publish import publish
from hdfsstore.state.rocksdb import archive
from hdfsstore.state.rocksdb.instance import Instance
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.reader import VersionReader

Step = Callable[[], None]

_BLOCK = 1 << 20


class Zips:
    """Makes zips of one store. Threads may share it.

    Attributes:
        reader: of the store's files; it says where and how they are written.

    Args:
        keep: min_versions_to_retain.
    """

    def __init__(self, reader: VersionReader, keep: int) -> None:
        self.reader = reader
        self._keep = keep

    def content(
        self, instance: Instance, checkpoint: Path, num_keys: int, version_id: VersionId, step: Step = lambda: None
    ) -> Iterator[bytes]:
        """The zip of a RocksDB checkpoint. Its SST files are uploaded before the zip is yielded.

        Args:
            checkpoint: its folder, from Instance.checkpoint.
            num_keys: of the version.
            version_id: the version in it.
            step: called between two blocks.
        """
        try:
            paths = sorted(checkpoint.iterdir())
            ssts = [self._sst(instance, path, version_id, step) for path in paths if path.suffix == archive.SST]
            others = {path.name: path.read_bytes() for path in paths if archive.belongs(path.name)}
        except OSError as error:
            raise StateStoreError(f"the checkpoint of a RocksDB cannot be read: {error}", str(checkpoint)) from error
        yield archive.encode(archive.Archive(others, ssts, num_keys))
        instance.uploaded = {sst.local: (version_id[0], sst) for sst in ssts}

    def _sst(self, instance: Instance, path: Path, version_id: VersionId, step: Step) -> archive.Sst:
        size = path.stat().st_size
        brought, known = instance.uploaded.get(path.name, (0, None))
        if known is not None and known.size == size and 2 * (version_id[0] - brought) < self._keep:
            return known
        sst = archive.Sst(path.name, f"{path.stem}-{uuid.uuid4()}{archive.SST}", size)
        remote = f"{self.reader.folder}/{archive.SST_FOLDER}/{sst.remote}"
        publish(self.reader.fs, remote, _pieces(path, step), overwrite=True, unique_name=True)
        return sst


def _pieces(path: Path, step: Step) -> Iterator[bytes]:
    with path.open("rb") as source:
        while piece := source.read(_BLOCK):
            yield piece
            step()
