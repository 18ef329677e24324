"""The release of the package that is installed."""

from importlib.metadata import PackageNotFoundError, version

UNKNOWN = "unknown (no package metadata)"


def _installed() -> str:
    try:
        return version("hdfsstore")
    except PackageNotFoundError:
        return UNKNOWN


RELEASE = _installed()
