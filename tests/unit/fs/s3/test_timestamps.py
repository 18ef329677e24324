"""Times of S3's answers: the same as botocore's own parser finds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from botocore.utils import parse_timestamp

from hdfsstore.fs.s3.client import timestamp

MOMENT = datetime(2026, 11, 24, 10, 30, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-24T10:30:05.000Z",
        "2026-11-24T10:30:05Z",
        "2026-11-24T11:30:05+01:00",
        "Tue, 24 Nov 2026 10:30:05 GMT",
        "Tuesday, 24-Nov-26 10:30:05 GMT",
        "20261124T103005Z",
        str(int(MOMENT.timestamp())),
        int(MOMENT.timestamp()),
    ],
)
def test_times_are_those_of_botocore(text: str | int) -> None:
    assert timestamp(text) == parse_timestamp(text) == MOMENT
    assert timestamp(text).tzinfo is not None


@pytest.mark.parametrize("text", ["2026-11-24T10:30:05", "Tue, 24 Nov 2026 10:30:05 -0000"])
def test_times_without_a_zone_are_those_of_botocore(text: str) -> None:
    assert timestamp(text) == parse_timestamp(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-45T10:30:05Z"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Invalid timestamp"):
        timestamp(text)
