"""What tests with the shim, or with a disk of their own, need. Elsewhere than under CI they are skipped without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

shim = pytest.mark.skipif(
    not os.environ.get("CI") and (sys.platform != "linux" or shutil.which("cc") is None),
    reason="the shim is for Linux and is compiled",
)


def _can_mount() -> bool:
    """Whether a process may have mounts of its own."""
    unshare = shutil.which("unshare")
    tried = ["unshare", "--map-root-user", "--mount", "true"]
    return unshare is not None and subprocess.run(tried, capture_output=True, check=False).returncode == 0


mounts = pytest.mark.skipif(
    not os.environ.get("CI") and not _can_mount(), reason="a process may have no mounts of its own here"
)
