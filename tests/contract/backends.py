"""The backends under contract. A new one is an entry in BACKENDS; no test has to name it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hdfsstore import StateStoreConf
from hdfsstore.codecs.compression import CODECS


@dataclass(frozen=True)
class Backend:
    """What the suite has to know of a backend.

    Attributes:
        name: as open_provider takes it.
        changes: extension of the file that holds what one version changed.
        whole: extension of the file that holds a version's whole state.
        checkpoint_formats: the checkpoint format versions that it writes.
        row_checksums: whether rows can carry checksums.
        indexes: whether it finds rows by a long in their values.
        forks: whether a child of a process that has stores open can go on with them, or with others.
    """

    name: str
    changes: str
    whole: str
    checkpoint_formats: tuple[int, ...] = (1, 2)
    row_checksums: bool = True
    forks: bool = True
    indexes: bool = True

    def files(self, folder: Path) -> list[Path]:
        """Every state file in a store's folder."""
        return sorted(path for kind in (self.changes, self.whole) for path in folder.glob(f"[0-9]*.{kind}"))

    def changes_of(self, folder: Path, version: int, unique_id: str | None) -> Path:
        """The file with that version's changes."""
        return folder / f"{_stem(version, unique_id)}.{self.changes}"

    def whole_of(self, folder: Path, version: int, unique_id: str | None) -> Path:
        """The file with that version's whole state."""
        return folder / f"{_stem(version, unique_id)}.{self.whole}"


def _stem(version: int, unique_id: str | None) -> str:
    return str(version) if unique_id is None else f"{version}_{unique_id}"


HDFS = Backend("hdfs", changes="delta", whole="snapshot")
ROCKSDB = Backend("rocksdb", changes="changelog", whole="zip", row_checksums=False, forks=False, indexes=False)
BACKENDS = (HDFS, ROCKSDB)


@dataclass(frozen=True)
class Variant:
    """A backend and the conf that its providers are opened with. The background work is called by hand."""

    backend: Backend
    conf: StateStoreConf

    def __str__(self) -> str:
        checksums = "-checksums" if self.conf.row_checksum_enabled else ""
        return f"{self.backend.name}-v{self.conf.checkpoint_format_version}-{self.conf.compression_codec}{checksums}"


def _variants(every_codec: bool) -> Iterator[Variant]:
    for backend in BACKENDS:
        for format_version in backend.checkpoint_formats:
            for codec in CODECS if every_codec else (StateStoreConf().compression_codec,):
                for checksums in (False, True)[: 1 + backend.row_checksums]:
                    conf = StateStoreConf(
                        checkpoint_format_version=format_version,
                        compression_codec=codec,
                        row_checksum_enabled=checksums,
                        maintenance_interval=0,
                    )
                    yield Variant(backend, conf)


VARIANTS = tuple(_variants(every_codec=False))
EVERY_CODEC = tuple(_variants(every_codec=True))
INDEXED = [variant for variant in VARIANTS if variant.backend.indexes]
WITH_IDS = [variant for variant in VARIANTS if variant.conf.checkpoint_format_version == 2]
