"""The body of a request puts the deadline off while it is sent."""

from __future__ import annotations

import pytest

from hdfsstore.errors import FileSystemTimeoutError
from hdfsstore.fs.calls import Progress
from hdfsstore.fs.s3.bucket import _Body


def test_what_is_sent_after_it_was_signed_is_progress() -> None:
    progress = Progress()
    body = _Body(bytes(100), progress)
    assert len(body.read()) == 100
    assert progress._furthest == 100
    body.seek(0)
    for passed in (140, 180, 200, 200):
        body.read(40)
        assert progress._furthest == passed
    again = _Body(bytes(100), progress)
    again.read()
    assert progress._furthest == 200  # another try has to get further


def test_a_body_that_nobody_waits_for_is_not_sent() -> None:
    progress = Progress()
    body = _Body(bytes(100), progress)
    progress._abandoned = True
    with pytest.raises(FileSystemTimeoutError):
        body.read(40)
