"""What becomes of Hadoop's settings where hdfs-native is the client."""

from __future__ import annotations

import os

import pytest

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs.hdfs.native_conf import act_as, check, client_conf, file_options, is_native_key
from hdfsstore.fs.hdfs.settings import HdfsSettings


@pytest.mark.parametrize(
    ("key", "native"),
    [
        ("dfs.client.socket-timeout", True),
        ("dfs.client.socket-timeout.x", False),
        ("dfs.ha.namenodes.ns1", True),
        ("dfs.namenode.rpc-address.ns1.nn2", True),
        ("dfs.client.failover.proxy.provider.ns1", True),
        ("dfs.replication", False),
    ],
)
def test_keys_that_hdfs_native_looks_at(key: str, native: bool) -> None:
    assert is_native_key(key) is native


def test_retries_are_short_unless_somebody_has_set_others() -> None:
    hadoops = {"dfs.client.failover.max.attempts": "15", "dfs.client.failover.sleep.max.millis": "900"}
    conf = client_conf({**hadoops, "dfs.bytes-per-checksum": "512"})
    assert conf["dfs.client.failover.max.attempts"] == "3"
    assert conf["dfs.client.failover.sleep.max.millis"] == "900"
    assert conf["dfs.client.socket-timeout"] == "20000"
    assert "dfs.bytes-per-checksum" not in conf


def test_options_of_new_files() -> None:
    assert file_options({}) == (None, None, 0o644)
    conf = {"dfs.replication": "2", "dfs.blocksize": "64m", "fs.permissions.umask-mode": "077"}
    assert file_options(conf) == (2, 64 << 20, 0o600)


@pytest.mark.parametrize("key", ["dfs.replication", "dfs.blocksize", "fs.permissions.umask-mode"])
def test_a_value_that_is_not_understood_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=key) as raised:
        file_options({key: "u=rwx"})
    assert "rwx" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dfs.replication", "-1"),
        ("dfs.replication", "0"),
        ("dfs.replication", "32768"),
        ("dfs.blocksize", "0"),
        ("dfs.blocksize", "8e"),
        ("dfs.blocksize", "9" * 5000),
        ("fs.permissions.umask-mode", "-1"),
        ("fs.permissions.umask-mode", "77777"),
    ],
)
def test_a_number_that_no_file_can_have_is_refused(key: str, value: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=f"{key} is not understood"):
        file_options({key: value})


def test_the_largest_numbers() -> None:
    conf = {"dfs.replication": "32767", "dfs.blocksize": "7e", "fs.permissions.umask-mode": "1777"}
    assert file_options(conf) == (32767, 7 << 60, 0)


@pytest.mark.parametrize(
    "key",
    ["hadoop.socks.server", "hadoop.rpc.socket.factory.class.default", "dfs.trustedchannel.resolver.class"],
)
def test_a_setting_about_security_that_would_be_passed_over_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=key):
        check(HdfsSettings.of("nn:8020", {key: "somebody"}))


@pytest.mark.parametrize("key", ["hadoop.rpc.protection", "dfs.data.transfer.protection"])
def test_a_protection_is_refused_that_it_cannot_insist_on(key: str) -> None:
    kerberos = {"hadoop.security.authentication": "kerberos"}
    for value in ("privacy", "integrity, privacy"):
        with pytest.raises(UnsupportedSettingError, match=f"insist on {key}"):
            check(HdfsSettings.of("nn:8020", {**kerberos, key: value}))
        check(HdfsSettings.of("nn:8020", {**kerberos, key: value}, servers_protect=True))
        check(HdfsSettings.of("nn:8020", {key: value}))  # Hadoop protects nothing without Kerberos
    for value in ("authentication", "privacy,Authentication"):
        check(HdfsSettings.of("nn:8020", {**kerberos, key: value}))


def test_defaults_of_hadoop_are_not_refused() -> None:
    factory = "org.apache.hadoop.net.StandardSocketFactory"
    check(HdfsSettings.of("nn:8020", {"hadoop.rpc.socket.factory.class.default": factory}))


def test_hdfs_native_acts_as_the_user_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "bob")
    monkeypatch.delenv("HADOOP_USER_NAME")
    act_as(HdfsSettings.of("nn:8020", {}))
    assert "HADOOP_USER_NAME" not in os.environ
    act_as(HdfsSettings.of("nn:8020", {}, user="ann"))
    assert os.environ["HADOOP_USER_NAME"] == "ann"
    act_as(HdfsSettings.of("nn:8020", {}, user="ann"))
    with pytest.raises(UnsupportedSettingError, match="HADOOP_USER_NAME"):
        act_as(HdfsSettings.of("nn:8020", {}, user="bob"))
    with pytest.raises(UnsupportedSettingError, match="kinit"):
        act_as(HdfsSettings.of("nn:8020", {"hadoop.security.authentication": "kerberos"}, user="ann"))
