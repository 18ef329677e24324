"""The cases of transformWithState: each type of state, times to live, timers, encodings and changed schemas."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from .case import LAST, SINCE_41, Inputs, Query, case
from .cases import ROW_CHECKSUM
from .data import EVENTS, events
from .rocksdb_cases import CONF, IDS, ON_CHANGELOGS, ON_ZIPS

AVRO = {"spark.sql.streaming.stateStore.encodingFormat": "avro"}
MERGE_OPERATOR = f"{CONF}.mergeOperatorVersion"


def transformed(inputs: Inputs, name: str, time: str = "None", batches: int = 3) -> Query:
    """A query with the processor of that name."""
    from . import processor  # Spark 3.5 has none

    stream = inputs.stream("input", EVENTS, events(batches))
    if time == "EventTime":
        stream = stream.withWatermark("ts", "1 minute")
    frame = stream.groupBy("k").transformWithStateInPandas(
        statefulProcessor=getattr(processor, name)(),
        outputStructType=processor.OUTPUT,
        outputMode="Update",
        timeMode=time,
    )
    return Query(frame, batches=batches if time == "ProcessingTime" else None)


@case("4.0.0", "4.3", confs=ON_CHANGELOGS)
def transform_with_state(inputs: Inputs) -> Query:
    """transformWithStateInPandas with value, list and map state: schema version 3, operator metadata version 2."""
    return transformed(inputs, "Totals")


@case(*SINCE_41, confs=ON_CHANGELOGS)
def transform_structures(inputs: Inputs) -> Query:
    """Value, list and map state with rows of several fields, replaced, cleared and appended to, with changelogs."""
    return transformed(inputs, "Structures", batches=4)


@case(*LAST, confs=ON_ZIPS)
def transform_structures_zips(inputs: Inputs) -> Query:
    """Value, list and map state with rows of several fields, snapshots only: operands in several files."""
    return transformed(inputs, "Structures", batches=4)


@case(*SINCE_41, confs=IDS)
def transform_unique_ids(inputs: Inputs) -> Query:
    """transformWithState with unique ids."""
    return transformed(inputs, "Structures")


@case("4.0", confs=IDS, own_session=True)
def transform_totals_unique_ids(inputs: Inputs) -> Query:
    """transformWithState with unique ids; the Python of Spark 4.0 cannot read nulls in a state of several fields."""
    return transformed(inputs, "Totals")


@case(*LAST, confs={**ON_ZIPS, MERGE_OPERATOR: "1"})
def transform_merge_operator_1(inputs: Inputs) -> Query:
    """The merge operator that joins with a comma."""
    return transformed(inputs, "Structures", batches=6)


@case(*LAST, confs={**ON_ZIPS, MERGE_OPERATOR: "2"})
def transform_merge_operator_2(inputs: Inputs) -> Query:
    """The merge operator that joins with nothing."""
    return transformed(inputs, "Structures", batches=6)


@case(*LAST, confs={**ON_CHANGELOGS, **ROW_CHECKSUM})
def transform_row_checksum(inputs: Inputs) -> Query:
    """Row checksums of value, list and map state, with changelogs."""
    return transformed(inputs, "Structures")


@case(*LAST, confs={**ON_ZIPS, **ROW_CHECKSUM})
def transform_row_checksum_zips(inputs: Inputs) -> Query:
    """Row checksums of value, list and map state, snapshots only: merged rows have one each."""
    return transformed(inputs, "Structures")


@case("4.0", "4.3", confs=ON_CHANGELOGS)
def transform_ttl(inputs: Inputs) -> Query:
    """Value, list and map state with times to live that have not ended."""
    return transformed(inputs, "Expiring", "ProcessingTime")


@case(*LAST, confs=ON_ZIPS)
def transform_ttl_zips(inputs: Inputs) -> Query:
    """Value, list and map state with times to live that have not ended, snapshots only."""
    return transformed(inputs, "Expiring", "ProcessingTime")


@case(*LAST, confs=ON_CHANGELOGS)
def transform_ttl_expired(inputs: Inputs) -> Query:
    """Value, list and map state with times to live of one millisecond: rows are evicted."""
    return transformed(inputs, "Expired", "ProcessingTime", 4)


@case("4.0", "4.3", confs=ON_CHANGELOGS)
def transform_event_timers(inputs: Inputs) -> Query:
    """Timers of event time: registered, deleted, fired."""
    return transformed(inputs, "Alarms", "EventTime", 4)


@case(*LAST, confs=ON_ZIPS)
def transform_event_timers_zips(inputs: Inputs) -> Query:
    """Timers of event time, snapshots only."""
    return transformed(inputs, "Alarms", "EventTime", 4)


@case(*LAST, confs=ON_CHANGELOGS)
def transform_clock_timers(inputs: Inputs) -> Query:
    """Timers of processing time: registered, deleted, fired."""
    return transformed(inputs, "ClockAlarms", "ProcessingTime", 5)


@case("4.0", "4.1", confs={**ON_CHANGELOGS, **AVRO})
def transform_avro_totals(inputs: Inputs) -> Query:
    """Value, list and map state of single numbers, encoded with Avro."""
    return transformed(inputs, "Totals")


@case(*LAST, confs={**ON_CHANGELOGS, **AVRO})
def transform_avro(inputs: Inputs) -> Query:
    """Value, list and map state encoded with Avro."""
    return transformed(inputs, "Filled")


@case(*LAST, confs={**ON_ZIPS, **AVRO})
def transform_avro_zips(inputs: Inputs) -> Query:
    """Value, list and map state encoded with Avro, snapshots only."""
    return transformed(inputs, "Filled")


@case(*LAST, confs={**ON_CHANGELOGS, **AVRO})
def transform_avro_ttl(inputs: Inputs) -> Query:
    """State with times to live, encoded with Avro."""
    return transformed(inputs, "Expiring", "ProcessingTime")


@case(*LAST, confs={**ON_CHANGELOGS, **AVRO})
def transform_avro_timers(inputs: Inputs) -> Query:
    """Timers of event time, encoded with Avro."""
    return transformed(inputs, "Alarms", "EventTime", 4)


def of_the_jvm(inputs: Inputs, keys: str, time: str = "None", *, expires: bool = False) -> Query:
    """A query of java_since_40/hdfsstore/Processors.java, whose function makes its keys."""
    stream = inputs.stream("input", EVENTS, events(4))
    if time == "EventTime":
        stream = stream.withWatermark("ts", "1 minute")
    make = getattr(inputs.spark._jvm.hdfsstore.Processors, keys)
    frame = DataFrame(make(stream._jdf, time, expires), inputs.spark)
    return Query(frame, batches=4 if time == "ProcessingTime" else None)


@case("4.0", "4.3", confs=ON_CHANGELOGS)
def transform_jvm(inputs: Inputs) -> Query:
    """transformWithState of the JVM: primitives, beans, tuples and Kryo in value, list and map state, and timers."""
    return of_the_jvm(inputs, "byString", "EventTime")


@case(*LAST, confs=ON_ZIPS)
def transform_jvm_pairs_zips(inputs: Inputs) -> Query:
    """transformWithState of the JVM with keys of two columns, snapshots only."""
    return of_the_jvm(inputs, "byPair")


@case(*LAST, confs={**ON_CHANGELOGS, **AVRO})
def transform_jvm_avro(inputs: Inputs) -> Query:
    """transformWithState of the JVM, encoded with Avro."""
    return of_the_jvm(inputs, "byPair", "EventTime")


@case(*LAST, confs={**IDS, **AVRO, **ROW_CHECKSUM})
def transform_jvm_avro_ttl(inputs: Inputs) -> Query:
    """transformWithState of the JVM with times to live, encoded with Avro, with row checksums and unique ids."""
    return of_the_jvm(inputs, "byString", "ProcessingTime", expires=True)


def evolved(inputs: Inputs) -> Query:
    return replace(transformed(inputs, "Totals", batches=2), then=lambda: transformed(inputs, "Extended", batches=2))


@case(*LAST, confs={**ON_CHANGELOGS, **AVRO})
def transform_avro_evolved(inputs: Inputs) -> Query:
    """State encoded with Avro by two schemas: x."""
    return evolved(inputs)


@case(*LAST, confs={**ON_ZIPS, **AVRO})
def transform_avro_evolved_zips(inputs: Inputs) -> Query:
    """State encoded with Avro by two schemas, snapshots only."""
    return evolved(inputs)
