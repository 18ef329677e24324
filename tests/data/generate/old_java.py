"""Lets Sparks older than Java 17 run on it."""

from __future__ import annotations

import zipfile
from pathlib import Path

OPENED = (
    "java.lang java.lang.invoke java.lang.reflect java.io java.net java.nio java.util java.util.concurrent"
    " java.util.concurrent.atomic jdk.internal.ref sun.nio.ch sun.nio.cs sun.security.action sun.util.calendar"
)
OPTIONS = " ".join(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED.split())

# bipush 54, if_icmple: "is the class file's version at most that of Java 10?" becomes a comparison with 127.
VERSION_CHECK, WIDER_CHECK = b"\x10\x36\xa4", b"\x10\x7f\xa4"


def widen_class_reader(jars: Path, classes: Path) -> None:
    """Puts xbean's ClassReader of Spark 2.4, with which it cleans closures, into classes without its version check."""
    for jar in jars.glob("xbean-asm6-shaded-*.jar"):
        name = "org/apache/xbean/asm6/ClassReader.class"
        code = zipfile.ZipFile(jar).read(name)
        if code.count(VERSION_CHECK) != 1:
            raise ValueError(f"{jar}: the version check of {name} is not where it was")
        (classes / name).parent.mkdir(parents=True, exist_ok=True)
        (classes / name).write_bytes(code.replace(VERSION_CHECK, WIDER_CHECK))
