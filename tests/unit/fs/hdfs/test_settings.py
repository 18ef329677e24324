"""HdfsSettings."""

from __future__ import annotations

import pickle

from hdfsstore.fs.hdfs.settings import HdfsSettings


def test_equal_settings_are_equal_in_any_order_and_travel() -> None:
    one = HdfsSettings.of("nn.example:8020", {"dfs.replication": "2", "dfs.client.socket-timeout": "1000"})
    other = HdfsSettings.of("nn.example:8020", {"dfs.client.socket-timeout": "1000", "dfs.replication": "2"})
    assert one == other
    assert hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.url == "hdfs://nn.example:8020"


def test_a_repr_does_not_show_the_settings_of_hadoop() -> None:
    assert "hunter2" not in repr(HdfsSettings.of("ns", {"some.password": "hunter2"}))
