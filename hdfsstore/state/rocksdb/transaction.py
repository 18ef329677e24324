"""Reads and updates a version of a store: a snapshot of a RocksDB, with the updates in a dict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.state.rocksdb.encoding import RowEncoding, binary_array, row_of, stored, value
from hdfsstore.state.rocksdb.instance import Instance, Snapshot
from hdfsstore.state.rows import BinaryRows
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId

# So many rows of a scan are yielded at once.
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class RocksDbVersion:
    """One version in a local RocksDB. Its holders can always read it.

    Attributes:
        id: its number and, in checkpoint format version 2, its unique id.
        instance: the RocksDB; it may hold a newer version by now.
        snapshot: this version in it.
        num_keys: number of its keys.
        lineage: as hdfsstore.state.versions.lineages.Version has it.
        digest: of its file; None for version 0, and for versions with a unique id, which need none.
        committed: whether this provider wrote it.
    """

    id: VersionId
    instance: Instance
    snapshot: Snapshot
    num_keys: int
    lineage: tuple[VersionId, ...] = ()
    digest: FileDigest | None = None
    committed: bool = False
    attempt: object = field(default_factory=object)


class RocksDbTransaction:
    """Reads a version and its own updates; hdfsstore.state.base.store.Updates says what the methods do. For one thread.

    Attributes:
        base: the version.
        updates: stored keys and values in the order of their first update; None removes.
    """

    def __init__(self, base: RocksDbVersion, encoding: RowEncoding) -> None:
        self.base = base
        self.updates: dict[bytes, bytes | None] = {}
        self.num_puts = 0
        self.num_removes = 0
        self._encoding = encoding
        self._in_base: dict[bytes, bool] = {}  # of updated keys that were looked up

    @property
    def num_keys(self) -> int:
        """Number of rows, with the updates. Each updated key is looked up in the version once."""
        return self.base.num_keys + sum(
            (update is not None) - self._is_in_base(key) for key, update in self.updates.items()
        )

    def get(self, key: bytes) -> bytes | None:
        return self._get(self._encoding.key(key))

    def get_many(self, keys: BinaryRows) -> BinaryRows:
        return binary_array([self._get(key) for key in self._encoding.keys(keys)])

    def put(self, key: bytes, row: bytes) -> None:
        self.updates[self._encoding.key(key)] = value(row)
        self.num_puts += 1

    def put_many(self, keys: BinaryRows, values: BinaryRows) -> None:
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys and {len(values)} values")
        self.updates.update(zip(self._encoding.keys(keys), stored(values), strict=True))
        self.num_puts += len(keys)

    def remove(self, key: bytes) -> bool:
        return self._remove(self._encoding.key(key))

    def remove_many(self, keys: BinaryRows) -> int:
        return sum(self._remove(key) for key in self._encoding.keys(keys))

    def scan(self) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        return self._scan(self.base.snapshot.items(), dict(self.updates))

    def prefix_scan(self, prefix: bytes) -> tuple[BinaryRows, BinaryRows]:
        begin = self._encoding.prefix(prefix)
        updates = {key: update for key, update in self.updates.items() if key.startswith(begin)}
        found = list(_latest(self.base.snapshot.items(begin), updates))
        return self._arrays(found)

    def expired(self, *_range: int) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        raise _no_index()

    def next_expiry(self) -> int | None:
        raise _no_index()

    def _get(self, key: bytes) -> bytes | None:
        found = self.updates[key] if key in self.updates else self.base.snapshot.get(key)
        return None if found is None else row_of(found)

    def _is_in_base(self, key: bytes) -> bool:
        known = self._in_base.get(key)
        if known is None:
            known = self._in_base[key] = self.base.snapshot.get(key) is not None
        return known

    def _remove(self, key: bytes) -> bool:
        in_base = self._is_in_base(key)
        if self.updates[key] is None if key in self.updates else not in_base:
            return False
        if in_base:
            self.updates[key] = None
        else:
            del self.updates[key]
        self.num_removes += 1
        return True

    def _scan(
        self, items: Iterator[tuple[bytes, bytes]], updates: dict[bytes, bytes | None]
    ) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        some: list[tuple[bytes, bytes]] = []
        for item in _latest(items, updates):
            some.append(item)
            if len(some) == _ROWS:
                yield self._arrays(some)
                some = []
        if some:
            yield self._arrays(some)

    def _arrays(self, items: list[tuple[bytes, bytes]]) -> tuple[BinaryRows, BinaryRows]:
        keys = self._encoding.rows([key for key, _ in items])
        return binary_array(keys), binary_array([row_of(found) for _, found in items])


def _no_index() -> UnsupportedProviderError:
    return UnsupportedProviderError("the RocksDB backend keeps no index of values", remedy='Use the backend "hdfs"')


def _latest(items: Iterator[tuple[bytes, bytes]], updates: dict[bytes, bytes | None]) -> Iterator[tuple[bytes, bytes]]:
    """The items with the updates applied."""
    for key, found in items:
        if key not in updates:
            yield key, found
    for key, update in updates.items():
        if update is not None:
            yield key, update
