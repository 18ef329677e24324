"""Finds the numbers that the column families of a store have in its keys."""

from __future__ import annotations

from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.errors import RepairError
from hdfsstore.state.rocksdb.partition_reader import RocksDbPartitionReader


def family_numbers(state: OperatorState, store: Store) -> dict[str, int]:
    """Name -> number of each column family, the same in all partitions; none in a store without families.

    Reads the zip of each partition.

    Raises:
        RepairError: partitions have other numbers, so their rows cannot lie in one file.
    """
    found: dict[str, int] = {}
    if not store.has_families:
        return found
    for partition_id in state.partitions(store, store.key_type):
        reader = state.files(store, partition_id)
        numbers = dict(reader.families(state.version)) if isinstance(reader, RocksDbPartitionReader) else {}
        if found and numbers and numbers != found:
            raise RepairError(
                f"its column families are numbered {numbers}, and those of other partitions {found}",
                store.partition_path(partition_id),
                remedy="This release cannot number them anew: nothing was changed",
            )
        found = found or numbers
    return found
