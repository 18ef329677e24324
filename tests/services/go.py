"""Servers that Go builds once, into the cache (a few minutes each)."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.services import cache
from tests.services.missing import ServiceMissingError

# What the servers need; a Go that is older brings this one as a module.
_GO = (1, 24)
_TOOLCHAIN = "golang.org/toolchain@v0.0.1-go1.24.9.{system}-{machine}"
_BUILD_SECONDS = 1800


def executable(variable: str, name: str, module: str) -> Path:
    """A server's executable: what the environment variable says, else `name` on PATH, else built from a Go module.

    Args:
        module: path@version of the package to build.

    Raises:
        ServiceMissingError: there is none, and no Go that could build it.
    """
    for found in (os.environ.get(variable), shutil.which(name)):
        if found:
            return Path(found)
    version = module.rpartition("@")[2]
    return cache.whole_folder(f"{name}-{version}", lambda folder: _build(folder, name, module, variable)) / name


def _build(folder: Path, name: str, module: str, variable: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise ServiceMissingError(f"These tests need {name}: install Go, or set {variable} to a {name}")
    with tempfile.TemporaryDirectory(prefix="hdfsstore-go-") as scratch:
        built = Path(scratch, "bin")
        environ = {
            **os.environ,
            "GOBIN": str(built),
            "GOPATH": f"{scratch}/path",
            "GOCACHE": f"{scratch}/cache",
            "GOFLAGS": "-modcacherw",  # else the temporary folder could not be deleted
            "CGO_ENABLED": "0",
        }
        _run([_recent(go, scratch, environ), "install", module], scratch, environ)
        (only,) = built.iterdir()
        shutil.move(only, folder / name)


def _recent(go: str, scratch: str, environ: dict[str, str]) -> str:
    """This Go, or one that is recent enough."""
    found = re.search(r"go(\d+)\.(\d+)", _run([go, "version"], scratch, environ))
    if found is not None and (int(found[1]), int(found[2])) >= _GO:
        return go
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    toolchain = _TOOLCHAIN.format(system=platform.system().lower(), machine=machine)
    answer = _run([go, "mod", "download", "-json", toolchain], scratch, environ)
    folder = Path(json.loads(answer)["Dir"])
    # Modules have no executable files.
    for tool in (*(folder / "bin").iterdir(), *(folder / "pkg" / "tool").rglob("*")):
        tool.chmod(0o755)
    return str(folder / "bin" / "go")


def _run(command: list[str], folder: str, environ: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=_BUILD_SECONDS)
    if done.returncode:
        raise ServiceMissingError(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout
