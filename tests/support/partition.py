"""One partition of a store on local disk, and the providers ("executors") that a test opens on it."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hdfsstore import StateStoreConf, StateStoreId, open_provider
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.protocols import ReadStateStore, StateStore, StateStoreCheckpointInfo, StateStoreProvider
from hdfsstore.state.store_schema import StoreSchema
from tests.contract.backends import HDFS, Backend
from tests.services.places import Place
from tests.support.remote_path import RemotePath

State = dict[bytes, bytes]
Updates = Mapping[bytes, bytes | None]  # None removes the key
Ref = tuple[int, str | None]  # a version and its unique id

EMPTY: Ref = (0, None)
BY_HAND = StateStoreConf(maintenance_interval=0)
# What open_provider takes beside the conf.
_OF_PROVIDER = ("key_schema", "value_schema", "num_cols_prefix_key", "timeout_offset", "num_partitions")


class Partition:
    """Opens providers on one folder and closes them all at the end.

    Args:
        root: a folder of the test's own.
        backend: of all providers.
        place: where the store is; by default in `root`.
        conf: of all providers; by default their maintenance is called by hand.
        settings: fields of the conf that are other than there.
    """

    def __init__(
        self,
        root: Path,
        backend: Backend = HDFS,
        conf: StateStoreConf = BY_HAND,
        place: Place | None = None,
        **settings: Any,
    ) -> None:
        self.root = root
        self.backend = backend
        self.conf = dataclasses.replace(conf, **settings)
        local = place is None or place.uri.startswith("file:")
        uri, options = (f"file://{root}", {}) if place is None or local else (place.uri, place.storage_options)
        self.store_id = StateStoreId(f"{uri}/state", operator_id=0, partition_id=3, storage_options=options or None)
        state = root if place is None or local else RemotePath(place.files, place.path)
        self.folder: Any = state / "state" / self.store_id.relative_folder
        self._opened: list[StateStoreProvider] = []

    def open(self, host: str = "host", *, shared_across_workers: bool = False, **options: Any) -> Any:
        """A provider, as of a new executor on that host: executors of one host share the folder of images.

        Args:
            shared_across_workers: of the backend "hdfs", as a stateful query's worker opens it: of the schema with
                timeout_offset alone.
            options: schemas and such, as open_provider takes them; all others are settings of the conf.
        """
        given = {name: options.pop(name) for name in _OF_PROVIDER if name in options}
        conf = dataclasses.replace(self.conf, **{"local_dir": str(self.root / host), **options})
        if shared_across_workers:
            provider: StateStoreProvider = HdfsStateStoreProvider(
                self.store_id, conf, StoreSchema(**given), shared_across_workers=True
            )
        else:
            provider = open_provider(self.store_id, self.backend.name, conf, **given)
        self._opened.append(provider)
        return provider

    def close(self) -> None:
        for provider in self._opened:
            provider.close()

    def names(self, pattern: str = "*") -> list[str]:
        """Names in the store's folder, by version."""
        return sorted(
            (p.name for p in self.folder.glob(pattern)), key=lambda name: [int(n) for n in re.findall(r"^\d+", name)]
        )

    def images(self, host: str = "host") -> list[Path]:
        """The local images on a host."""
        return sorted((self.root / host).glob("*/*.image"))

    @contextlib.contextmanager
    def no_folder(self) -> Iterator[None]:
        """While there is a file in the folder's place, so that nothing can be read or written there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        away = self.folder.with_name("away")
        self.folder.rename(away)
        self.folder.write_bytes(b"")
        try:
            yield
        finally:
            self.folder.unlink()
            away.rename(self.folder)

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """While no file of this process can grow, wherever it is: each write fails. Reading goes on."""
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def ref(info: StateStoreCheckpointInfo) -> Ref:
    """What the driver gives to the next batch."""
    return info.version, info.checkpoint_unique_id


def update(store: StateStore, updates: Updates) -> None:
    for key, value in updates.items():
        if value is None:
            store.remove(key)
        else:
            store.put(key, value)


def write(provider: StateStoreProvider, base: Ref, updates: Updates) -> Ref:
    """Commits the updates on top of the base."""
    store = provider.get_store(*base)
    update(store, updates)
    return ref(store.commit())


def live(provider: StateStoreProvider, versions: int) -> None:
    """Commits so many versions of one key to a new store, opens each for reading, and maintains the store after it."""
    unique_id = None
    for version in range(versions):
        store = provider.get_store(version, unique_id)
        store.put(b"k", b"%d" % version)
        unique_id = store.commit().checkpoint_unique_id
        provider.get_read_store(version + 1, unique_id).close()
        provider.do_maintenance()


def write_chain(provider: StateStoreProvider, count: int, base: Ref = EMPTY) -> list[Ref]:
    """`count` versions after the base, the base first: each puts a key of its own and the key `last`."""
    chain = [base]
    for version in range(base[0] + 1, base[0] + count + 1):
        chain.append(write(provider, chain[-1], {b"key %d" % version: b"%d" % version, b"last": b"%d" % version}))
    return chain


def state_after(version: int) -> State:
    """What write_chain leaves at a version, from the empty store on."""
    rows = {b"key %d" % v: b"%d" % v for v in range(1, version + 1)}
    return {**rows, b"last": b"%d" % version} if version else {}


def contents(store: ReadStateStore) -> State:
    """All rows of a store; each key comes once."""
    rows = list(store.iterator())
    assert len(dict(rows)) == len(rows), "a key came twice"
    return dict(rows)


def read(provider: StateStoreProvider, version: Ref) -> State:
    with provider.get_read_store(*version) as store:
        return contents(store)
