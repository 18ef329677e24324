"""Deletes the files that no retained version needs.

With C the version that the driver named last (get_store's argument), R = C - min_versions_to_retain is the oldest
version that is retained. Spark counts from the newest file (HDFSBackedStateStoreProvider.cleanup), which is C + 1 once
the batch has written it, so what Spark keeps is kept here, one version longer. R is made up of its newest snapshot S
at or below R and the deltas after it, all of them attempts that C is built on: R's chain.

    version      of R's chain    any other attempt, either format    .<name>.<uuid>.tmp
    below S      deleted         deleted                             deleted
    S to R       kept            deleted: it has lost                deleted: its writer is gone
    above R      kept            kept                                kept

Each goes with its checksum files, the oldest version first, so that what a crash leaves is whole from some version on.
Names that are none of these are never touched. Where R's chain is not whole or not certain, nothing is deleted.

Why an executor that lost the partition cannot delete what the winner needs: it knows C from the driver, which names
only versions that its log holds, and every later version is built on C. The chain of R that it keeps is therefore the
winner's as well, and so are R's ancestors the only files between S and R that anybody may ask for; a version above R
is built on R, hence on S, whatever older snapshot its lineage begins at. As it is called no more, its C stands still,
and it deletes nothing newer. (An operator who sets a query back to an older batch makes the log say two things: that
is why the C of the last call counts, not the greatest, and why the query has to be stopped first.) In V1 two attempts
share a name, and only the first half holds: nobody's retained version begins below S.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from pyarrow.fs import FileSystem, FileType

from hdfsstore.codecs.records import DELTA_FILES, Extensions, FileKind
from hdfsstore.errors import CorruptFileError
from hdfsstore.fs import list_folder
from hdfsstore.publish import TEMPORARY_NAME, remove
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.versions.files import VersionId, file_name

log = logging.getLogger("hdfsstore.state.retention")

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_STATE_FILE = re.compile(rf"([1-9][0-9]*)(?:_({_UUID}))?\.([a-z]+)")
_CHECKSUM_FILE = ".crc"
# With unique ids the folder is listed once a tenth of the retained versions has passed.
_LISTINGS = 10


class Owned(NamedTuple):
    """A file of the store: what a name in its folder means, checksum files counting as part of their file."""

    name: str  # of the file itself
    id: VersionId
    kind: FileKind
    temporary: bool


class Unresolved(Exception):
    """The oldest retained version's chain is not whole, or not certain."""


class Ancestry:
    """Which attempt of each version the confirmed one is built on, from lineages.

    Args:
        read_lineage: the lineage of a version, oldest first; empty where the version before has no id;
            FileNotFoundError where it cannot be told.
    """

    def __init__(self, read_lineage: Callable[[VersionId], Sequence[VersionId]]) -> None:
        self._read_lineage = read_lineage
        self._ids: dict[int, str] = {}
        self._begin = 0  # the oldest version in it, all newer ones up to the driver_version are there
        self._switched = False  # whether the versions before that are of format version 1

    def advance(self, driver_version: VersionId, lineage: Sequence[VersionId]) -> None:
        """The driver has named a version, which is built on `lineage`: consecutive versions before it, oldest first."""
        version, unique_id = driver_version
        if unique_id is None:
            self._ids, self._begin, self._switched = {}, version + 1, True
            return
        newer = {number: str(item) for number, item in (*lineage, driver_version)}
        begin = min(newer)
        same = self._ids.get(begin) == newer[begin]
        if not same:
            self._begin, self._switched = begin, False
        kept = {number: item for number, item in self._ids.items() if same and number < begin}
        self._ids = kept | newer

    def forget(self, below: int) -> None:
        """Versions before `below` will not be asked for again."""
        if self._begin < below <= max(self._ids, default=0):
            self._ids = {version: item for version, item in self._ids.items() if version >= below}
            self._begin, self._switched = below, False

    def items(self) -> Iterable[VersionId]:
        """What is known, without reading."""
        return self._ids.items()

    def id_of(self, version: int) -> str | None:
        """The id of the attempt; None where it was written in format version 1."""
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
            else:
                self._switched = True  # a full snapshot, after versions without ids; or the very first version
        return self._ids.get(version)


