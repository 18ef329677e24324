"""Builds every cext/*.pyx as a module of the package hdfsstore._cext; the rest of the metadata is in pyproject.toml.

HDFSSTORE_SANITIZE names sanitizers to build with: "address,undefined" (`make test-asan`), "thread" (`make test-tsan`).
"""

import os
import shutil
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCES = Path("cext")
COMMON = SOURCES / "common"  # headers and .pxd that several modules share
SANITIZERS = os.environ.get("HDFSSTORE_SANITIZE", "")

own_args: dict[str, list[str]] = {}  # of the compiler, for one module
if sys.platform == "win32":
    compile_args = ["/O2"]
    link_args: list[str] = []
else:
    # Cython's own generated helpers are not always used: the two flags that are off would only speak of those.
    compile_args = ["-O3", "-Wall", "-Wextra", "-Wno-unused-function", "-Wno-unused-parameter"]
    # A size that loses bits on its way is found here.
    compile_args += ["-Wconversion", "-Wno-sign-conversion"]
    link_args = []
    # A loop of the merge that is put into its only caller has fewer registers: four runs take 5 % longer.
    own_args["sst"] = ["-fno-inline-functions-called-once"]
    if SANITIZERS:
        link_args = [f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all"]
        # -O1 finds the same and compiles in a third of the time.
        compile_args += [*link_args, "-fno-omit-frame-pointer", "-g1", "-O1"]
        # What the sanitizers add makes the compiler doubt what is initialized.
        compile_args += ["-Werror", "-Wno-error=maybe-uninitialized"]


class BuildWithStubs(build_ext):
    """Puts each module's .pyi, kept beside its .pyx, where type checkers look: beside the compiled module."""

    def run(self) -> None:
        super().run()
        package = Path("." if self.inplace else self.build_lib) / "hdfsstore" / "_cext"
        package.mkdir(parents=True, exist_ok=True)
        for stub in SOURCES.glob("*.pyi"):
            shutil.copy(stub, package / stub.name)


setup(
    ext_modules=cythonize(
        [
            Extension(
                f"hdfsstore._cext.{source.stem}",
                [source.as_posix()],
                extra_compile_args=[*compile_args, *own_args.get(source.stem, [])],
                extra_link_args=link_args,
                include_dirs=[COMMON.as_posix()],
            )
            for source in sorted(SOURCES.glob("*.pyx"))
        ],
        include_path=[COMMON.as_posix()],
        build_dir="build/cython",
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "initializedcheck": False,
            "cdivision": True,
            "embedsignature": True,
            "warn.undeclared": False,
            "warn.unused": True,
            "warn.unused_arg": False,
            "warn.maybe_uninitialized": True,
        },
    ),
    cmdclass={"build_ext": BuildWithStubs},
)
