"""What Hadoop's configuration says of an HDFS becomes settings, without what a client does not need."""

from __future__ import annotations

import logging
import pickle

import pytest

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs import not_honoured
from hdfsstore.fs.hdfs.native_conf import NATIVE_KEYS, REFUSED
from hdfsstore.fs.hdfs.settings import HdfsSettings
from hdfsstore.fs.hdfs_conf import hdfs_settings, is_for_clients

HA = {
    "dfs.nameservices": "ns",
    "dfs.ha.namenodes.ns": "a,b",
    "dfs.namenode.rpc-address.ns.a": "one:8020",
    "dfs.namenode.rpc-address.ns.b": "two:8020",
    "dfs.client.failover.proxy.provider.ns": (
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    ),
    "dfs.replication": "2",
    "hadoop.security.authentication": "kerberos",
    "hadoop.rpc.protection": "privacy",
}


def test_what_clients_look_at_travels_and_nothing_else() -> None:
    others = {
        "fs.s3a.secret.key": "hidden",
        "dfs.datanode.data.dir": "/data",
        "dfs.client.keystore.password": "hidden",
        "dfs.blocksize": "",
        "yarn.any": "x",
    }
    made = hdfs_settings("ns", {**HA, **others}, user="me", client=None, timeout_s=5.0)
    assert made == HdfsSettings.of("ns", HA, user="me", timeout_s=5.0)
    assert pickle.loads(pickle.dumps(made)) == made
    assert "hidden" not in repr(made)


@pytest.mark.parametrize("name", NATIVE_KEYS)
def test_all_that_hdfs_native_honours_reaches_it(name: str) -> None:
    assert is_for_clients(name + ("ns" if name.endswith(".") else ""))


def test_another_client_of_hdfs_is_refused() -> None:
    with pytest.raises(UnsupportedSettingError, match=r"fs\.hdfs\.impl is my\.Encrypting"):
        hdfs_settings("nn:8020", {"fs.hdfs.impl": "my.Encrypting"})
    hdfs_settings("nn:8020", {"fs.hdfs.impl": "org.apache.hadoop.hdfs.DistributedFileSystem"})


@pytest.mark.parametrize("name", REFUSED)
def test_what_only_a_jvm_can_do_for_a_connection_needs_libhdfs(name: str) -> None:
    for client in (None, "hdfs-native"):
        with pytest.raises(UnsupportedSettingError, match=name) as raised:
            hdfs_settings("nn:8020", {name: "my.Class"}, client=client)
        assert "libhdfs" in str(raised.value)
        for harmless in ("", *REFUSED[name]):
            hdfs_settings("nn:8020", {name: harmless}, client=client)
    assert dict(hdfs_settings("nn:8020", {name: "my.Class"}, client="libhdfs").conf) == {name: "my.Class"}


def test_unknown_settings_are_warned_of_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(not_honoured, "_warned", set())
    conf = {"fs.hdfs.mine": "hidden", "fs.hdfs.impl.disable.cache": "true"}
    with caplog.at_level(logging.WARNING, "hdfsstore.fs.settings"):
        hdfs_settings("nn:8020", conf)
        hdfs_settings("nn:8020", conf)
    assert caplog.messages == ["Hadoop's setting fs.hdfs.mine is not known, and is not looked at"]
