"""Deletes the files that no retained version needs.

C is the version that the driver asked for last (get_store's argument), and R = C - min_versions_to_retain is the oldest
retained version. Spark counts from the newest file (HDFSBackedStateStoreProvider.cleanup), which is C + 1 once the
batch has written it. This keeps the same files, one version longer. R's chain is the newest snapshot S at or below R
and the deltas after it; C is built on all of these attempts.

    version      of R's chain    any other attempt, either format    .<name>.<uuid>.tmp
    below S      deleted         deleted                             deleted
    S to R       kept            deleted: it has lost                deleted: its writer is gone
    above R      kept            kept                                kept

Each file goes after its checksum files, and the oldest versions go first, some files at a time: after a crash, all
versions from some one on are whole. Other names are never touched. If R's chain is incomplete or not certain, nothing
is deleted.

An executor that lost the partition cannot delete files that the new owner needs. It knows C from the driver, which asks
only for versions that its log holds, and every later version is built on C. So the chain of R that it keeps is also the
new owner's, and nobody needs other files between S and R. A version above R is built on R and so on S, even if its
lineage begins at an older snapshot. The executor gets no more calls: its last known version no longer advances, and it
deletes nothing newer. If an operator sets a query back to an older batch, the log names an older version than before.
Therefore the C of the last call counts, not the greatest one, and the query has to be stopped first. In format version
1 attempts share a name, and only this holds: nobody's retained version needs a file below S.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from pyarrow.fs import FileType

from hdfsstore.codecs.records import DELTA_FILES, Extensions, FileKind
from hdfsstore.errors import CorruptFileError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.publish import abort_unfinished, remove
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.versions.files import VersionId, file_name

log = logging.getLogger("hdfsstore.state.retention")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_STATE_FILE = re.compile(rf"([1-9][0-9]*)(?:_({_UUID}))?\.([a-z]+)")
_CHECKSUM_FILE = ".crc"
# With unique ids the folder is listed so many times while min_versions_to_retain versions pass.
_LISTINGS = 10
# So many files are deleted between two steps: half a millisecond's work on a local disk, one request to S3.
_AT_ONCE = 32


class Owned(NamedTuple):
    """A file of the store, by its name in the folder. A checksum file counts as part of its file."""

    name: str  # of the file itself
    id: VersionId
    kind: FileKind
    temporary: bool


class Unresolved(Exception):
    """The oldest retained version's chain is incomplete, or not certain."""


class _Known(NamedTuple):
    """What an Ancestry knew at some time, under its names."""

    ids: dict[int, str]
    begin: int
    switched: bool


class Ancestry:
    """Tells on which attempt of each version the driver's version is built, from lineages.

    Args:
        read_lineage: reads the lineage of a version, oldest first; empty if the version before has no id;
            FileNotFoundError if there is none to read.
    """

    def __init__(self, read_lineage: Callable[[VersionId], Sequence[VersionId]]) -> None:
        self._read_lineage = read_lineage
        self._ids: dict[int, str] = {}
        self._begin = 0  # the oldest known version; all newer ones up to the driver's version are known
        self._switched = False  # whether the versions before that are of format version 1
        self._before_gap: _Known | None = None  # older than the versions that this process has not seen

    def advance(self, driver_version: VersionId, lineage: Sequence[VersionId]) -> None:
        """Notes the driver's version and its `lineage`: consecutive versions before it, oldest first."""
        version, unique_id = driver_version
        if unique_id is None:
            self._ids, self._begin, self._switched = {}, version + 1, True
            return
        newer = {number: str(item) for number, item in (*lineage, driver_version)}
        begin = min(newer)
        same = self._ids.get(begin) == newer[begin]
        if not same:
            if self._ids and max(self._ids) < begin:
                self._before_gap = _Known(self._ids, self._begin, self._switched)
            self._begin, self._switched = begin, False
        kept = {number: item for number, item in self._ids.items() if same and number < begin}
        self._ids = kept | newer

    def forget(self, below: int) -> None:
        """Drops the versions before `below`, which nobody will ask for again."""
        if self._begin < below <= max(self._ids, default=0):
            self._ids = {version: item for version, item in self._ids.items() if version >= below}
            self._begin, self._switched, self._before_gap = below, False, None

    def items(self) -> Iterable[VersionId]:
        """The known versions, without reading."""
        return self._ids.items()

    def id_of(self, version: int) -> str | None:
        """The id of the attempt; None if it was written in format version 1."""
        while version < self._begin and not self._switched:
            first = self._begin, self._ids[self._begin]
            try:
                older = self._read_lineage(first)
            except FileNotFoundError:
                raise Unresolved(f"the file with the changes of version {first[0]} ({first[1]}) is missing") from None
            except CorruptFileError as error:
                raise Unresolved(str(error)) from error
            if older:
                self._ids.update((number, str(item)) for number, item in older)
                self._begin = older[0][0]
                self._close_gap()
            else:
                self._switched = True  # a full snapshot, after versions without ids; or the very first version
        return self._ids.get(version)

    def _close_gap(self) -> None:
        """Takes what is known of the same attempt's ancestors, so that it is not read again."""
        known = self._before_gap
        if known is not None and known.ids.get(self._begin) == self._ids[self._begin]:
            self._ids = {version: item for version, item in known.ids.items() if version < self._begin} | self._ids
            self._begin, self._switched, self._before_gap = known.begin, known.switched, None


