"""Identifies a state store of a query, as Spark does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, resolve, shown_location
from hdfsstore.fs.storage_options import StorageOptions

DEFAULT_STORE_NAME = "default"


@dataclass(frozen=True, slots=True)
class StateStoreId:
    """One partition of one store of a stateful operator.

    Attributes:
        checkpoint_root: `<checkpoint>/state`, as hdfsstore.Checkpoint takes a location. Credentials in it are not
            shown.
        operator_id: number of the stateful operator in the query.
        partition_id: number of the shuffle partition.
        store_name: `default`, or the name of one of several stores that an operator keeps (stream-stream joins).
        storage_options: how the storage of checkpoint_root is reached, as hdfsstore.Checkpoint takes them. They are no
            part of the identity.
    """

    checkpoint_root: Location
    operator_id: int
    partition_id: int
    store_name: str = DEFAULT_STORE_NAME
    storage_options: StorageOptions | None = field(default=None, compare=False)

    @property
    def relative_folder(self) -> str:
        """The store's folder below the checkpoint's root; the default store lies in the partition's own."""
        folder = f"{self.operator_id}/{self.partition_id}"
        return folder if self.store_name == DEFAULT_STORE_NAME else f"{folder}/{self.store_name}"

    def open(self) -> tuple[FileManager, str]:
        """What has the files of checkpoint_root, and the path on it. Raises what hdfsstore.Checkpoint does."""
        return resolve(self.checkpoint_root, self.storage_options)

    def at(self, place: str) -> StateStoreId:
        """The same store, with a place of hdfsstore.fs.location.place_of as its root: without any credential."""
        return replace(self, checkpoint_root=place, storage_options=None)

    def __repr__(self) -> str:
        root = shown_location(self.checkpoint_root)
        return f"StateStoreId({root!r}, {self.operator_id}, {self.partition_id}, {self.store_name!r})"

    def __hash__(self) -> int:
        # A pyarrow.fs.FileSystem has no hash.
        return hash((shown_location(self.checkpoint_root), self.operator_id, self.partition_id, self.store_name))
