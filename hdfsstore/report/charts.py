"""Draws charts as SVG, with Vega-Lite.

Colours are those of the page (currentColor and CSS variables), so that light and dark need one drawing. Series also
differ in their form: a solid and a dashed line, a bar and a point.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hdfsstore.errors import StateStoreError
from hdfsstore.report.facts import BatchFacts, VersionFacts

WIDTH, HEIGHT = 440, 120
# More bars than this become one outline.
_MOST_BARS = 60
_DAY_MS = 86_400_000
_FIRST, _SECOND = "var(--first)", "var(--second)"
_TEXT = {"labelColor": "currentColor", "titleColor": "currentColor"}
_CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **_TEXT,
        "titleFontWeight": "normal",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridColor": "currentColor",
        "gridOpacity": 0.15,
    },
}

Spec = dict[str, Any]


def rows_chart(rows: Sequence[tuple[int, int]]) -> str:
    """Rows of a store after some batches."""
    values = [{"batch": batch_id, "rows": count} for batch_id, count in rows]
    line = {"type": "line", "color": _FIRST, "point": {"color": _FIRST, "filled": True}}
    return _svg(values, [_layer(line, _whole("batch", values), _amount(values, "rows"))])


def partitions_chart(partitions: Sequence[tuple[int, int]], unit: str) -> str:
    """Rows or bytes of each partition, in the order of their numbers."""
    values = [{"partition": number, unit: amount} for number, amount in partitions]
    if len(values) <= _MOST_BARS:
        bar = {"type": "bar", "color": _FIRST}
        x = {"field": "partition", "type": "ordinal", "axis": {"labelAngle": 0, "labelOverlap": True}}
        return _svg(values, [_layer(bar, x, _amount(values, unit))])
    line = {"color": _FIRST, "strokeWidth": 1}
    area = {"type": "area", "interpolate": "step-after", "color": _FIRST, "fillOpacity": 0.5, "line": line}
    return _svg(values, [_layer(area, _whole("partition", values), _amount(values, unit))])


def versions_chart(versions: Sequence[VersionFacts]) -> str:
    """The bytes of deltas (bars) and snapshots (diamonds) of each version."""
    values = [
        {"version": v.version, "delta": v.delta_bytes, "snapshot": v.snapshot_bytes if v.snapshots else None}
        for v in versions
    ]
    points = {"type": "point", "shape": "diamond", "size": 70, "color": _SECOND, "strokeWidth": 2}
    version, bytes_ = _whole("version", values), {**_amount(values, "delta", "snapshot"), "title": "bytes"}
    return _svg(values, [_bars(version, bytes_), _layer(points, version, {**bytes_, "field": "snapshot"})])


def durations_chart(batches: Sequence[BatchFacts]) -> str:
    """Seconds of each batch, over the time at which it began."""
    values = [{"time": batch.time_ms, "seconds": batch.seconds} for batch in batches if batch.seconds is not None]
    return _svg(values, [_bars(_time("time", values), _seconds())])


def watermark_chart(batches: Sequence[BatchFacts]) -> str:
    """The watermark of each batch (dashed) beside the clock (solid)."""
    some = [batch for batch in batches if batch.watermark_ms]
    values = [{"time": b.time_ms, "clock": b.time_ms, "watermark": b.watermark_ms} for b in some]
    layers = []
    for name, color, dash in (("clock", _FIRST, [1, 0]), ("watermark", _SECOND, [6, 4])):
        mark = {"type": "line", "color": color, "strokeDash": dash, "point": {"color": color, "size": 20}}
        y = {**_time("watermark", values, "clock"), "field": name, "title": None}
        layers.append(_layer(mark, _time("time", values), y))
    return _svg(values, layers)


def _layer(mark: Spec, x: Spec, y: Spec) -> Spec:
    return {"mark": mark, "encoding": {"x": x, "y": y}}


def _bars(x: Spec, y: Spec) -> Spec:
    """Bars at places of a scale of numbers or times."""
    layer = _layer({"type": "rule", "color": _FIRST, "strokeWidth": 3}, x, y)
    layer["encoding"]["y2"] = {"datum": 0}
    return layer


def _whole(field: str, values: Sequence[Spec]) -> Spec:
    numbers = [value[field] for value in values]
    axis = {"format": "d", "tickCount": _ticks(max(numbers, default=0) - min(numbers, default=0), 10)}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": {"zero": False, "nice": False}}


def _amount(values: Sequence[Spec], *fields: str) -> Spec:
    """A scale from 0 for whole numbers, of the first of some fields that share it."""
    largest = max((value[field] or 0 for value in values for field in fields), default=0)
    axis = {"format": "~s", "tickCount": _ticks(largest, 5)}
    return {"field": fields[0], "type": "quantitative", "axis": axis}


def _seconds() -> Spec:
    return {"field": "seconds", "type": "quantitative", "axis": {"format": "~s", "tickCount": 5}}


def _ticks(span: int, most: int) -> int:
    """How many ticks to ask for, so that all are at whole numbers: Vega's tickMinStep of 1 lets halves pass."""
    return max(1, min(span, most))


def _time(field: str, values: Sequence[Spec], upper: str | None = None) -> Spec:
    """A scale of times in UTC, whose labels have the date where it is more than a day."""
    last = upper or field
    span = max(value[last] for value in values) - min(value[field] for value in values) if values else 0
    axis: Spec = {"format": "%Y-%m-%d" if span > 10 * _DAY_MS else "%m-%d %H:%M" if span > _DAY_MS else "%H:%M:%S"}
    axis |= {"tickCount": 4, "labelOverlap": True}
    scale = {"type": "utc", "zero": False, "nice": False}
    return {"field": field, "type": "temporal", "title": "time (UTC)", "axis": axis, "scale": scale}


def _svg(values: list[dict[str, Any]], layers: list[Spec]) -> str:
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise StateStoreError("the charts need vl-convert-python: pip install 'hdfsstore[report]'") from None
    spec = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "width": WIDTH,
        "height": HEIGHT,
        "data": {"values": values},
        "layer": layers,
        "config": _CONFIG,
    }
    return str(vl_convert.vegalite_to_svg(spec))
