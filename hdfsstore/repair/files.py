"""Lists the files of a checkpoint by the batch that wrote them. Paths are relative to the checkpoint.

offsets/<b>, commits/<b>                             batch b
state/<op>/_metadata/v2/<b>                          batch b
state/<op>/<partition>/[<store>/]<v>[_<id>].<ext>    batch v - 1; ext: delta, snapshot, changelog, zip
.<name>.crc, <name>.crc, .<name>.crc.crc             beside each of them
state/<op>/<partition>/[<store>/]SSTs/, logs/        parts of zips, which do not tell the batch
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from pyarrow.fs import FileInfo, FileType

from hdfsstore.checkpoint.metadata_log import NUMBER
from hdfsstore.codecs.lineage import UNIQUE_ID
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.parallel import run_all
from hdfsstore.state.rocksdb.archive import SST_FOLDER

_SIDE = r"(?:\.crc)*"
_ENTRY = re.compile(rf"\.?({NUMBER.pattern}){_SIDE}", re.ASCII)
_STATE_FILE = re.compile(
    rf"\.?(\d+)(?:_{UNIQUE_ID.pattern})?\.(?:delta|snapshot|changelog|zip){_SIDE}",
    re.ASCII,
)
_PARTS = (SST_FOLDER, "logs")
_REMOTE_THREADS = 16


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The files of one log: by batch, the names of its entry and of the checksum files beside it, those first."""

    folder: str
    names: dict[int, list[str]]

    @classmethod
    def listed(cls, fs: FileManager, root: str, folder: str) -> LogFiles:
        names: dict[int, list[str]] = {}
        for info in fs.list_folder(f"{root}/{folder}"):
            if info.type == FileType.File and (match := _ENTRY.fullmatch(info.base_name)):
                names.setdefault(int(match[1]), []).append(info.base_name)
        for batch_id, found in names.items():
            found.sort(key=lambda name: name == str(batch_id))
        return cls(folder, dict(sorted(names.items())))

    @property
    def entries(self) -> list[int]:
        """The batches that have an entry, in their order."""
        return [batch_id for batch_id, names in self.names.items() if names[-1] == str(batch_id)]

    def paths(self, batch_id: int) -> list[str]:
        """The files of a batch; none if it has no entry."""
        return [f"{self.folder}/{name}" for name in self.names.get(batch_id, ())]


def entries_after(offsets: LogFiles, commits: LogFiles, batch_id: int) -> list[str]:
    """The files of the logs of later batches: the newest first, and commits before offsets."""
    numbers = {number for log in (offsets, commits) for number in log.names if number > batch_id}
    return [
        path for number in sorted(numbers, reverse=True) for log in (commits, offsets) for path in log.paths(number)
    ]


def state_files_from(fs: FileManager, root: str, version: int) -> list[str]:
    """The state files of that version and of later ones, and the operators' metadata of the batches that wrote them."""
    found = []
    operators = _folders(fs, f"{root}/state")
    metadata = [f"state/{operator}/_metadata/v2" for operator in operators]
    for folder, log in zip(metadata, [LogFiles.listed(fs, root, folder) for folder in metadata], strict=True):
        found += [f"{folder}/{name}" for number, names in log.names.items() if number >= version - 1 for name in names]
    for folder, infos in _stores(fs, root, operators):
        for info in infos:
            match = _STATE_FILE.fullmatch(info.base_name) if info.type == FileType.File else None
            if match and int(match[1]) >= version:
                found.append(f"{folder}/{info.base_name}")
    return sorted(found, key=_side_files_first)


def parts_of_state(fs: FileManager, root: str) -> list[str]:
    """The SST files and archived logs of all stores in RocksDB."""
    folders = [
        f"{folder}/{info.base_name}"
        for folder, infos in _stores(fs, root, _folders(fs, f"{root}/state"))
        for info in infos
        if info.type == FileType.Directory and info.base_name in _PARTS
    ]
    return [f"{folder}/{info.base_name}" for folder, infos in _listed(fs, root, folders) for info in infos]


def _stores(fs: FileManager, root: str, operators: list[str]) -> Iterator[tuple[str, list[FileInfo]]]:
    """The folder of each store in each partition, and what is in it."""
    by_operator = _listed(fs, root, [f"state/{operator}" for operator in operators])
    partitions = [
        f"{folder}/{info.base_name}"
        for folder, infos in by_operator
        for info in infos
        if info.type == FileType.Directory and NUMBER.fullmatch(info.base_name)
    ]
    inner = []
    for folder, infos in _listed(fs, root, partitions):
        yield folder, infos
        inner += [
            f"{folder}/{info.base_name}"
            for info in infos
            if info.type == FileType.Directory and info.base_name[0] not in "_." and info.base_name not in _PARTS
        ]
    yield from _listed(fs, root, inner)


def _listed(fs: FileManager, root: str, folders: list[str]) -> list[tuple[str, list[FileInfo]]]:
    threads = 1 if isinstance(fs, LocalFileManager) else _REMOTE_THREADS
    infos = run_all([partial(fs.list_folder, f"{root}/{folder}") for folder in folders], threads)
    return list(zip(folders, infos, strict=True))


def _folders(fs: FileManager, folder: str) -> list[str]:
    infos = fs.list_folder(folder)
    return [info.base_name for info in infos if info.type == FileType.Directory and NUMBER.fullmatch(info.base_name)]


def _side_files_first(path: str) -> tuple[bool, str]:
    return not path.endswith(".crc"), path
