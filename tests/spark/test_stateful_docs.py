"""The examples of docs/stateful.md, run in their order on one stream."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "stateful.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_each_method_counts_clicks(spark: SparkSession, tmp_path: Path) -> None:
    found: dict[int, dict[str, int]] = {}

    def sink(output: DataFrame, batch_id: int) -> None:
        found[batch_id] = {row.user: row.clicks for row in output.collect()}

    for number, users in enumerate((["ann", "bob", "ann"], ["ann"])):
        pd.DataFrame({"user": users}).to_json(tmp_path / f"{number}.json", orient="records", lines=True)
    events = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1).json(str(tmp_path / "*.json"))
    names: dict[str, Any] = {"events": events, "sink": sink}
    methods = []
    for number, example in enumerate(EXAMPLES):
        names["cp"] = str(tmp_path / f"cp{number}")
        exec(example, names)
        method = re.search(r'groupBy\(events, "user"\)\.(\w+)', example)
        if not method:
            continue
        methods.append(method[1])
        if "query = " not in example:
            writer = names["counts"].writeStream.foreachBatch(sink).option("checkpointLocation", names["cp"])
            names["query"] = writer.start()
        names["query"].processAllAvailable()
        names["query"].stop()
        assert found == {0: {"ann": 2, "bob": 1}, 1: {"ann": 3}}, method[1]
        found.clear()
    assert methods == ["applyInPandasWithState", "mapWithState", "mapInArrowWithState"]
