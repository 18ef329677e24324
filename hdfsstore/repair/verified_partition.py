"""Checks one partition of a store: that the chain of each retained version is there, and what its files hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.codecs.records import FileKind, RecordChunk
from hdfsstore.errors import BatchNotAvailableError, MissingFileError, PlacementError, StateStoreError
from hdfsstore.repair.findings import Findings
from hdfsstore.repair.limits import Progress
from hdfsstore.repair.placement import Placement
from hdfsstore.state.base.partition_reader import BasePartitionReader
from hdfsstore.state.rocksdb.partition_reader import RocksDbPartitionReader
from hdfsstore.state.versions.files import Chain, StateFiles, VersionId, file_name


class VerifiedFiles:
    """The files that were read, each once for each number of partitions under which its rows count.

    Args:
        progress: is told of each file; None: no file is read.

    Attributes:
        files, rows: how many there were.
    """

    def __init__(self, progress: Progress | None) -> None:
        self.progress = progress
        self.files = self.rows = 0
        self.checked: dict[tuple[str, int], StateStoreError | None] = {}


def verify_partition(
    state: OperatorState,
    store: Store,
    partition_id: int,
    batches: Sequence[int],
    latest: bool,
    rules: Sequence[Placement],
    files: VerifiedFiles,
    findings: Findings,
) -> None:
    """Checks the versions that some batches wrote.

    Args:
        state: of the newest of these batches, with the unique ids of all.
        batches: in ascending order; all have the same number of partitions.
        latest: whether the newest of them is the newest committed batch, whose state must be there.
        rules: those that the operator may have; none: placement is not checked.
    """
    folder = store.partition_path(partition_id)
    try:
        reader = state.files(store, partition_id)
    except StateStoreError as error:
        findings.add(error, batches)
        return
    listing = reader.listing()
    numbers = sorted(number for number, _ in listing.snapshots | listing.deltas)
    if not numbers:
        if latest:
            lost = MissingFileError(
                "the folder of this partition has no state file", folder, remedy="Restore its files"
            )
            findings.add(lost, batches)
        return
    versions = [batch + 1 for batch in batches]
    at = len(versions)  # those before it are still to be looked at
    while at:
        version = versions[at - 1]
        try:
            chain = reader.listed_chain(listing, version)
            gone = _first_lost(listing, chain)
            if gone is not None:
                raise MissingFileError(f"version {version} needs this file, and it is missing", gone)
            if store.has_families and isinstance(reader, RocksDbPartitionReader):
                reader.check_numbered(version, chain)
        except BatchNotAvailableError as error:
            is_newest = latest and at == len(versions)
            if is_newest or version > numbers[-1] or (error.path != folder and numbers[0] < version):
                findings.add(error, [version - 1])
                at -= 1
                continue
            return  # retention has removed it, and all before it
        except (StateStoreError, OSError) as error:
            found = error if isinstance(error, StateStoreError) else StateStoreError(str(error), folder)
            # With ids, versions in between may have a snapshot of their own.
            first = version if version in state.unique_ids else _number(found.path, listing) or version
            spoilt = [each for each in versions[:at] if each >= first]
            findings.add(found, [each - 1 for each in spoilt or [version]])
            at -= max(1, len(spoilt))
            if at and versions[at - 1] < numbers[0]:
                return
            continue
        base = chain.snapshot[0] if chain.snapshot else 0
        covered = [each for each in versions[:at] if each >= base]
        if files.progress is not None:
            _check_files(reader, store, partition_id, listing, chain, covered, rules, files, findings)
        at -= len(covered)


def _first_lost(listing: StateFiles, chain: Chain) -> str | None:
    for version_id, kind in _files(chain):
        name = file_name(version_id, kind, listing.extensions)
        if name not in listing.sizes:
            return f"{listing.folder}/{name}"
    return None


def _files(chain: Chain) -> Iterable[tuple[VersionId, FileKind]]:
    if chain.snapshot is not None:
        yield chain.snapshot, "snapshot"
    for delta in chain.deltas:
        yield delta, "delta"


def _number(path: str | None, listing: StateFiles) -> int | None:
    """The version that a file in the partition is of."""
    name = (path or "").rpartition("/")[2].partition(".")[0].partition("_")[0]
    return int(name) if path and path.startswith(f"{listing.folder}/") and name.isdecimal() else None


def _check_files(
    reader: BasePartitionReader,
    store: Store,
    partition_id: int,
    listing: StateFiles,
    chain: Chain,
    versions: Sequence[int],
    rules: Sequence[Placement],
    files: VerifiedFiles,
    findings: Findings,
) -> None:
    for version_id, kind in _files(chain):
        path = StateFiles.path_of(listing.folder, version_id, kind, listing.extensions)
        key = path, store.num_partitions
        if key not in files.checked:
            look = _Look(rules, partition_id, files)
            try:
                reader.check_file(listing, version_id, kind, look)
                look.end(path)
                files.checked[key] = None
            except FileNotFoundError:
                files.checked[key] = None  # removed since the listing
            except StateStoreError as error:
                files.checked[key] = error
            files.files += 1
        found = files.checked[key]
        if found is not None:
            findings.add(found, [version - 1 for version in versions if version >= version_id[0]])


class _Look:
    """Counts the records of a file, and holds them against the rules that their operator may have."""

    def __init__(self, rules: Sequence[Placement], partition_id: int, files: VerifiedFiles) -> None:
        self._partition_id = partition_id
        self._files = files
        self._rules = list(rules)
        self._refused: StateStoreError | None = None

    def __call__(self, chunk: RecordChunk) -> None:
        self._files.rows += len(chunk)
        if self._files.progress is not None:
            self._files.progress("Reading", len(chunk))
        fitting = []
        for rule in self._rules:
            try:
                rule.check(chunk, self._partition_id)
                fitting.append(rule)
            except PlacementError as error:
                self._refused = error
        self._rules = fitting

    def end(self, path: str) -> None:
        """Raises PlacementError if no rule fits."""
        if self._refused is not None and not self._rules:
            raise PlacementError(
                self._refused.message,
                path,
                remedy="The query never finds a row in a wrong partition: rewind to a batch before",
            )
