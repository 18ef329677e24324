"""Tests the options of a query, their names in Spark's conf, and which of them wins."""

from __future__ import annotations

import pytest

from hdfsstore.spark.driver.conf import NAMES, QueryConf
from hdfsstore.state.conf import StateStoreConf

STATE = "spark.sql.streaming.stateStore."


def test_the_defaults() -> None:
    assert QueryConf.from_spark({}, {}) == QueryConf(200, 64 << 20, 100, False, StateStoreConf())
    assert QueryConf().store.checkpoint_format_version == 2


def test_every_setting_is_an_option() -> None:
    options = {
        "hdfsstore.numPartitions": "7",
        "hdfsstore.maxBytesPerCall": "1m",
        "hdfsstore.minDeltasForSnapshot": "3",
        "hdfsstore.minBatchesToRetain": "4",
        "hdfsstore.maxBatchesToRetainInMemory": "0",
        "hdfsstore.compression.codec": "zstd",
        "hdfsstore.checkpointFormatVersion": "1",
        "hdfsstore.rowChecksum.enabled": "true",
        "hdfsstore.maintenanceInterval": "2min",
        "hdfsstore.localDir": "/scratch",
        "hdfsstore.localDirMaxBytes": "2g",
        "hdfsstore.imageOverlayShare": "0.5",
        "hdfsstore.maxRecordBytes": "1m",
        "hdfsstore.fs.client": "hdfs-native",
        "hdfsstore.fs.timeout": "2m",
        "hdfsstore.redactErrors": "true",
        "hdfsstore.singleDriver": "true",
        "numRows": "of the console",
    }
    store = StateStoreConf(3, 4, 0, "zstd", 1, True, 120.0, "/scratch", 2 << 30, 0.5, 1 << 20)
    expected = QueryConf(
        7, 1 << 20, 100, False, store, True, single_driver=True, fs_client="hdfs-native", fs_timeout_s=120.0
    )
    assert QueryConf.from_spark({}, options) == expected
    assert {f"hdfsstore.{name}" for name in NAMES} == options.keys() - {"numRows"}
    confs = {f"spark.{name}": value for name, value in options.items() if name != "numRows"}
    assert QueryConf.from_spark(confs, {}) == expected


def test_an_option_wins_over_our_conf_and_our_conf_over_sparks() -> None:
    confs = {"spark.sql.shuffle.partitions": "5", f"{STATE}minDeltasForSnapshot": "6"}
    of_spark = QueryConf.from_spark(confs, {})
    assert (of_spark.num_partitions, of_spark.store.min_deltas_for_snapshot) == (5, 6)
    confs |= {"spark.hdfsstore.numPartitions": "7", "spark.hdfsstore.minDeltasForSnapshot": "8"}
    ours = QueryConf.from_spark(confs, {})
    assert (ours.num_partitions, ours.store.min_deltas_for_snapshot) == (7, 8)
    options = {"HDFSSTORE.numpartitions": "9", "hdfsstore.minDeltasForSnapshot": "10"}
    option = QueryConf.from_spark(confs, options)
    assert (option.num_partitions, option.store.min_deltas_for_snapshot) == (9, 10)


def test_the_format_of_sparks_own_stores_is_not_ours() -> None:
    assert QueryConf.from_spark({f"{STATE}checkpointFormatVersion": "1"}, {}).store.checkpoint_format_version == 2


def test_what_spark_decides_is_taken_over() -> None:
    conf = QueryConf.from_spark(
        {"spark.speculation": "TRUE", "spark.sql.streaming.numRecentProgressUpdates": "3", "spark.hdfs": "x"}, {}
    )
    assert (conf.speculation, conf.num_recent_progress, conf.may_spill) == (True, 3, True)
    assert not QueryConf.from_spark({"spark.io.encryption.enabled": "true"}, {}).may_spill


def test_no_local_images_are_written_where_spark_encrypts_its_local_files() -> None:
    confs = {"spark.io.encryption.enabled": "true", "spark.hdfsstore.localDirMaxBytes": "1g"}
    assert QueryConf.from_spark(confs, {"hdfsstore.localDir": "/scratch"}).store.local_dir_max_bytes == 0
    assert (
        QueryConf.from_spark(confs | {"spark.io.encryption.enabled": "false"}, {}).store.local_dir_max_bytes == 1 << 30
    )


@pytest.mark.parametrize("prefix", ["hdfsstore.", "spark.hdfsstore."])
def test_an_unknown_setting_is_refused_with_the_known_ones(prefix: str) -> None:
    given = {f"{prefix}numPartition": "3"}
    with pytest.raises(ValueError, match="there is no setting") as error:
        QueryConf.from_spark(given, {}) if prefix.startswith("spark") else QueryConf.from_spark({}, given)
    assert f"{prefix}numPartitions is the nearest" in str(error.value)
    assert all(prefix + name in str(error.value) for name in NAMES)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("numPartitions", "0"),
        ("numPartitions", "two"),
        ("maxBytesPerCall", "0"),
        ("maxBytesPerCall", "64 parsecs"),
        ("checkpointFormatVersion", "3"),
        ("compression.codec", "none"),
        ("minBatchesToRetain", "0"),
        ("rowChecksum.enabled", "perhaps"),
    ],
)
def test_a_value_without_sense_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"hdfsstore.{name}: '{value}' makes no sense"):
        QueryConf.from_spark({}, {f"hdfsstore.{name}": value})
