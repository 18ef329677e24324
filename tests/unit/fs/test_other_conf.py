"""Of Hadoop's settings for storages that others open, those that encrypt are refused, and the others warned of."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs import not_honoured
from hdfsstore.fs.location import find_settings


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("gs://bucket/cp", "fs.gs.encryption.algorithm"),
        ("abfss://container@account.dfs.core.windows.net/cp", "fs.azure.encryption.context.provider.type"),
        ("oss://bucket/cp", "fs.oss.server-side-encryption-algorithm"),
    ],
)
def test_what_encrypts_is_refused_by_name(uri: str, name: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=name) as raised:
        find_settings(uri, None, {name: "hidden"})
    assert "hidden" not in str(raised.value)
    for nothing in ("", "false", "NONE"):
        find_settings(uri, None, {name: nothing})
    for other in ("s3://bucket/cp", "file:///cp", "/cp", "hdfs://nn:8020/cp"):
        find_settings(other, None, {name: "hidden"})


def test_other_settings_are_warned_of_once_by_name(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(not_honoured, "_warned", set())
    site = "<property><name>{}</name><value>hidden</value></property>"
    names = ("fs.gs.auth.type", "fs.gs.impl", "fs.azure.account.key", "fs.s3a.secret.key")
    (tmp_path / "core-site.xml").write_text(f"<configuration>{''.join(map(site.format, names))}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    with caplog.at_level(logging.WARNING, "hdfsstore.fs.settings"):
        find_settings("gs://bucket/cp", None)
        find_settings("gs://bucket/other", None)
    assert caplog.messages == ["Hadoop's setting fs.gs.auth.type is not looked at"]
