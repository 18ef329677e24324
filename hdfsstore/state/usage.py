"""What the files of a store's partition take, by their kinds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyarrow.fs import FileInfo, FileType

from hdfsstore.fs.file_manager import FileManager

# Kinds of files, which are the ends of their names.
SST = "sst"
_KINDS = ("delta", "snapshot", "changelog", "zip", SST)
_FOLDERS = ("SSTs", "logs")  # of a RocksDB, beside its versions


class Sizes(NamedTuple):
    """Some files: how many, and their bytes together."""

    files: int = 0
    bytes: int = 0

    @classmethod
    def of(cls, sizes: Iterable[int]) -> Sizes:
        """Files of these sizes."""
        found = list(sizes)
        return cls(len(found), sum(found))


@dataclass(frozen=True, slots=True)
class Restart:
    """What a load of one version reads where nothing is cached, and what of it other versions need, too.

    Attributes:
        files: by kind, those that make up the version: a snapshot, the files that it names, and the deltas after it.
        shared: of these files, those that snapshots of other versions name, too.
        families: the number of each column family.
    """

    files: Mapping[str, Sizes]
    shared: Sizes
    families: Mapping[str, int]


def files_of(fs: FileManager, folder: str) -> list[FileInfo]:
    """All files of a store in the folder of a partition, without hidden ones."""
    files, folders = [], [folder]
    while folders:
        for info in fs.list_folder(folders.pop()):
            if info.type == FileType.File and not info.base_name.startswith("."):
                files.append(info)
            elif info.base_name in _FOLDERS:
                folders.append(info.path)
    return files


def usage(fs: FileManager, folder: str) -> dict[str, Sizes]:
    """The same files by their kinds; "other" is a kind, too."""
    sizes: dict[str, list[int]] = defaultdict(list)
    for info in files_of(fs, folder):
        sizes[info.extension if info.extension in _KINDS else "other"].append(info.size or 0)
    return {kind: Sizes.of(each) for kind, each in sizes.items()}