class Retention:
    """The clean-up of one provider. One thread at a time.

    Args:
        fs, folder: where the files are.
        keep: min_versions_to_retain.
        read_lineage: reads the lineage in the header of a version's delta, oldest first; FileNotFoundError if there is
            no such delta.
        verify: reads a snapshot to its end; CorruptFileError if it is damaged. A snapshot of another process is
            verified before files are deleted that it replaces.
        metrics: counts the work.
        extensions: of the files' names.
    """

    def __init__(
        self,
        fs: FileManager,
        folder: str,
        keep: int,
        read_lineage: Callable[[VersionId], Sequence[VersionId]],
        verify: Callable[[VersionId], None],
        metrics: MaintenanceMetrics,
        extensions: Extensions = DELTA_FILES,
    ) -> None:
        self._extensions = extensions
        self._fs = fs
        self.folder = folder
        self._keep = keep
        self._verify = verify
        self._metrics = metrics
        self._read_lineage = read_lineage
        self._ancestry = Ancestry(self._lineage)
        self._names: set[str] = set()  # the known names in the folder
        self._listed: int | None = None  # R at the last listing
        self._done: int | None = None  # R at the last complete run
        self._sound: set[VersionId] = set()  # snapshots that this provider wrote, or has verified
        self._last_warning = ""

    def note_snapshot(self, version_id: VersionId) -> None:
        """Notes that this provider has uploaded a snapshot."""
        self._names.add(self._name(version_id, "snapshot"))
        self._sound.add(version_id)

    def run(
        self, driver_version: VersionId, lineage: Sequence[VersionId], step: Callable[[], None] = lambda: None
    ) -> None:
        """Deletes the files that the versions from R on do not need.

        Args:
            driver_version: C, the version that the driver asked for last.
            lineage: of C, as far as it is known: consecutive versions with ids, oldest first.
            step: called before each few files.

        Raises:
            StateStoreError: the filesystem failed. The next run goes on where this one stopped.
        """
        self._ancestry.advance(driver_version, lineage)
        oldest = driver_version[0] - self._keep
        if oldest <= 0 or oldest == self._done:
            return
        self._update_names(oldest, driver_version)
        files = [file for file in map(self._owned, self._names) if file is not None]
        try:
            base, chain = self._chain(oldest, files)
        except Unresolved as why:
            self._metrics.cleanups_put_off += 1
            if self._last_warning != str(why):
                log.warning("%s: nothing is deleted, as version %d is not certain: %s", self.folder, oldest, why)
                self._last_warning = str(why)
        else:
            self._delete(obsolete(files, base, chain, oldest), step)
            self._ancestry.forget(base)
            self._sound = {snapshot for snapshot in self._sound if snapshot[0] >= base}
        self._done = oldest

    def _lineage(self, version_id: VersionId) -> Sequence[VersionId]:
        try:
            return self._read_lineage(version_id)
        except FileNotFoundError:
            if self._name(version_id, "snapshot") in self._names:
                return ()  # written instead of a delta, after versions without ids
            raise

    def _update_names(self, oldest: int, driver_version: VersionId) -> None:
        every = 1 if driver_version[1] is None else max(1, self._keep // _LISTINGS)
        if self._listed is None:
            abort_unfinished(self._fs, self.folder)
        if self._listed is None or not 0 <= oldest - self._listed < every:
            self._names = {i.base_name for i in self._fs.list_folder(self.folder) if i.type == FileType.File}
            self._listed = oldest
            self._metrics.listings += 1
        else:
            self._names.update(self._name(item, "delta") for item in self._ancestry.items())

    def _chain(self, oldest: int, files: Collection[Owned]) -> tuple[int, set[VersionId]]:
        """The first version of the chain of `oldest`, 0 for the empty store, and the attempts in the chain."""
        there = {(file.id, file.kind) for file in files if not file.temporary and file.name in self._names}
        chain: set[VersionId] = set()
        base = 0
        for version in range(oldest, 0, -1):
            item = version, self._ancestry.id_of(version)
            chain.add(item)
            if (item, "snapshot") in there:
                base = version
                self._verify_once(item)
                break
            if (item, "delta") not in there:
                raise Unresolved(f"{self._name(item, 'delta')} is missing")
        if any(unique_id is None for _, unique_id in chain):
            # They seem to be of format version 1. A file with an id of one of these versions could be right, too.
            other = next((file.name for file in files if file.id[1] and base <= file.id[0] <= oldest), None)
            if other is not None:
                raise Unresolved(f"{other} has an id, and no lineage at hand tells whether it won")
        return base, chain

    def _name(self, version_id: VersionId, kind: FileKind) -> str:
        return file_name(version_id, kind, self._extensions)

    def _owned(self, name: str) -> Owned | None:
        return owned(name, self._extensions)

    def _verify_once(self, snapshot: VersionId) -> None:
        if snapshot in self._sound:
            return
        try:
            self._verify(snapshot)
        except FileNotFoundError:
            raise Unresolved(f"{self._name(snapshot, 'snapshot')} vanished") from None
        except CorruptFileError as error:
            raise Unresolved(str(error)) from error
        self._sound.add(snapshot)

    def _delete(self, names: list[str], step: Callable[[], None]) -> None:
        self._remove([f"{self.folder}/{name}" for name in names], self._names, step)
        gone = set(names)
        self._names = {name for name in self._names if (file := self._owned(name)) is None or file.name not in gone}
        if names:
            log.info("%s: deleted %d files, from %s to %s", self.folder, len(names), names[0], names[-1])

    def _remove(self, paths: list[str], names: Collection[str], step: Callable[[], None]) -> None:
        """Deletes files of one folder, the first ones first. An object store takes many at once.

        Args:
            names: those in the folder.
        """
        for begin in range(0, len(paths), _AT_ONCE):
            step()
            some = paths[begin : begin + _AT_ONCE]
            remove(self._fs, some, names)
            self._metrics.files_deleted += len(some)


def obsolete(files: Iterable[Owned], base: int, chain: Collection[VersionId], oldest: int) -> list[str]:
    """The names of the files to delete, the oldest version first, by the table above.

    Args:
        files: those in the folder.
        base: S, the version of the snapshot; 0 if the chain begins at the empty store.
        chain: the attempts in R's chain.
        oldest: R.
    """
    doomed = {
        (file.id[0], file.name)
        for file in files
        if file.id[0] < base or (file.id[0] <= oldest and (file.temporary or file.id not in chain))
    }
    return [name for _, name in sorted(doomed)]


def owned(name: str, extensions: Extensions = DELTA_FILES) -> Owned | None:
    """The file of a store that has this name; None if a store has no such name."""
    for base in _bases(name):
        if (match := _STATE_FILE.fullmatch(base)) and match[3] in extensions:
            kind: FileKind = "delta" if match[3] == extensions.delta else "snapshot"
            return Owned(base, (int(match[1]), match[2]), kind, False)
        if (match := TEMPORARY_NAME.fullmatch(base)) and (file := owned(match["name"], extensions)) is not None:
            return file._replace(name=base, temporary=True)
    return None


def _bases(name: str) -> Iterable[str]:
    """The name itself; and, if it could be a checksum file's, the name of the file beside it."""
    yield name
    if name.endswith(_CHECKSUM_FILE):
        stem = name.removesuffix(_CHECKSUM_FILE)
        yield stem
        if stem.startswith("."):
            yield from _bases(stem[1:])
