"""Site files are read as Hadoop reads them; tests/spark/test_hadoop_conf.py compares with Hadoop itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hadoop_conf import HadoopConf, read_hadoop_conf


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return tmp_path


def write(folder: Path, name: str, *properties: str) -> None:
    (folder / name).write_text(f"<configuration>{''.join(properties)}</configuration>", "utf-8")


def prop(name: str, value: str, rest: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{rest}</property>"


def test_without_a_folder_there_are_no_properties(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    assert dict(read_hadoop_conf()) == {}
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert dict(read_hadoop_conf()) == {}


def test_the_later_file_wins_except_over_a_final_property(folder: Path) -> None:
    write(folder, "core-site.xml", prop("a", "core"), prop("b", "core", "<final>true</final>"), prop("c", " x\n"))
    write(folder, "hdfs-site.xml", prop("a", "hdfs"), prop("b", "hdfs"), '<property name="d" value="short"/>')
    assert dict(read_hadoop_conf()) == {"a": "hdfs", "b": "core", "c": "x", "d": "short"}


def test_a_property_without_a_value_is_left_out_and_old_names_count(folder: Path) -> None:
    write(folder, "core-site.xml", prop("a", "1"), prop("a", ""), prop("fs.default.name", "hdfs://old:8020"))
    assert dict(read_hadoop_conf()) == {"a": "1", "fs.defaultFS": "hdfs://old:8020"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("${host}:${port}", "nn:8020"),
        ("${nested}", "nn:8020"),
        ("${missing}/x", "${missing}/x"),
        ("${self}", "${self}"),
        ("${env.HERE}", "set"),
        ("${env.EMPTY:-other}", "other"),
        ("${env.EMPTY-other}", ""),
        ("${env.NOWHERE-other}", "other"),
        ("${env.NOWHERE:-${host}}", "nn"),
        ("${not this} $host {host}", "${not this} $host {host}"),
    ],
)
def test_variables_are_replaced(monkeypatch: pytest.MonkeyPatch, value: str, expected: str) -> None:
    monkeypatch.setenv("HERE", "set")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.delenv("NOWHERE", raising=False)
    conf = HadoopConf({"host": "nn", "port": "8020", "nested": "${host}:${port}", "self": "${self}", "given": value})
    assert conf["given"] == expected


def test_variables_that_never_end_are_an_error() -> None:
    conf = HadoopConf({"a": "${b}x", "b": "${c}${a}", "c": "y"})
    with pytest.raises(StateStoreError, match="the value of a needs more than 20 variables"):
        conf["a"]


def test_files_are_included(folder: Path) -> None:
    (folder / "more").mkdir()
    write(folder / "more", "s3.xml", prop("fs.s3a.endpoint", "http://here"))
    include = '<xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="{}">{}</xi:include>'
    write(
        folder,
        "core-site.xml",
        include.format("more/s3.xml", ""),
        include.format("none.xml", f"<xi:fallback>{prop('fallen', 'back')}</xi:fallback>"),
        include.format((folder / "more/s3.xml").as_uri(), f"<xi:fallback>{prop('not', 'taken')}</xi:fallback>"),
        prop("after", "1"),
    )
    assert dict(read_hadoop_conf()) == {"fs.s3a.endpoint": "http://here", "fallen": "back", "after": "1"}


_HOSTILE = {
    "an entity": (
        '<!DOCTYPE c [<!ENTITY a "x"><!ENTITY b "&a;&a;&a;&a;">]><configuration>&b;</configuration>',
        "it declares the entity a",
    ),
    "a file as an entity": (
        '<!DOCTYPE c [<!ENTITY a SYSTEM "file:///etc/passwd">]><configuration>&a;</configuration>',
        "it declares the entity a",
    ),
    "an address": (
        '<configuration><include href="http://127.0.0.1:1/x"/></configuration>',
        "only files are included",
    ),
    "itself": ('<configuration><include href="core-site.xml"/></configuration>', "more than 20 files"),
    "nothing there": ('<configuration><include href="none.xml"/></configuration>', "none.xml that it includes"),
    "no end": ("<configuration><property>", "this is not XML"),
    "bytes": ("\0\0\0", "this is not XML"),
}


@pytest.mark.parametrize("what", _HOSTILE)
def test_hostile_files_are_refused(folder: Path, what: str) -> None:
    text, message = _HOSTILE[what]
    (folder / "core-site.xml").write_text(text, "utf-8")
    with pytest.raises(StateStoreError, match=message) as raised:
        read_hadoop_conf()
    assert raised.value.path == str(folder / "core-site.xml")
    assert raised.value.remedy


def test_a_deep_file_is_read_in_a_line(folder: Path) -> None:
    deep = 200_000
    write(folder, "core-site.xml", "<x>" * deep, prop("a", "1"), "</x>" * deep)
    assert dict(read_hadoop_conf()) == {"a": "1"}


def test_a_file_that_cannot_be_read_is_an_error(folder: Path) -> None:
    (folder / "core-site.xml").mkdir()
    with pytest.raises(StateStoreError, match="cannot be read"):
        read_hadoop_conf()


def test_no_value_is_shown() -> None:
    assert "hidden" not in repr(HadoopConf({"fs.s3a.secret.key": "hidden"}))
