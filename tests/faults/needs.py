"""What tests with the shim need. Elsewhere than under CI they are skipped without it."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

shim = pytest.mark.skipif(
    not os.environ.get("CI") and (sys.platform != "linux" or shutil.which("cc") is None),
    reason="the shim is for Linux and is compiled",
)
