"""Offers the methods of PySpark's DataStreamWriter for the output of a stateful function."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from hdfsstore.errors import UnsupportedQueryError
from hdfsstore.spark.driver.conf import QueryConf
from hdfsstore.spark.driver.query import StatefulQuery
from hdfsstore.spark.driver.query_description import QueryDescription
from hdfsstore.spark.driver.start import StartSettings, start_query
from hdfsstore.spark.driver.unsupported import check_output_mode, refuse_trigger
from hdfsstore.spark.driver.upstream_operators import check_upstream
from hdfsstore.spark.querylog.checkpoint_location import CheckpointLocation, find_checkpoint
from hdfsstore.spark.sinks.formats import Sink, make_sink
from hdfsstore.spark.sinks.parquet import ParquetSink
from hdfsstore.spark.sinks.table import TableSink

log = logging.getLogger("hdfsstore.spark")

_ASYNC = "asyncprogresstrackingenabled"
# Options of the query, in lower case; the others are the sink's.
_OF_QUERY = ("checkpointlocation", "queryname")


class StatefulStreamWriter:
    """Starts a query. Methods, arguments and errors are those of PySpark's DataStreamWriter. Stateful functions do not
    support its methods partitionBy, clusterBy and foreach.

    Args:
        description: the stream that is written.
    """

    def __init__(self, description: QueryDescription) -> None:
        self._description = description
        self._spark = description.rows.sparkSession
        self._checked = description.rows.writeStream  # PySpark checks each setting first, with its own errors
        self._trigger: dict[str, Any] = {}
        self._options: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._query_name: str | None = None
        self._source: str | None = None
        self._function: Sink | None = None

    def outputMode(self, outputMode: str) -> StatefulStreamWriter:
        """'append' or 'update', the same as the function's. Without a call the function's mode holds."""
        check_output_mode(outputMode)
        if outputMode.lower() != self._description.output_mode:
            raise ValueError(
                f"outputMode({outputMode!r}) is not that of the function, {self._description.output_mode!r}: "
                f"give {self._description.method} and outputMode the same mode"
            )
        return self

    def format(self, source: str) -> StatefulStreamWriter:
        """'noop', 'console' or 'parquet'. For other formats use foreachBatch."""
        if not isinstance(source, str):
            raise TypeError(f"format takes a name, not {type(source).__name__}")
        self._source, self._function = source, None
        return self

    def option(self, key: str, value: bool | float | str | None) -> StatefulStreamWriter:
        """`checkpointLocation`, `hdfsstore.*` (docs/stateful.md), or an option of the sink. None changes nothing."""
        if value is not None:
            text = str(value).lower() if isinstance(value, bool) else str(value)
            self._options[key.lower()] = text
            self._names[key.lower()] = key
        return self

    def options(self, **options: bool | float | str | None) -> StatefulStreamWriter:
        """Sets several options. For a name with a dot: options(**{"hdfsstore.numPartitions": 8})."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def queryName(self, queryName: str) -> StatefulStreamWriter:
        """Names the query. No other running query of the session may have the name."""
        self._checked.queryName(queryName)
        self._query_name = queryName
        return self

    def trigger(
        self,
        *,
        processingTime: str | None = None,
        once: bool | None = None,
        continuous: str | None = None,
        availableNow: bool | None = None,
        realTime: str | None = None,
    ) -> StatefulStreamWriter:
        """Says when batches run: processingTime, availableNow or once. By default each batch follows the last one."""
        if continuous is not None:
            refuse_trigger("continuous")
        if realTime is not None:
            refuse_trigger("realTime")
        trigger = {"processingTime": processingTime, "once": once, "availableNow": availableNow}
        given: dict[str, Any] = {name: value for name, value in trigger.items() if value is not None}
        self._checked.trigger(**given)
        self._trigger = given
        return self

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> StatefulStreamWriter:
        """Calls func(output, batch id) for each batch, and may repeat the call for a batch (docs/stateful-sinks.md)."""
        if not callable(func):
            raise TypeError(f"foreachBatch takes a function of a DataFrame and a batch id, not {type(func).__name__}")
        self._function, self._source = func, None
        return self

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        *,
        queryName: str | None = None,
        **options: bool | float | str | None,
    ) -> StatefulQuery:
        """Starts the query in the background.

        Args:
            path: where a sink that writes files writes them.
            format, outputMode, queryName, options: as in the methods of these names.

        Raises:
            UnsupportedQueryError: hdfsstore cannot run the query as it is.
            ValueError: a setting is invalid, or there is no checkpoint location.
            StateStoreError: the checkpoint does not fit the query, or cannot be read or written.
        """
        self._set(format, outputMode, queryName, options)
        conf = self._conf()
        checkpoint = self._checkpoint(conf)
        sink = self._function
        if sink is None:
            where = path or self._options.get("path")
            of_sink = self._sink_options()
            sink = make_sink(self._spark, self._format(), where, of_sink, self._description.output, checkpoint)
        return self._start(conf, checkpoint, sink, sink.claim if isinstance(sink, ParquetSink) else None)

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        *,
        queryName: str | None = None,
        **options: bool | float | str | None,
    ) -> StatefulQuery:
        """Starts a query that appends to a parquet table. It creates a missing table. See start."""
        self._set(format, outputMode, queryName, options)
        conf = self._conf()
        checkpoint = self._checkpoint(conf)
        sink = TableSink(self._spark, tableName, self._format(), self._sink_options(), self._description.output)
        return self._start(conf, checkpoint, sink, sink.make_table)

    def _set(
        self,
        source: str | None,
        output_mode: str | None,
        query_name: str | None,
        options: dict[str, bool | float | str | None],
    ) -> None:
        if "partitionBy" in options:
            raise TypeError("partitionBy is not offered for stateful queries: foreachBatch can write with it")
        self.options(**options)
        if output_mode is not None:
            self.outputMode(output_mode)
        if source is not None:
            self.format(source)
        if query_name is not None:
            self.queryName(query_name)

    def _conf(self) -> QueryConf:
        """The query's settings, once they are checked together with its plan."""
        if self._options.get(_ASYNC) == "true":
            raise UnsupportedQueryError(
                f"the option {self._names[_ASYNC]} lets batches run before Spark has logged them",
                remedy="Leave it out: hdfsstore finds the state of a batch by Spark's log",
            )
        conf = QueryConf.from_spark(
            self._spark.conf.getAll, {self._names[key]: value for key, value in self._options.items()}
        )
        query = self._description
        check_upstream(query.rows, query.output_mode, query.timeout_conf, allow_multiple=conf.allow_multiple)
        if conf.store.checkpoint_format_version == 1:
            if conf.speculation:
                raise UnsupportedQueryError(
                    "spark.speculation runs tasks twice, and with hdfsstore.checkpointFormatVersion 1 both write the "
                    "same files",
                    remedy="Switch spark.speculation off, or leave the format at 2",
                )
            log.warning(
                "hdfsstore.checkpointFormatVersion is 1: a losing attempt of a task may overwrite a file of the state "
                "after it was read, which format 2 rules out (docs/store.md)"
            )
        return conf

    def _sink_options(self) -> dict[str, str]:
        """The options for the sink, by their names in lower case."""
        return {
            key: value
            for key, value in self._options.items()
            if key not in _OF_QUERY and not key.startswith("hdfsstore.")
        }

    def _format(self) -> str:
        return self._source or str(self._spark.conf.get("spark.sql.sources.default"))

    def _name(self) -> str | None:
        return self._query_name or self._options.get("queryname")

    def _checkpoint(self, conf: QueryConf) -> CheckpointLocation:
        return find_checkpoint(
            self._spark,
            self._options.get("checkpointlocation"),
            self._name(),
            client=conf.fs_client,
            timeout_s=conf.fs_timeout_s,
        )

    def _start(
        self,
        conf: QueryConf,
        checkpoint: CheckpointLocation,
        sink: Sink,
        claim_output: Callable[[], None] | None,
    ) -> StatefulQuery:
        settings = StartSettings(conf, checkpoint, sink, claim_output, self._trigger, self._name())
        return start_query(self._description, settings)
