"""Our store on top of what Spark wrote: the stores of a checkpoint, opened to write its next version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import hdfsstore
from hdfsstore.checkpoint.commit_log import encode_commit_log, read_commit_log
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, read_offset_log
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.types import parse_type
from hdfsstore.fs.location import resolve
from hdfsstore.fs.publish import publish
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.protocols import StateStore, StateStoreCheckpointInfo, StateStoreProvider
from hdfsstore.state.store_id import StateStoreId
from tests.support.truth import Case, reads

Model = dict[int, dict[bytes, bytes]]

FORMAT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@dataclass(frozen=True)
class StoreName:
    """One store of a query, all its partitions."""

    operator_id: int
    name: str


class OpenStores:
    """The partitions of a store, each with a provider of format version 1 under the conf that the query pins.

    Args:
        checkpoint: the query's.
        local_dir: for local images.
        rows: such as read_state gives, for the types of keys and values.
    """

    def __init__(self, checkpoint: Path, store: StoreName, local_dir: Path, rows: pa.Table) -> None:
        opened = hdfsstore.Checkpoint(checkpoint)
        pinned = opened.batches[-1].conf
        conf = StateStoreConf.from_spark({**pinned, FORMAT_VERSION: 1})
        # A snapshot of every version for which maintenance is asked.
        conf = replace(conf, local_dir=str(local_dir), maintenance_interval=0, min_deltas_for_snapshot=0)
        described = opened.operator(store.operator_id).store(store.name)
        key_schema, value_schema = (pa.schema(list(rows.schema.field(part).type)) for part in ("key", "value"))
        self._no_rows = rows.select(["key", "value", "partition_id"]).slice(0, 0)
        self._stack = ExitStack()
        self.partitions: dict[int, StateStoreProvider] = {
            partition_id: self._stack.enter_context(
                open_provider(
                    StateStoreId(str(checkpoint / "state"), store.operator_id, partition_id, store.name),
                    conf=conf,
                    key_schema=key_schema,
                    value_schema=value_schema,
                    num_cols_prefix_key=described.num_cols_prefix_key or 0,
                )
            )
            for partition_id in described.partition_ids
        }

    def __enter__(self) -> OpenStores:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def scan(self, version: int) -> pa.Table:
        """Columns key, value and partition_id, as Checkpoint.read_state has them."""
        tables = [self._no_rows]
        for partition_id, provider in self.partitions.items():
            with provider.get_read_store(version) as store:
                for batch in store.scan():
                    ids = pa.array([partition_id] * batch.num_rows, pa.int32())
                    tables.append(pa.table([*batch.columns, ids], ["key", "value", "partition_id"]))
        return pa.concat_tables(tables)

    def bytes(self, version: int) -> Model:
        """Partition -> key -> value."""
        found = {}
        for partition_id, provider in self.partitions.items():
            with provider.get_read_store(version) as store:
                found[partition_id] = dict(store.iterator())
        return found


def stores_of(checkpoint: Path) -> Iterator[StoreName]:
    """Every store of a query."""
    for operator in hdfsstore.Checkpoint(checkpoint).operators:
        for store in operator.stores:
            yield StoreName(operator.operator_id, store.name)


def read_state(case: Case, store: StoreName, checkpoint: Path, batch_id: int | None = None) -> pa.Table:
    """As Checkpoint.read_state, of a copy of a case's checkpoint; with the schemas that the files of Spark 2 lack."""
    opened = hdfsstore.Checkpoint(checkpoint)
    schemas = {}
    if opened.operator(store.operator_id).store(store.name).key_schema is None:
        facts = next(facts for facts in case.facts["reads"] if store == _store_of(facts))
        schemas = {f"{part}_schema": to_arrow_schema(parse_type(facts[f"{part}_schema"])) for part in ("key", "value")}
    return opened.read_state(store.operator_id, store.name, batch_id, **schemas)


def sparks_rows(case: Case, store: StoreName, batch_id: int) -> pa.Table | None:
    """What Spark read; None where it could not read whole rows (irregular stores, see docs/formats/spark-quirks.md)."""
    for read in reads():
        facts = read.facts
        if read.case == case and store == _store_of(facts) and facts["batch_id"] == batch_id:
            if facts["file"] is None or facts.get("keys_only") or not facts.get("format_validation", True):
                return None
            return read.rows.select(["key", "value", "partition_id"])
    return None


def _store_of(facts: dict[str, Any]) -> StoreName | None:
    plain = facts["join_side"] is None and facts["change_feed"] is None
    return StoreName(facts["operator_id"], facts["store_name"]) if plain else None


def _update(store: StateStore, own: dict[bytes, bytes], others: dict[bytes, bytes]) -> dict[bytes, bytes]:
    """Removes a third of the rows, gives another third the values of the rows after them, and puts rows of the other
    partitions, each in both of the ways that there are. Returns what is there then."""
    model = dict(own)
    keys = sorted(own)
    for place, key in enumerate(keys):
        if place % 3 == 0:
            store.remove(key)
            del model[key]
        elif place % 3 == 1:
            model[key] = own[keys[(place + 1) % len(keys)]]
            store.put(key, model[key])
    store.remove(b"a key that is not there")
    added = sorted(others.items())
    store.put_many(pa.array([key for key, _ in added], pa.binary()), pa.array([v for _, v in added], pa.binary()))
    store.remove_many(pa.array([key for key, _ in added[::2]], pa.binary()))
    model.update(added[1::2])
    return model


def go_on(stores: OpenStores, version: int) -> tuple[Model, Model]:
    """Writes version + 1 of each partition. Returns what was at `version` and what is there now."""
    before = stores.bytes(version)
    after = {}
    for partition_id, provider in stores.partitions.items():
        others = {k: v for i, rows in before.items() if i != partition_id for k, v in rows.items()}
        store = provider.get_store(version)
        after[partition_id] = _update(store, before[partition_id], others)
        assert store.commit() == StateStoreCheckpointInfo(partition_id, version + 1, None, None)
    return before, after


def log_next_batch(checkpoint: Path, unique_ids: Mapping[int, list[list[str]]] | None = None) -> int:
    """Writes the logs of a batch like the newest committed one after it, and returns its number.

    Args:
        unique_ids: operator -> partition -> the id of each store's version, in checkpoint format version 2.
    """
    fs, root = resolve(checkpoint)
    last = hdfsstore.Checkpoint(checkpoint).latest_batch_id
    offsets: OffsetLogEntry = read_offset_log(fs, f"{root}/offsets/{last}")
    offsets = replace(offsets, timestamp_ms=offsets.timestamp_ms + 1000)
    publish(fs, f"{root}/offsets/{last + 1}", encode_offset_log(offsets), overwrite=True)
    if (checkpoint / "commits").is_dir():  # Spark 2.1 has none
        commit = read_commit_log(fs, f"{root}/commits/{last}")
        if unique_ids:
            commit = replace(commit, state_unique_ids=dict(unique_ids))
        publish(fs, f"{root}/commits/{last + 1}", encode_commit_log(commit), overwrite=False)
    return last + 1
