"""Gives up on a server that is frozen: `python -m ... <uri of a folder> <storage options>`. It ends by itself then."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hdfsstore.errors import FileSystemTimeoutError
from hdfsstore.fs.location import resolve
from tests.services.process import ServerProcess

ROOT = Path(__file__).parents[2]
SOON_S = 60
LARGE = bytes(12 << 20)


def check_that_it_ends(server: ServerProcess, uri: str, options: dict[str, str]) -> None:
    """Runs this module, and freezes the server until it has ended."""
    command = [sys.executable, "-m", "tests.integration.giving_up", uri, json.dumps(options)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            server.freeze()
            said, _ = child.communicate("\n", timeout=SOON_S)
        finally:
            server.thaw()
            child.kill()
    assert (said, child.returncode) == ("gave up\n", 0)


def main(uri: str, options: dict[str, str]) -> None:
    files, folder = resolve(uri, options)
    files.create(f"{folder}/file", [b"old"])  # a JVM takes its time to start
    hasty, _ = resolve(uri, {**options, "timeout": "2"})
    print("ready", flush=True)
    sys.stdin.readline()
    with pytest.raises(FileSystemTimeoutError):
        hasty.replace(f"{folder}/file", [LARGE])
    with pytest.raises(FileSystemTimeoutError):
        hasty.list_folder(folder)
    print("gave up")


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
