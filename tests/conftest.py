"""Settings that all tests share."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.services.fixtures"]

# Speed is measured in bench/, on purpose; a shared machine's hiccup is no failure.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("hdfsstore", _ANY_SPEED)
settings.register_profile("quick", _ANY_SPEED, max_examples=20)  # make test-asan
settings.load_profile("hdfsstore")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--places", default="local", help="where tests of the stores have their files: local, hdfs, minio (with commas)"
    )


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises a KeyboardInterrupt, also in a job that a shell has started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
