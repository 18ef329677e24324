"""The options of Spark's `statestore`, and of our source, for a read of tests/data."""

from __future__ import annotations

from tests.support.truth import Read


def options_of(read: Read) -> dict[str, str]:
    """As `spark.read.options` takes them, with the path."""
    facts = read.facts
    options = {"path": str(read.case.checkpoint), "operatorId": str(facts["operator_id"])}
    if facts["join_side"]:
        options["joinSide"] = facts["join_side"]
    elif facts["store_name"] != "default":
        options["storeName"] = facts["store_name"]
    if facts.get("state_variable"):
        options["stateVarName"] = facts["state_variable"]
    if facts.get("nested"):
        options["flattenCollectionTypes"] = "false"
    if facts.get("timers"):
        options["readRegisteredTimers"] = "true"
    if not facts["change_feed"]:
        return options | {"batchId": str(facts["batch_id"])}
    start, end = map(str, facts["change_feed"])
    return options | {"readChangeFeed": "true", "changeStartBatchId": start, "changeEndBatchId": end}
