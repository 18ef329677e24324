"""Reads the settings of a query: options `hdfsstore.*` of its writer, or confs `spark.hdfsstore.*`. The option wins."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs.settings import CLIENT_NAMES
from hdfsstore.fs.storage_options import parse_timeout
from hdfsstore.state.conf import StateStoreConf, parse_boolean, parse_bytes

T = TypeVar("T")

_STATE_STORE = "spark.sql.streaming.stateStore."
_STREAMING = "spark.sql.streaming."
_OPTION = "hdfsstore."
_CONF = "spark.hdfsstore."

# Settings of the store: our name, and the name that StateStoreConf.from_spark takes.
_OF_STORE = {
    "checkpointFormatVersion": f"{_STATE_STORE}checkpointFormatVersion",
    "compression.codec": f"{_STATE_STORE}compression.codec",
    "imageOverlayShare": f"{_CONF}imageOverlayShare",
    "localDir": f"{_CONF}localDir",
    "localDirMaxBytes": f"{_CONF}localDirMaxBytes",
    "maintenanceInterval": f"{_STATE_STORE}maintenanceInterval",
    "maxBatchesToRetainInMemory": f"{_STREAMING}maxBatchesToRetainInMemory",
    "maxRecordBytes": f"{_CONF}maxRecordBytes",
    "minBatchesToRetain": f"{_STREAMING}minBatchesToRetain",
    "minDeltasForSnapshot": f"{_STATE_STORE}minDeltasForSnapshot",
    "rowChecksum.enabled": f"{_STATE_STORE}rowChecksum.enabled",
}
_OTHERS = ("fs.client", "fs.timeout", "maxBytesPerCall", "numPartitions", "redactErrors", "singleDriver")
NAMES = tuple(sorted((*_OF_STORE, *_OTHERS)))


@dataclass(frozen=True, slots=True)
class QueryConf:
    """Settings of a query. Brackets name the option or the conf.

    Attributes:
        num_partitions: partitions of the state, for a query that has no state yet [numPartitions, else
            spark.sql.shuffle.partitions].
        max_bytes_per_call: most bytes of Arrow data that an engine gets at a time, unless one key has more
            [maxBytesPerCall]. A worker takes several times as much: rows, keys, output, pandas' copies.
        num_recent_progress: number of batches in recentProgress [spark.sql.streaming.numRecentProgressUpdates].
        speculation: whether Spark may run two attempts of a task at a time [spark.speculation].
        store: settings of the state store [the other names; else Spark's own confs].
        fs_client: the client of HDFS [fs.client]; None: libhdfs where it can be loaded, else hdfs-native.
        fs_timeout_s: seconds without progress after which a call to HDFS or S3 fails [fs.timeout].
        redact_errors: whether errors leave out keys and values [redactErrors].
        single_driver: whether the user answers for it that no other driver runs the query at the same time
            [singleDriver].
        names_sources, names_sinks: whether each source and each sink of a query must have a name
            [spark.sql.streaming.queryEvolution.enableSourceEvolution, .enableSinkEvolution].
        allow_multiple: whether a query may have several stateful operators. Then the watermark of the batch before
            decides which rows are late; otherwise the batch's own does
            [spark.sql.streaming.statefulOperator.allowMultiple].
        stop_active_run: whether a start stops a run of the same query [spark.sql.streaming.stopActiveRunOnRestart].
        may_spill: whether tasks may write rows to the local disk [false if spark.io.encryption.enabled: Spark encrypts
            what it writes there].
    """

    num_partitions: int = 200
    max_bytes_per_call: int = 64 << 20
    num_recent_progress: int = 100
    speculation: bool = False
    store: StateStoreConf = field(default_factory=StateStoreConf)
    redact_errors: bool = False
    names_sources: bool = False
    names_sinks: bool = False
    allow_multiple: bool = True
    stop_active_run: bool = True
    may_spill: bool = True
    single_driver: bool = False
    fs_client: str | None = None
    fs_timeout_s: float = 120.0

    @classmethod
    def from_spark(cls, conf: Mapping[str, str], options: Mapping[str, str]) -> QueryConf:
        """The settings of a query that starts now.

        Args:
            conf: the session's, from spark.conf.getAll.
            options: the writer's. Names without the prefix `hdfsstore.` are ignored. The case of names does not
                matter, as in Spark.

        Raises:
            ValueError: there is no such setting, or its value is invalid; the message has its name.
        """
        given = {name: (full, value) for name, full, value in _given(conf, options)}

        def setting(name: str, spark_name: str, default: str, parse: Callable[[str], T]) -> T:
            full, value = given.get(name) or (spark_name, conf.get(spark_name, default))
            return _parsed(full, value, parse)

        def is_on(name: str, default: str) -> bool:
            return conf.get(name, default).strip().lower() == "true"

        return cls(
            num_partitions=setting("numPartitions", "spark.sql.shuffle.partitions", "200", _positive),
            max_bytes_per_call=setting("maxBytesPerCall", f"{_CONF}maxBytesPerCall", "64m", _positive_bytes),
            num_recent_progress=int(conf.get("spark.sql.streaming.numRecentProgressUpdates", "100")),
            speculation=is_on("spark.speculation", "false"),
            may_spill=not is_on("spark.io.encryption.enabled", "false"),
            names_sources=is_on(f"{_STREAMING}queryEvolution.enableSourceEvolution", "false"),
            names_sinks=is_on(f"{_STREAMING}queryEvolution.enableSinkEvolution", "false"),
            allow_multiple=is_on(f"{_STREAMING}statefulOperator.allowMultiple", "true"),
            stop_active_run=is_on(f"{_STREAMING}stopActiveRunOnRestart", "true"),
            store=_store(conf, given),
            fs_client=setting("fs.client", f"{_CONF}fs.client", "", _client),
            fs_timeout_s=setting("fs.timeout", f"{_CONF}fs.timeout", "120s", parse_timeout),
            redact_errors=setting("redactErrors", f"{_CONF}redactErrors", "false", parse_boolean),
            single_driver=setting("singleDriver", f"{_CONF}singleDriver", "false", parse_boolean),
        )


def _given(conf: Mapping[str, str], options: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The settings under our names: (name, name in full, value). Of two with one name the later one wins."""
    known = {name.lower(): name for name in NAMES}
    found = []
    for prefix, settings in ((_CONF, conf), (_OPTION, options)):
        for full, value in settings.items():
            if not full.lower().startswith(prefix):
                continue
            rest = full[len(prefix) :]
            if rest.lower() not in known:
                raise ValueError(_unknown(full, prefix, rest))
            found.append((known[rest.lower()], full, value))
    return found


def _unknown(full: str, prefix: str, rest: str) -> str:
    near = difflib.get_close_matches(rest, NAMES, 1)
    meant = f"; {prefix}{near[0]} is the nearest" if near else ""
    return f"there is no setting {full}{meant}. There are {', '.join(prefix + name for name in NAMES)}"


def _store(conf: Mapping[str, str], given: Mapping[str, tuple[str, str]]) -> StateStoreConf:
    merged = dict(conf)
    # Spark's own HDFS-backed stores in the same session need format 1. That does not concern ours.
    merged.pop(_OF_STORE["checkpointFormatVersion"], None)
    for name, spark_name in _OF_STORE.items():
        if name in given:
            full, value = given[name]
            merged[spark_name] = value
            _parsed(full, value, partial(_store_setting, spark_name))
    store = StateStoreConf.from_spark(merged)
    # Spark encrypts what it writes to local disks then. Local images are not encrypted, so there are none.
    is_encrypted = parse_boolean(conf.get("spark.io.encryption.enabled", "false"))
    return replace(store, local_dir_max_bytes=0) if is_encrypted else store


def _store_setting(spark_name: str, value: str) -> StateStoreConf:
    return StateStoreConf.from_spark({spark_name: value})


def _parsed(full: str, value: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(value)
    except (ValueError, KeyError, StateStoreError) as error:
        raise ValueError(f"{full}: {value!r} makes no sense: {error}") from error


def _client(value: str) -> str | None:
    if value and value not in CLIENT_NAMES:
        raise ValueError(f"it is one of {', '.join(CLIENT_NAMES)}")
    return value or None


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise ValueError("it is at least 1")
    return number


def _positive_bytes(value: str) -> int:
    number = parse_bytes(value)
    if number < 1:
        raise ValueError("it is at least 1")
    return number
