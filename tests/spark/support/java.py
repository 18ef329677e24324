"""The Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

OLDEST_JAVA = 17


def java_version(java: str | Path) -> int:
    """The major version of a java command; 0 where it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    # openjdk version "17.0.15"; Java 8 and older call themselves "1.8.0" and so on.
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def use_java(environ: pytest.MonkeyPatch) -> None:
    """Sees to it that Spark starts on Java 17 or newer: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and java_version(Path(home, "bin", "java")) >= OLDEST_JAVA:
        return
    on_path = shutil.which("java")
    if on_path and java_version(on_path) >= OLDEST_JAVA:
        environ.delenv("JAVA_HOME", raising=False)
        return
    pytest.fail(
        f"The tests marked spark need Java {OLDEST_JAVA} or newer; JAVA_HOME is {home!r} and the java on PATH is "
        f"{on_path!r}. Install it (make test does so when it runs as root) or point JAVA_HOME at it.",
        pytrace=False,
    )
