"""Where a location leads, and with which settings. Nothing here connects to a server."""

from __future__ import annotations

import os
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import LocalFileSystem

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import StorageLocation, find_settings, resolve, shown_location
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.secret import Secret

OPTIONS = {"aws_endpoint_url": "http://127.0.0.1:9000", "aws_access_key_id": "AKIA", "aws_secret_access_key": "s3cr3t"}
MINIO = S3Settings(
    endpoint_url="http://127.0.0.1:9000", access_key=Secret("AKIA"), secret_key=Secret("s3cr3t"), timeout_s=7.0
)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def hadoop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {
        "fs.defaultFS": "hdfs://ns",
        "dfs.nameservices": "ns",
        "fs.s3a.endpoint": "http://file:1",
        "fs.s3a.access.key": "FILE",
        "fs.s3a.secret.key": "FILE",
        "fs.s3a.bucket.other.path.style.access": "true",
    }
    text = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{text}</configuration>", "utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))


@pytest.mark.parametrize("scheme", ["s3", "s3a", "S3A", "s3n"])
def test_a_bucket_with_the_users_options(scheme: str) -> None:
    found = find_settings(f"{scheme}://data/a%20b/c/", {**OPTIONS, "timeout": 7})
    assert found == StorageLocation("s3://data/a%20b/c", MINIO)
    assert pickle.loads(pickle.dumps(found)) == found
    assert "s3cr3t" not in repr(found)


@pytest.mark.usefixtures("hadoop")
def test_what_the_options_leave_out_hadoop_says() -> None:
    assert find_settings("s3://other/cp", None).settings == S3Settings(
        endpoint_url="http://file:1", access_key=Secret("FILE"), secret_key=Secret("FILE"), path_style=True
    )
    mine = find_settings("s3://other/cp", OPTIONS).settings
    assert isinstance(mine, S3Settings)
    assert (mine.endpoint_url, mine.access_key, mine.path_style) == ("http://127.0.0.1:9000", Secret("AKIA"), True)


@pytest.mark.usefixtures("hadoop")
def test_the_default_filesystem_counts_for_a_uri_without_a_namenode_and_not_for_a_path(tmp_path: Path) -> None:
    conf = {"dfs.nameservices": "ns"}
    assert find_settings("hdfs:///cp", None) == StorageLocation("hdfs://ns/cp", HdfsSettings.of("ns", conf))
    assert find_settings("hdfs:/cp/", None).uri == "hdfs://ns/cp"
    assert find_settings("hdfs:///cp", {"fs.defaultFS": "hdfs://mine:8020"}).uri == "hdfs://mine:8020/cp"
    assert find_settings("hdfs://nn:9000/", None).uri == "hdfs://nn:9000/"
    fs, path = resolve(str(tmp_path))
    assert isinstance(fs, LocalFileManager)
    assert path == str(tmp_path)


def test_hdfs_with_the_users_options() -> None:
    options = {"client": "hdfs-native", "user": "me", "timeout": "5s", "dfs.replication": 2}
    assert find_settings("hdfs://nn:9000/cp", options) == StorageLocation(
        "hdfs://nn:9000/cp",
        HdfsSettings.of("nn:9000", {"dfs.replication": "2"}, client="hdfs-native", user="me", timeout_s=5.0),
    )
    settings = find_settings("hdfs://you@nn:9000/cp", None).settings
    assert isinstance(settings, HdfsSettings)
    assert (settings.user, settings.url) == ("you", "hdfs://nn:9000")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://AKIA:s3cr3t@bucket/cp",
        "s3a://AKIA:s3cr/3t@bucket/cp",
        "s3://bucket/cp?secret_key=s3cr3t",
        "s3://AKIA:s3cr3t/bucket",
        "hdfs://me:s3cr3t@nn/cp",
        "hdfs://nn/cp?token=s3cr3t",
    ],
)
def test_credentials_in_a_uri_are_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=r"credentials|password") as raised:
        resolve(uri)
    assert "s3cr" not in str(raised.value)
    assert "s3cr" not in repr(raised.value.__context__)


@pytest.mark.parametrize(
    ("uri", "message"),
    [("s3:///cp", "names no bucket"), ("s3:cp", "names no bucket"), ("hdfs:///cp", "names no NameNode")],
)
def test_incomplete_uris_are_errors(uri: str, message: str) -> None:
    with pytest.raises(StateStoreError, match=message):
        resolve(uri)


def test_a_path_that_is_not_utf8_is_refused_with_a_way_round(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    with pytest.raises(StateStoreError, match=r"caf\\udce9.*not UTF-8.*symbolic link"):
        resolve(folder)
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    files, path = resolve(tmp_path / "link")
    files.create(f"{path}/1.delta", [b"x"])
    assert [each.name for each in folder.iterdir()] == ["1.delta"]


@pytest.mark.parametrize(("query", "seconds"), [("", 60), ("?scheme=http", 60), ("?retry_limit_seconds=7", 7)], ids=str)
def test_googles_client_gives_up_in_time(query: str, seconds: int) -> None:
    """It waits for 15 minutes unless it is told otherwise, and no call of it can be interrupted."""
    files, path = resolve(f"gs://anonymous@bucket/cp{query}")
    assert isinstance(files, ArrowFileManager)
    assert path == "bucket/cp"
    (settings,) = files.filesystem.__reduce__()[1]
    assert settings["retry_time_limit"] == timedelta(seconds=seconds)


def test_options_are_refused_where_they_have_no_meaning(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="storage_options"):
        resolve((LocalFileSystem(), str(tmp_path)), {"user": "me"})
    with pytest.raises(UnsupportedSettingError, match="no storage options for gs:"):
        resolve("gs://bucket/cp", {"user": "me"})
    with pytest.raises(UnsupportedSettingError, match="there is no storage option 'key'"):
        resolve(str(tmp_path), {"key": "hidden"})
    assert resolve(str(tmp_path), OPTIONS)[1] == str(tmp_path)
    assert resolve(tmp_path.as_uri(), OPTIONS)[1] == str(tmp_path)


def test_each_place_has_one_file_manager_with_the_path_on_it() -> None:
    def found(uri: str, **options: Any) -> tuple[FileManager, str]:
        return resolve(uri, {**OPTIONS, **options})

    files, path = found("s3a://data/cp/")
    assert (files.identity, path) == ("s3://127.0.0.1:9000/data", "data/cp")
    assert found("s3://data/other")[0] is files
    assert found("s3://other/cp")[0] is not files
    assert found("s3://data/cp", aws_endpoint_url="http://127.0.0.1:9001")[0].identity != files.identity
    assert resolve(find_settings("s3://data", OPTIONS)) == (files, "data")
    assert find_settings("s3://data/cp", OPTIONS).folder("state").uri == "s3://data/cp/state"
    assert shown_location(find_settings("s3://data/cp", OPTIONS)) == "s3://data/cp"
