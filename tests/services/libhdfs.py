"""libhdfs, Hadoop's client for C: the user's own, else built once from what Cargo brings, into the cache (seconds)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.services import cache, java
from tests.services.missing import ServiceMissingError

# Its crate brings Hadoop's sources, those of 3.3 being the newest. No package registry has the library itself.
_CRATE, _VERSION, _SOURCES = "hdfs-sys", "0.3.1", "hdfs_3_3"
_SECONDS = 300


def folder() -> Path:
    """The folder with libhdfs.so.

    Raises:
        ServiceMissingError: there is none, and no Cargo, C compiler or JDK that could build it.
    """
    own = os.environ.get("ARROW_LIBHDFS_DIR") or f"{os.environ.get('HADOOP_HOME', '')}/lib/native"
    if Path(own, "libhdfs.so").is_file():
        return Path(own)
    return cache.whole_folder(f"libhdfs-{_VERSION}-tls", _build)


def _build(folder: Path) -> None:
    home = Path(java.executable()).resolve().parents[1]
    headers, machine = home / "include", home / "lib" / "server"
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not (headers / "jni.h").is_file():
        raise ServiceMissingError(f"The tests of libhdfs need a C compiler, and the headers of a JDK in {headers}")
    with tempfile.TemporaryDirectory(prefix="hdfsstore-libhdfs-") as scratch:
        common = _crate(Path(scratch)) / "libhdfs"
        sources = common / _SOURCES
        posix = sources / "os" / "posix"
        includes = (headers, headers / "linux", common, sources, sources / "include", sources / "os", posix)
        _run(
            compiler,
            # As in Hadoop's own build, what Java has said stays until it says something else in the thread.
            "-DHAVE_BETTER_TLS",
            *("-shared", "-fPIC", "-O1", "-w", "-fcommon", "-o", str(folder / "libhdfs.so")),
            *(f"-I{include}" for include in includes),
            *map(str, (*sources.glob("*.c"), *posix.glob("*.c"))),
            *(f"-L{machine}", "-ljvm", "-lpthread", "-ldl"),
            within=scratch,
        )


def _crate(scratch: Path) -> Path:
    """The sources of the crate; Cargo compares their checksum."""
    # Where rustup has installed it, PATH may not have it.
    cargo = shutil.which("cargo") or shutil.which("cargo", path=str(Path.home() / ".cargo" / "bin"))
    if cargo is None:
        raise ServiceMissingError("The tests of libhdfs need Cargo 1.68 or newer, or a libhdfs.so in ARROW_LIBHDFS_DIR")
    (scratch / "src").mkdir()
    (scratch / "src" / "lib.rs").touch()
    package = '[package]\nname = "sources"\nversion = "0.0.0"\n'
    (scratch / "Cargo.toml").write_text(f'{package}[dependencies]\n{_CRATE} = "={_VERSION}"\n')
    _run(cargo, "vendor", "--quiet", "vendor", within=str(scratch))
    return scratch / "vendor" / _CRATE


def _run(*command: str, within: str) -> None:
    done = subprocess.run(command, cwd=within, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        raise ServiceMissingError(f"{' '.join(command)} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
