"""Opens a RocksDB on the local disk, through rocksdict, that holds consecutive versions of a store.

Its write-ahead log is off, as in Spark: the checkpoint's files last, and the local folder is deleted with the instance.
"""

from __future__ import annotations

import ctypes
import importlib
import logging
import os
import shutil
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hdfsstore.errors import StateStoreError
from hdfsstore.state.rocksdb.archive import Sst
from hdfsstore.state.rocksdb.instance_dir import InstanceDir
from hdfsstore.state.versions.files import VersionId

log = logging.getLogger("hdfsstore.state.rocksdb.instance")

# The RocksDBs of Spark 3.2 and newer can read it.
_TABLE_FORMAT = 5
_BLOOM_BITS = 10.0
_ABSENT = "key not found"


def rocksdict() -> Any:
    """The module rocksdict of the extra `rocksdb`, imported at its first use."""
    try:
        return importlib.import_module("rocksdict")
    except ImportError as error:
        raise StateStoreError(
            f"the RocksDB backend needs the package rocksdict, which cannot be imported: {error}",
            remedy="Install it: pip install 'hdfsstore[rocksdb]'",
        ) from error


class Instance:
    """One RocksDB. It is closed and its folder is deleted when nobody refers to it any more.

    Attributes:
        tip: the version that it holds; None after an update has failed half-way.
        num_keys: of the tip.
        uploaded: local names of SST files -> the last version whose zip names them, and the file in the checkpoint.
        lock: held while the tip changes or must not change.
    """

    def __init__(self, instance_dir: InstanceDir, files: Mapping[str, bytes] | None = None) -> None:
        _refuse_orphans()
        self._module = module = rocksdict()
        self._instance_dir = instance_dir  # outlives the instance
        self.folder = instance_dir.make()
        self._opened: list[Any] = []
        weakref.finalize(self, _close, self._opened, self.folder, os.getpid())
        try:
            for name, content in (files or {}).items():
                (self.folder / name).write_bytes(content)
        except OSError as error:
            raise _failed(self.folder, error) from error
        self.tip: VersionId | None = None
        self.num_keys = 0
        self.uploaded: dict[str, tuple[int, Sst]] = {}
        self.lock = threading.RLock()
        self._changes = _Changes()
        self._no_log = module.WriteOptions()
        self._no_log.disable_wal = True

    def open(self, num_keys: int | None = 0) -> None:
        """Opens the RocksDB in the folder, or an empty one.

        Args:
            num_keys: number of its keys; None: they are counted.
        """
        options = self._module.Options(raw_mode=True)
        options.create_if_missing(True)
        tables = self._module.BlockBasedOptions()
        tables.set_format_version(_TABLE_FORMAT)
        tables.set_bloom_filter(_BLOOM_BITS, False)
        options.set_block_based_table_factory(tables)
        options.set_compression_type(self._module.DBCompressionType.lz4())
        with self.errors():
            self._db = self._module.Rdict(str(self.folder), options)
            self._opened.append(self._db)
            self.num_keys = sum(1 for _ in self._db.items()) if num_keys is None else num_keys

    def write(self, updates: Mapping[bytes, bytes | None]) -> None:
        """Puts stored keys, and removes those whose value is None. The caller holds the lock and sets the tip."""
        self._changes = self._changes.follow(updates)
        batch = self._module.WriteBatch(raw_mode=True)
        for key, value in updates.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        with self.errors():
            self._db.write(batch, self._no_log)

    def replay(self, updates: Mapping[bytes, bytes | None]) -> None:
        """The same, and counts the keys that are added and removed."""
        with self.errors():
            self.num_keys += sum((value is not None) - (key in self._db) for key, value in updates.items())
        self.write(updates)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Takes the tip away while updates are written. After a failure the instance holds no version."""
        self.tip, before = None, self.tip
        try:
            yield
        except BaseException:
            log.info("%s takes no more updates after version %s", self.folder, before)
            raise

    def snapshot(self) -> Snapshot:
        """The content of the instance now; later writes do not change it."""
        with self.errors():
            return Snapshot(self, self._db.snapshot(), self._changes)

    def items(self, begin: bytes, changes: _Changes) -> tuple[Iterator[tuple[bytes, bytes]], set[bytes]]:
        """Stored keys from `begin` on and their values, as they are now; and the keys that have changed since."""
        with self.lock, self.errors():
            return self._db.items(from_key=begin) if begin else self._db.items(), changes.keys()

    def flush(self) -> None:
        """Writes the updates in memory to SST files."""
        with self.errors():
            self._db.flush()

    @contextmanager
    def checkpoint(self) -> Iterator[Path]:
        """A folder with the files of the instance. Files that do not change are hard links."""
        folder = self._instance_dir.path()
        try:
            with self.errors():
                self._module.Checkpoint(self._db).create_checkpoint(str(folder))
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def nbytes(self) -> int:
        """Bytes of memory, as RocksDB reports them."""
        names = ("size-all-mem-tables", "estimate-table-readers-mem", "block-cache-usage")
        with self.errors():
            return sum(self._db.property_int_value(f"rocksdb.{name}") or 0 for name in names)

    @property
    def disk_bytes(self) -> int:
        """Bytes of its SST files."""
        with self.errors():
            return int(self._db.property_int_value("rocksdb.total-sst-files-size") or 0)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of rocksdict into a StateStoreError."""
        try:
            yield
        except StateStoreError:
            raise
        except Exception as error:  # rocksdict has no types of its own
            raise _failed(self.folder, error) from error


class _Changes:
    """The keys of the writes after a snapshot: a linked list. Each snapshot refers to its first node."""

    def __init__(self) -> None:
        self._keys: frozenset[bytes] = frozenset()
        self._next: _Changes | None = None

    def follow(self, updates: Iterable[bytes]) -> _Changes:
        """Notes a write; returns where the next one is noted."""
        self._keys, self._next = frozenset(updates), _Changes()
        return self._next

    def keys(self) -> set[bytes]:
        """The keys of all writes from here on."""
        found: set[bytes] = set()
        at: _Changes | None = self
        while at is not None:
            found |= at._keys
            at = at._next
        return found


class Snapshot:
    """The content of an instance at one moment. It keeps the instance open.

    rocksdict's snapshots read single keys as they were, but iterate over the current content. Keys that have changed
    since are therefore looked up one by one.
    """

    def __init__(self, instance: Instance, snapshot: Any, changes: _Changes) -> None:
        self._instance = instance
        self._snapshot = snapshot
        self._changes = changes

    def get(self, key: bytes) -> bytes | None:
        """The stored value of a stored key."""
        try:
            found: bytes = self._snapshot[key]
        except Exception as error:  # rocksdict has no types of its own
            if str(error) == _ABSENT:
                return None
            raise _failed(self._instance.folder, error) from error
        return found

    def items(self, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Stored keys that begin with the prefix, and their values, in no order."""
        return self._items(prefix, *self._instance.items(prefix, self._changes))

    def _items(
        self, prefix: bytes, items: Iterator[tuple[bytes, bytes]], changed: set[bytes]
    ) -> Iterator[tuple[bytes, bytes]]:
        with self._instance.errors():
            for key, value in items:
                if not key.startswith(prefix):
                    break
                if key not in changed:
                    yield key, value
            for key in changed:
                if key.startswith(prefix) and (found := self.get(key)) is not None:
                    yield key, found


def _close(opened: list[Any], folder: Path, pid: int) -> None:
    if os.getpid() != pid:
        keep_for_ever(opened)
        return
    for db in opened:
        try:
            # RocksDB closes with its last snapshot. Until then a compaction would fail, without its folder, and wait.
            db.cancel_all_background(True)
        except Exception as error:  # noqa: BLE001 - rocksdict has no types of its own, and the folder goes anyway
            log.warning("%s: RocksDB was not closed: %s", folder, error)
    opened.clear()
    shutil.rmtree(folder, ignore_errors=True)


def keep_for_ever(parents: object) -> None:
    """Keeps a parent's RocksDBs alive in a forked child, where a close would wait for threads that do not run."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(parents))


def _failed(folder: Path, error: Exception) -> StateStoreError:
    return StateStoreError(
        f"the local RocksDB failed: {error}",
        str(folder),
        remedy="Free space there, or give another local_dir in the StateStoreConf; the checkpoint is unchanged",
    )


# Whether this process or a parent has opened a RocksDB, and whether this process was forked after that.
_started = False
_orphaned = False


def _after_fork() -> None:
    global _orphaned
    _orphaned = _started


def _refuse_orphans() -> None:
    """Raises in a forked child of a process with a RocksDB: its threads do not run there, and calls would hang."""
    global _started
    if _orphaned:
        raise StateStoreError(
            "this process was forked from one that had a RocksDB open, and RocksDB does not work in such a child",
            remedy="Fork before the first store is opened, or start the process another way (spawn, forkserver)",
        )
    _started = True


os.register_at_fork(after_in_child=_after_fork)
