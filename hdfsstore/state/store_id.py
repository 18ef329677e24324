"""Identifies a state store of a query, as Spark does."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_STORE_NAME = "default"


@dataclass(frozen=True, slots=True)
class StateStoreId:
    """One partition of one store of a stateful operator.

    Attributes:
        checkpoint_root: `<checkpoint>/state`, as a URI that pyarrow.fs.FileSystem.from_uri opens or a local path.
        operator_id: number of the stateful operator in the query.
        partition_id: number of the shuffle partition.
        store_name: `default`, or the name of one of several stores that an operator keeps (stream-stream joins).
    """

    checkpoint_root: str
    operator_id: int
    partition_id: int
    store_name: str = DEFAULT_STORE_NAME

    @property
    def relative_folder(self) -> str:
        """The store's folder below the checkpoint's root; the default store lies in the partition's own."""
        folder = f"{self.operator_id}/{self.partition_id}"
        return folder if self.store_name == DEFAULT_STORE_NAME else f"{folder}/{self.store_name}"
