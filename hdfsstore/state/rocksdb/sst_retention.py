"""Deletes the SST files that no zip names any more, after the zips that state/maintenance/retention.py deletes.

    SST file                                                        is
    named by an existing zip                                        kept
    named by zips that were deleted in this run                     deleted
    named by none, and older than all that a zip names              deleted: a failed upload or a killed process has
                                                                    left it
    named by none, and newer                                        kept: its zip may not be written yet

A zip that is not written yet may also name older SST files. It names none that only deleted zips have named, because
archive_upload.py uploads those again. If a zip cannot be read, no SST file is deleted.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence

from pyarrow.fs import FileInfo, FileType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from hdfsstore.state.maintenance.retention import Retention
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.rocksdb import archive
from hdfsstore.state.versions.files import VersionId

log = logging.getLogger("hdfsstore.state.rocksdb.sst_retention")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_SST = re.compile(rf"\d+-{_UUID}\.sst")


class SstRetention(Retention):
    """The clean-up of one provider, with SST files. One thread at a time."""

    def __init__(
        self,
        fs: FileManager,
        folder: str,
        keep: int,
        read_lineage: Callable[[VersionId], Sequence[VersionId]],
        verify: Callable[[VersionId], None],
        metrics: MaintenanceMetrics,
    ) -> None:
        super().__init__(fs, folder, keep, read_lineage, verify, metrics, archive.CHANGELOG_FILES)
        # By name, size and time: a zip without an id may be replaced.
        self._known: dict[tuple[str, int | None, int | None], frozenset[str]] = {}

    def _delete(self, names: list[str], step: Callable[[], None]) -> None:
        doomed = set(names)
        zips = self._zips()
        try:
            freed = {sst for info in zips if info.base_name in doomed for sst in self._ssts(info)}
        except StateStoreError as error:
            log.info("%s: the SST files of a deleted zip are deleted later: %s", self.folder, error)
            freed = set()
        super()._delete(names, step)
        if any(info.base_name in doomed for info in zips):
            self._delete_ssts(freed, step)

    def _delete_ssts(self, freed: set[str], step: Callable[[], None]) -> None:
        folder = f"{self.folder}/{archive.SST_FOLDER}"
        files = [info for info in self._fs.list_folder(folder) if info.type == FileType.File]
        zips = self._zips()  # listed after the SST files, so that no file of a newer zip is in their list
        try:
            named = {sst for info in zips for sst in self._ssts(info)}
        except (StateStoreError, FileNotFoundError) as error:
            log.warning("%s: no SST file is deleted, as a zip cannot be read: %s", self.folder, error)
            return
        oldest = min((info.mtime_ns for info in files if info.base_name in named), default=0)
        doomed = []
        for info in files:
            name = info.base_name
            ours = _SST.fullmatch(name) or ((match := TEMPORARY_NAME.fullmatch(name)) and _SST.fullmatch(match["name"]))
            if ours and name not in named and (name in freed or info.mtime_ns < oldest):
                doomed.append(info.path)
        self._remove(doomed, {info.base_name for info in files}, step)

    def _zips(self) -> list[FileInfo]:
        infos = [info for info in self._fs.list_folder(self.folder) if info.type == FileType.File]
        return [
            info
            for info in infos
            if (file := self._owned(info.base_name)) is not None
            and file.name == info.base_name
            and file.kind == "snapshot"
            and not file.temporary
        ]

    def _ssts(self, info: FileInfo) -> frozenset[str]:
        """The names of a zip's SST files. A zip is read once."""
        key = info.base_name, info.size, info.mtime_ns
        if key not in self._known:
            found = archive.decode(read_file(self._fs, info.path), info.path)
            self._known[key] = frozenset(sst.remote for sst in found.ssts)
        return self._known[key]
