"""An option file is lines of name=value. Its errors show no value."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfsstore.cli.option_file import read_options
from hdfsstore.errors import StateStoreError
from hdfsstore.fs.secret import Secret


def write(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "options"
    path.write_text(text, "utf-8")
    path.chmod(mode)
    return path


def test_lines_are_options(tmp_path: Path) -> None:
    text = "# a comment\n\n  AWS_ACCESS_KEY_ID = AKIA \nAWS_SECRET_ACCESS_KEY=a=b#c==\r\ntimeout=5\n\tuser=\n"
    assert read_options(write(tmp_path, text)) == {
        "AWS_ACCESS_KEY_ID": Secret("AKIA"),
        "AWS_SECRET_ACCESS_KEY": Secret("a=b#c=="),
        "timeout": Secret("5"),
        "user": Secret(""),
    }
    assert read_options(None) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("timeout=1\nhidden\n", "line 2: an = is missing"),
        ("=hidden\n", "line 1: a name is missing"),
        ("user=hidden\nuser=hidden\n", "line 2: user is there twice"),
    ],
)
def test_other_lines_are_errors_that_show_no_value(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(StateStoreError, match=message) as raised:
        read_options(path)
    assert raised.value.path == str(path)
    assert "hidden" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateStoreError, match="No such file"):
        read_options(tmp_path / "none")
    (tmp_path / "options").write_bytes(b"user=\xff")
    with pytest.raises(StateStoreError, match="not UTF-8"):
        read_options(tmp_path / "options")


@pytest.mark.parametrize("name", ["aws_secret_access_key", "fs.s3a.secret.key", "fs.s3a.bucket.data.encryption.key"])
def test_a_file_with_a_key_that_everybody_may_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StateStoreError, match="everybody") as raised:
        read_options(write(tmp_path, f"{name}=hidden\n", 0o644))
    assert raised.value.remedy == f"chmod 600 {tmp_path / 'options'}"
    assert read_options(write(tmp_path, f"{name}=hidden\n", 0o640))
    assert read_options(write(tmp_path, "fs.s3a.endpoint=http://here\n", 0o644))
