"""The examples of docs/recipes.md, run in their order on a checkpoint of Spark."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars
import pytest
from deltalake import DeltaTable

import hdfsstore
from tests.support.rows import counted
from tests.support.truth import DATA

SPARK = DATA / "spark-4.3.0"
CHECKPOINT = SPARK / "offset_log_v2/checkpoint"
PAGE = Path(__file__).parents[2] / "docs/recipes.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_examples_tell_what_is_in_the_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code in EXAMPLES:
        exec(code.replace("file:///data/cp", CHECKPOINT.as_uri()), names)
    checkpoint = hdfsstore.Checkpoint(CHECKPOINT)
    rows = checkpoint.read_state().to_pylist()
    counts = {row["key"]["k"]: row["value"]["count"] for row in rows}
    most = sorted(counts.values(), reverse=True)[:3]

    assert len(names["frame"]) == len(names["exact"]) == len(rows)
    assert names["largest"]["value.count"].tolist() == most
    assert str(names["exact"].dtypes["value.sum"]) == "int64[pyarrow]"
    assert names["exact"]["value.sum"].isna().sum() == sum(row["value"]["sum"] is None for row in rows)

    per_partition = Counter(row["partition_id"] for row in rows)
    assert {row["partition_id"]: row["len"] for row in names["by_partition"].to_dicts()} == per_partition
    assert names["by_partition"]["count"].sum() == sum(counts.values())
    before = {row["key"]["k"]: row["value"]["count"] for row in checkpoint.read_state(batch_id=1).to_pylist()}
    grown = {key for key, count in counts.items() if count > before.get(key, 0)}
    assert set(names["grown"]["key.k"]) == grown != set()

    assert names["counted"] == sum(counts.values())
    assert [count for _, count in names["frequent"]] == most
    assert all(counts[key] == count for key, count in names["frequent"])


@pytest.mark.parametrize("case", ["offset_log_v2", "apply_in_pandas_with_state", "drop_duplicates_within_watermark"])
def test_the_table_of_delta_follows_the_query(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checkpoint = hdfsstore.Checkpoint(SPARK / case / "checkpoint")
    last = checkpoint.latest_batch_id
    kinds = set(checkpoint.read_changes(0, last)["change_type"].to_pylist())
    assert ("delete" in kinds) == (case != "offset_log_v2")
    names: dict[str, Any] = {"cp": checkpoint, "pl": polars}
    write, follow = EXAMPLES[-2:]
    exec(write, names)
    exec(follow, names)
    table, expected = DeltaTable("state.delta"), checkpoint.read_state()
    found = table.to_pyarrow_table().select(expected.column_names)
    assert counted(found.cast(expected.schema)) == counted(expected) != counted(checkpoint.read_state(batch_id=0))
    changed = [number for number in range(last, -1, -1) if len(checkpoint.read_changes(number, number))]
    assert [commit.get("batch") for commit in table.history()] == [str(number) for number in changed]
    exec(follow, names)  # there is nothing left to do
    assert DeltaTable("state.delta").version() == table.version()