class Retention:
    """The clean-up of one provider. One thread at a time.

    Args:
        fs, folder: where the files are.
        keep: min_versions_to_retain.
        read_lineage: the lineage in the header of a version's delta, oldest first; FileNotFoundError where there is no
            such delta.
        verify: reads a snapshot to its end and raises CorruptFileError where it is damaged: one that another process
            wrote is not relied on before that.
        metrics: counts what is done.
        extensions: of the files' names.
    """

    def __init__(
        self,
        fs: FileSystem,
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
        self._names: set[str] = set()  # in the folder, as far as it is known
        self._listed: int | None = None  # R at the last listing
        self._done: int | None = None  # R at the last run that ended
        self._sound: set[VersionId] = set()  # snapshots that were written by us, or read to the end
        self._said = ""

    def note_snapshot(self, version_id: VersionId) -> None:
        """This provider has uploaded a snapshot."""
        self._names.add(self._name(version_id, "snapshot"))
        self._sound.add(version_id)

    def run(
        self, driver_version: VersionId, lineage: Sequence[VersionId], step: Callable[[], None] = lambda: None
    ) -> None:
        """Deletes what the versions from R on do not need.

        Args:
            driver_version: the version that the driver named last.
            lineage: what it is built on, as far as that is known: consecutive versions with ids, oldest first.
            step: called between two files.

        Raises:
            StateStoreError: the filesystem fails. The next run goes on where this one stopped.
        """
        self._ancestry.advance(driver_version, lineage)
        oldest = driver_version[0] - self._keep
        if oldest <= 0 or oldest == self._done:
            return
        self._look(oldest, driver_version)
        files = [file for file in map(self._owned, self._names) if file is not None]
        try:
            base, chain = self._chain(oldest, files)
        except Unresolved as why:
            self._metrics.cleanups_put_off += 1
            if self._said != str(why):
                log.warning("%s: nothing is deleted, as version %d is not certain: %s", self.folder, oldest, why)
                self._said = str(why)
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

    def _look(self, oldest: int, driver_version: VersionId) -> None:
        every = 1 if driver_version[1] is None else max(1, self._keep // _LISTINGS)
        if self._listed is None or not 0 <= oldest - self._listed < every:
            self._names = {i.base_name for i in list_folder(self._fs, self.folder) if i.type == FileType.File}
            self._listed = oldest
            self._metrics.listings += 1
        else:
            self._names.update(self._name(item, "delta") for item in self._ancestry.items())

    def _chain(self, oldest: int, files: Collection[Owned]) -> tuple[int, set[VersionId]]:
        """The version that the chain of `oldest` begins at, 0 for the empty store, and the attempts in it."""
        there = {(file.id, file.kind) for file in files if not file.temporary and file.name in self._names}
        chain: set[VersionId] = set()
        base = 0
        for version in range(oldest, 0, -1):
            item = version, self._ancestry.id_of(version)
            chain.add(item)
            if (item, "snapshot") in there:
                base = version
                self._rely_on(item)
                break
            if (item, "delta") not in there:
                raise Unresolved(f"{self._name(item, 'delta')} is missing")
        if any(unique_id is None for _, unique_id in chain):
            # Written in format version 1 as far as one can see: an id of any of these versions could be the right one.
            other = next((file.name for file in files if file.id[1] and base <= file.id[0] <= oldest), None)
            if other is not None:
                raise Unresolved(f"{other} has an id, and no lineage at hand tells whether it won")
        return base, chain

    def _name(self, version_id: VersionId, kind: FileKind) -> str:
        return file_name(version_id, kind, self._extensions)

    def _owned(self, name: str) -> Owned | None:
        return owned(name, self._extensions)

    def _rely_on(self, snapshot: VersionId) -> None:
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
        for name in names:
            step()
            remove(self._fs, [f"{self.folder}/{name}"], self._names)
            self._metrics.files_deleted += 1
        gone = set(names)
        self._names = {name for name in self._names if (file := self._owned(name)) is None or file.name not in gone}
        if names:
            log.info("%s: deleted %d files, from %s to %s", self.folder, len(names), names[0], names[-1])


def obsolete(files: Iterable[Owned], base: int, chain: Collection[VersionId], oldest: int) -> list[str]:
    """The names of the files to delete, the oldest version first, as the table above says.

    Args:
        files: what is in the folder.
        base: S, the version of the snapshot; 0 where the chain begins at the empty store.
        chain: the attempts of the versions S to R that R is made of.
        oldest: R.
    """
    doomed = {
        (file.id[0], file.name)
        for file in files
        if file.id[0] < base or (file.id[0] <= oldest and (file.temporary or file.id not in chain))
    }
    return [name for _, name in sorted(doomed)]


def owned(name: str, extensions: Extensions = DELTA_FILES) -> Owned | None:
    """What a name in a store's folder means; None where it is not a store's."""
    for base in _bases(name):
        if (match := _STATE_FILE.fullmatch(base)) and match[3] in extensions:
            kind: FileKind = "delta" if match[3] == extensions.delta else "snapshot"
            return Owned(base, (int(match[1]), match[2]), kind, False)
        if (match := TEMPORARY_NAME.fullmatch(base)) and (file := owned(match["name"], extensions)) is not None:
            return file._replace(name=base, temporary=True)
    return None


def _bases(name: str) -> Iterable[str]:
    """The name itself, and where it could be that of a checksum file, the file that it lies beside."""
    yield name
    if name.endswith(_CHECKSUM_FILE):
        stem = name.removesuffix(_CHECKSUM_FILE)
        yield stem
        if stem.startswith("."):
            yield from _bases(stem[1:])
