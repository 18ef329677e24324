"""Holds the settings of a state store: those of Spark under Spark's names, and a few of hdfsstore."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hdfsstore.codecs.compression import canonical_codec
from hdfsstore.codecs.records import MAX_RECORD_BYTES

_STATE = "spark.sql.streaming.stateStore."
_OURS = "spark.hdfsstore."
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_QUANTITY = re.compile(r"\s*(\d+)\s*([a-z]*)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StateStoreConf:
    """Settings of a provider. Spark's name stands in brackets; defaults are Spark's where it has the setting.

    Attributes:
        min_deltas_for_snapshot: a snapshot is due once more deltas than this follow the last one
            [spark.sql.streaming.stateStore.minDeltasForSnapshot].
        min_versions_to_retain: versions to which a query can go back [spark.sql.streaming.minBatchesToRetain].
        max_versions_to_retain_in_memory: number of versions that need no read of a file
            [spark.sql.streaming.maxBatchesToRetainInMemory].
        compression_codec: lz4, zstd, snappy or lzf [spark.sql.streaming.stateStore.compression.codec].
        checkpoint_format_version: 2, unique ids and lineage; or 1, files that Spark's own store reads and continues
            [spark.sql.streaming.stateStore.checkpointFormatVersion, whose default in Spark is 1].
        row_checksum_enabled: whether each row carries a CRC-32C [spark.sql.streaming.stateStore.rowChecksum.enabled].
        maintenance_interval: seconds between two maintenance runs; 0: only calls of do_maintenance run it
            [spark.sql.streaming.stateStore.maintenanceInterval].
        local_dir: folder for images, shared by the processes of a host; None: one for this user in the system's folder
            for temporary files; in queries on Spark, one for the application [spark.hdfsstore.localDir].
        local_dir_max_bytes: the least recently used images above it are deleted [spark.hdfsstore.localDirMaxBytes].
        image_overlay_share: a new image is built once the updates since the last one take more than this share of it
            [spark.hdfsstore.imageOverlayShare].
        max_record_bytes: a key or value in a file that declares more bytes than this is refused
            [spark.hdfsstore.maxRecordBytes].
    """

    min_deltas_for_snapshot: int = 10
    min_versions_to_retain: int = 100
    max_versions_to_retain_in_memory: int = 2
    compression_codec: str = "lz4"
    checkpoint_format_version: int = 2
    row_checksum_enabled: bool = False
    maintenance_interval: float = 60.0
    local_dir: str | None = None
    local_dir_max_bytes: int = 16 << 30
    image_overlay_share: float = 0.25
    max_record_bytes: int = MAX_RECORD_BYTES

    def __post_init__(self) -> None:
        if self.checkpoint_format_version not in (1, 2):
            raise ValueError(f"checkpoint_format_version is 1 or 2, not {self.checkpoint_format_version}")
        if self.min_versions_to_retain < 1:
            raise ValueError(f"min_versions_to_retain is at least 1, not {self.min_versions_to_retain}")
        for name in (
            "min_deltas_for_snapshot",
            "max_versions_to_retain_in_memory",
            "maintenance_interval",
            "local_dir_max_bytes",
            "image_overlay_share",
            "max_record_bytes",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, and is {getattr(self, name)}")
        object.__setattr__(self, "compression_codec", canonical_codec(self.compression_codec))

    @classmethod
    def from_spark(cls, conf: Mapping[str, Any]) -> StateStoreConf:
        """The settings in a mapping of Spark's conf names. Other names in it are ignored.

        Args:
            conf: for instance dict(spark.conf.getAll) or an offset log's conf. Values are strings as Spark has them
                ("10", "true", "1min", "2g") or numbers.

        Raises:
            ValueError: a value makes no sense; the message has its name.
        """
        found: dict[str, Any] = {}
        for name, (field, parse) in _FROM_SPARK.items():
            if name in conf:
                try:
                    found[field] = parse(conf[name])
                except (ValueError, KeyError) as error:
                    raise ValueError(f"{name}: {conf[name]!r} is not a value of {field}") from error
        return cls(**found)


def parse_boolean(value: object) -> bool:
    """ "true" or "false" in any case, as Spark's conf strings have it. KeyError: it is neither."""
    return {"true": True, "false": False}[str(value).strip().lower()]


def _quantity(value: object, units: Mapping[str, float], plain: str) -> float:
    """A number with a unit, as Spark's conf strings have it; without a unit `plain` is meant."""
    match = _QUANTITY.fullmatch(str(value))
    if not match:
        raise ValueError(value)
    unit = match[2].lower() or plain
    return int(match[1]) * units[unit]


def _seconds(value: object) -> float:
    return _quantity(value, _SECONDS, "ms")


def parse_bytes(value: object) -> int:
    """Bytes of a number, or of a string such as "64m", "2gb" or "1024".

    Raises:
        ValueError, KeyError: it is none.
    """
    text = str(value).strip().lower()
    if len(text) > 2 and text.endswith("b") and text[-2].isalpha():
        text = text[:-1]
    return int(_quantity(text, _BYTES, ""))


_FROM_SPARK: dict[str, tuple[str, Callable[[Any], Any]]] = {
    f"{_STATE}minDeltasForSnapshot": ("min_deltas_for_snapshot", int),
    "spark.sql.streaming.minBatchesToRetain": ("min_versions_to_retain", int),
    "spark.sql.streaming.maxBatchesToRetainInMemory": ("max_versions_to_retain_in_memory", int),
    f"{_STATE}compression.codec": ("compression_codec", str),
    f"{_STATE}checkpointFormatVersion": ("checkpoint_format_version", int),
    f"{_STATE}rowChecksum.enabled": ("row_checksum_enabled", parse_boolean),
    f"{_STATE}maintenanceInterval": ("maintenance_interval", _seconds),
    f"{_OURS}localDir": ("local_dir", str),
    f"{_OURS}localDirMaxBytes": ("local_dir_max_bytes", parse_bytes),
    f"{_OURS}imageOverlayShare": ("image_overlay_share", float),
    f"{_OURS}maxRecordBytes": ("max_record_bytes", parse_bytes),
}
