"""The states of a key that Spark read."""

from __future__ import annotations

from itertools import chain

from hdfsstore.conditions.names import unique_names, with_names
from hdfsstore.conditions.texts import json_texts
from tests.support.truth import Read, reads, rocksdb_reads


def states(case: str, store_name: str = "default", operator_id: int = 0) -> dict[int, dict[str, str]]:
    """What Spark read: for each batch the values by key, both as JSON."""
    found: dict[int, dict[str, str]] = {}
    for read in [*reads(), *rocksdb_reads()]:
        facts = read.facts
        of = (read.case.folder.parent.name, read.case.folder.name, facts["store_name"], facts["operator_id"])
        whole = facts["change_feed"] is None and facts["join_side"] is None
        if of == ("spark-4.3.0", case, store_name, operator_id) and whole:
            found[facts["batch_id"]] = _by_key(read)
    return found


def _by_key(read: Read) -> dict[str, str]:
    rows = read.rows
    assert rows is not None
    named = [with_names(batch, unique_names(batch.schema)) for batch in rows.to_batches()]
    texts = [zip(json_texts(batch["key"]), json_texts(batch["value"]), strict=True) for batch in named]
    return dict(chain.from_iterable(texts))
