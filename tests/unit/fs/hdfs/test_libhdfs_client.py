"""What the client of libhdfs refuses before it asks libhdfs, which unit tests do without."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsClient

CALLS: dict[str, Callable[[LibhdfsClient, str], object]] = {
    "list": lambda client, path: client.list_folder(path),
    "info": lambda client, path: client.info(path),
    "open": lambda client, path: client.open(path),
    "create": lambda client, path: client.create(path, one_replica=False),
    "rename from": lambda client, path: client.rename(path, "/a", overwrite=True),
    "rename to": lambda client, path: client.rename("/a", path, overwrite=True),
    "delete": lambda client, path: client.delete(path),
}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\U0001f986", r"'\U0001f986'"),
        ("\U00010000b", r"'\U00010000'"),
        ("a\0b", r"'\x00'"),
        ("\udcff", r"'\udcff'"),
    ],
)
@pytest.mark.parametrize("call", CALLS)
def test_a_name_that_libhdfs_takes_for_another_is_refused(call: str, name: str, shown: str) -> None:
    client = LibhdfsClient.__new__(LibhdfsClient)  # it has no JVM, so a call that goes on fails otherwise
    with pytest.raises(StateStoreError, match="hdfs-native") as caught:
        CALLS[call](client, f"/folder/{name}/file")
    assert shown in str(caught.value)
