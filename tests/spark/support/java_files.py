"""Calls Hadoop's FileSystem for a local folder, in a JVM of this process: `python -m ... <folder>`.

The JVM is started as libhdfs starts it, which these tests do without. Prints the outcome of each call as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hdfsstore.fs.hdfs.client import HdfsError
from hdfsstore.fs.hdfs.java_files import JavaFiles

_OPTIONS = ("-Xmx64m", "-XX:TieredStopAtLevel=1", "-Dsun.jnu.encoding=UTF-8", "-Dfile.encoding=UTF-8")
_JNI_1_8 = 0x00010008


class _Option(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char_p), ("extra", ctypes.c_void_p))


class _Arguments(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int32),
        ("count", ctypes.c_int32),
        ("options", ctypes.POINTER(_Option)),
        ("lenient", ctypes.c_ubyte),
    )


def start_jvm() -> None:
    """Starts it with the JAVA_HOME and CLASSPATH of the environment."""
    library = ctypes.CDLL(f"{os.environ['JAVA_HOME']}/lib/server/libjvm.so", mode=ctypes.RTLD_GLOBAL)
    given = [f"-Djava.class.path={os.environ['CLASSPATH']}", *_OPTIONS]
    options = (_Option * len(given))(*[_Option(os.fsencode(each), None) for each in given])
    arguments = _Arguments(_JNI_1_8, len(options), options, 0)
    machine, environment = ctypes.c_void_p(), ctypes.c_void_p()
    code = library.JNI_CreateJavaVM(ctypes.byref(machine), ctypes.byref(environment), ctypes.byref(arguments))
    if code:
        raise SystemExit(f"the JVM has not started: {code}")


def outcome(files: JavaFiles, source: Path, target: Path, *, overwrite: bool) -> str:
    """ "done", or the type of the error."""
    try:
        files.rename(str(source), str(target), overwrite=overwrite)
    except (OSError, HdfsError) as error:
        return type(error).__name__
    return "done"


def info(files: JavaFiles, path: Path) -> str:
    """Type and size, and whether its time is that of the system in milliseconds; or the type of the error."""
    try:
        found = files.info(str(path))
    except (OSError, HdfsError) as error:
        return type(error).__name__
    return f"{found.type.name} {found.size} {found.mtime_ns == path.stat().st_mtime_ns // 1_000_000 * 1_000_000}"


def main(folder: Path) -> None:
    start_jvm()
    files = JavaFiles("file:///", {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem"}, None)
    outcomes: dict[str, object] = {}
    for name in ("plain", "\u00fc", "\U0001f986"):
        source, target = folder / f"{name}.tmp", folder / name
        source.write_text("1")
        outcomes[f"{name} new"] = outcome(files, source, target, overwrite=False)
        source.write_text("2")
        outcomes[f"{name} taken"] = outcome(files, source, target, overwrite=False)
        outcomes[f"{name} over"] = outcome(files, source, target, overwrite=True)
        outcomes[f"{name} gone"] = outcome(files, source, target, overwrite=True)

    def race(number: int) -> str:
        own = folder / f"{number}.tmp"
        own.write_text(str(number))
        return outcome(files, own, folder / "race", overwrite=True)

    with ThreadPoolExecutor(8) as pool:
        outcomes["threads"] = ",".join(sorted(set(pool.map(race, range(400)))))
    outcomes["infos"] = [info(files, path) for path in (folder / "plain", folder, folder / "gone")]
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
