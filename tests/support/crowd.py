"""As many readers of files that nobody may have ranges ahead (hdfsstore.fs.ahead)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from hdfsstore.fs import ahead


@contextmanager
def crowd() -> Iterator[None]:
    """For as long as the `with` lasts, they read."""
    with ExitStack() as stack:
        for _ in range(ahead._MOST):
            stack.enter_context(ahead.reading())
        assert ahead.share() == 0
        yield
