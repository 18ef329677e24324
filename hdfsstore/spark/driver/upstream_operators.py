"""Finds Spark's own stateful operators before ours in a query, and refuses those that cannot precede it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from hdfsstore.spark.driver.unsupported import SPARK_RELEASES, refuse

# Classes of nodes of a logical plan that keep state on a stream (UnsupportedOperationChecker.scala, and the rules of
# Optimizer.scala that rewrite nodes as aggregations).
_DEDUPLICATIONS = frozenset({"Deduplicate", "DeduplicateWithinWatermark"})
_AGGREGATIONS = frozenset({"Aggregate", "Distinct", "Except", "Intersect"})
_LIMITS = frozenset({"GlobalLimit"})
_FUNCTIONS = frozenset(
    {
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "TransformWithState",
        "TransformWithStateInPySpark",
    }
)
# Nodes that keep no state, or that Spark does not run on a stream: of Spark 4.1 to 4.3, in analyzed plans.
_STATELESS = frozenset(
    {
        "AppendColumns",
        "AppendColumnsWithObject",
        "CTERelationDef",
        "CollectMetrics",
        "DeserializeToObject",
        "EventTimeWatermark",
        "Expand",
        "Filter",
        "FlatMapGroupsInArrow",
        "FlatMapGroupsInPandas",
        "FlatMapGroupsInR",
        "FlatMapGroupsInRWithArrow",
        "Generate",
        "LateralJoin",
        "LocalLimit",
        "MapElements",
        "MapGroups",
        "MapInArrow",
        "MapInPandas",
        "MapPartitions",
        "MapPartitionsExternalUDF",
        "MapPartitionsInR",
        "MapPartitionsInRWithArrow",
        "NamedStreamingRelation",
        "Offset",
        "PipeOperator",
        "Project",
        "RebalancePartitions",
        "Repartition",
        "RepartitionByExpression",
        "ResolvedHint",
        "SQLFunctionNode",
        "Sample",
        "ScriptTransformation",
        "SequentialStreamingUnion",
        "SerializeFromObject",
        "Sort",
        "SubqueryAlias",
        "TypedFilter",
        "Union",
        "UpdateEventTimeWatermarkColumn",
        "View",
        "Window",
        "WithCTE",
    }
)
_JOIN = "Join"


def stateful_operators(df: DataFrame) -> list[str]:
    """The names of Spark's own stateful operators in the plan of a streaming df.

    Raises:
        UnsupportedQueryError: there is an unknown operator on a stream. It may keep state.
    """
    return [name for name, plan in _nodes(df._jdf.queryExecution().analyzed()) if _keeps_state(name, plan)]


def check_upstream(df: DataFrame, output_mode: str, timeout_conf: str, *, allow_multiple: bool) -> None:
    """Refuses stateful operators of Spark that cannot precede ours.

    Deduplications and limits pass rows on unchanged. The rows of an aggregation in append mode are not late for ours.
    Rows of a stream-stream join may be older than the watermark, and only Spark's own operators know by how much.

    Args:
        allow_multiple: spark.sql.streaming.statefulOperator.allowMultiple. Without it the rows of an aggregation are
            late.

    Raises:
        UnsupportedQueryError: an operator cannot precede this function; the message names it.
    """
    for name in stateful_operators(df):
        if name in _FUNCTIONS:
            refuse(
                f"this query has a stateful function of Spark ({name}) before ours",
                "Let one query write the output of the first function, and another one read it",
            )
        if name not in _DEDUPLICATIONS and output_mode != "append":
            refuse(
                f"there is a stateful operator of Spark ({name}) before ours, which works in append mode only, and the "
                f"output mode is {output_mode}",
                "Use 'append' in the function and in writeStream, or two queries",
            )
        if name not in _DEDUPLICATIONS | _LIMITS and not allow_multiple:
            refuse(
                f"there is a stateful operator of Spark ({name}) before ours, and "
                "spark.sql.streaming.statefulOperator.allowMultiple is false, so its rows would be dropped as late",
                "Set it to true, or use two queries",
            )
        if name == _JOIN and timeout_conf == "EventTimeTimeout":
            refuse(
                "the rows of a stream-stream join may be older than the watermark, and EventTimeTimeout would drop "
                "them as late",
                "Use ProcessingTimeTimeout or NoTimeout, or two queries",
            )


def check_supported(df: DataFrame, output_mode: str) -> None:
    """Refuses a plan that Spark cannot run on a stream. Spark checks this too, when the query starts.

    Raises:
        AnalysisException: Spark cannot run it.
    """
    if df.sparkSession.conf.get("spark.sql.streaming.unsupportedOperationCheck", "true") != "true":
        return
    sql: Any = df.sparkSession._jvm.org.apache.spark.sql  # type: ignore[union-attr]
    mode = getattr(sql.streaming.OutputMode, output_mode.capitalize())()
    sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(df._jdf.queryExecution().analyzed(), mode)


def _nodes(plan: Any) -> Iterator[tuple[str, Any]]:
    """The nodes of a plan on a stream, except the sources, with the names of their classes."""
    children = plan.children()
    if children.isEmpty() or not plan.isStreaming():
        return
    yield plan.getClass().getSimpleName(), plan
    for i in range(children.size()):
        yield from _nodes(children.apply(i))


def _keeps_state(name: str, plan: Any) -> bool:
    if name == _JOIN:
        return bool(plan.left().isStreaming() and plan.right().isStreaming())
    if name in _STATELESS:
        return False
    if name not in _DEDUPLICATIONS | _AGGREGATIONS | _LIMITS | _FUNCTIONS:
        refuse(
            f"this query has an operator {name} before ours, and it is not known whether it keeps state",
            "Let one query write the output of this operator, and another one read it. hdfsstore knows the operators "
            f"of Spark {SPARK_RELEASES[0]} to {SPARK_RELEASES[-1]}",
        )
    return True
