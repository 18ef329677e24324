"""Settings, and Spark's names for them."""

from typing import Any

import pytest

from hdfsstore.state.conf import StateStoreConf

STATE = "spark.sql.streaming.stateStore."


def test_the_defaults_are_sparks() -> None:
    conf = StateStoreConf()
    assert (conf.min_deltas_for_snapshot, conf.min_versions_to_retain, conf.max_versions_to_retain_in_memory) == (
        10,
        100,
        2,
    )
    assert (conf.compression_codec, conf.checkpoint_format_version, conf.maintenance_interval) == ("lz4", 2, 60.0)
    assert StateStoreConf.from_spark({}) == conf


def test_every_setting_has_a_name_in_spark() -> None:
    conf = StateStoreConf.from_spark(
        {
            f"{STATE}minDeltasForSnapshot": "3",
            "spark.sql.streaming.minBatchesToRetain": "4",
            "spark.sql.streaming.maxBatchesToRetainInMemory": 0,
            f"{STATE}compression.codec": "ZSTD",
            f"{STATE}checkpointFormatVersion": "1",
            f"{STATE}rowChecksum.enabled": "TRUE",
            f"{STATE}maintenanceInterval": "2min",
            "spark.hdfsstore.localDir": "/scratch",
            "spark.hdfsstore.localDirMaxBytes": "2gb",
            "spark.hdfsstore.imageOverlayShare": "0.5",
            "spark.hdfsstore.maxRecordBytes": "1m",
            "spark.app.name": "something else",
        }
    )
    assert conf == StateStoreConf(3, 4, 0, "zstd", 1, True, 120.0, "/scratch", 2 << 30, 0.5, 1 << 20)


@pytest.mark.parametrize(
    ("interval", "seconds"), [("60000", 60.0), (60000, 60.0), ("90s", 90.0), ("250ms", 0.25), ("1h", 3600.0)]
)
def test_an_interval_without_a_unit_is_in_milliseconds(interval: Any, seconds: float) -> None:
    assert StateStoreConf.from_spark({f"{STATE}maintenanceInterval": interval}).maintenance_interval == seconds


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (f"{STATE}minDeltasForSnapshot", "ten"),
        (f"{STATE}rowChecksum.enabled", "yes"),
        (f"{STATE}maintenanceInterval", "-1"),
        (f"{STATE}maintenanceInterval", "1 fortnight"),
        ("spark.hdfsstore.localDirMaxBytes", "1.5g"),
    ],
)
def test_what_makes_no_sense_is_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=name):
        StateStoreConf.from_spark({name: value})


@pytest.mark.parametrize(
    "setting",
    [
        {"checkpoint_format_version": 3},
        {"min_versions_to_retain": 0},
        {"min_deltas_for_snapshot": -1},
        {"max_versions_to_retain_in_memory": -1},
        {"maintenance_interval": -0.5},
        {"local_dir_max_bytes": -1},
        {"image_overlay_share": -0.1},
        {"max_record_bytes": -1},
    ],
)
def test_so_is_a_setting_out_of_its_range(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        StateStoreConf(**setting)
