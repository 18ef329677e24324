"""The errors of the clients of HDFS, by what hdfs-native and Java say."""

from __future__ import annotations

import pytest

from hdfsstore.fs.hdfs.client import HdfsError
from hdfsstore.fs.hdfs.java_files import error_of
from hdfsstore.fs.hdfs.native_client import shown


@pytest.mark.parametrize(
    ("text", "kind", "said", "may_pass"),
    [
        (
            'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Not \\"x\\".\\n\\tat a.B(C)")',
            "SafeModeException",
            'SafeModeException: Not "x".',
            True,
        ),
        (
            'RPCError("java.io.IOException", "File /a could only be written to 0 of the 1 nodes.\\n\\tat a.B(C.java)")',
            "IOException",
            "IOException: File /a could only be written to 0 of the 1 nodes.",
            True,
        ),
        (
            'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=ann\\n\\tat a.B")',
            "AccessControlException",
            "AccessControlException: Permission denied: user=ann",
            False,
        ),
        (
            'DataTransferError("All DataNodes failed: [DatanodeInfoProto { id: 1 }]")',
            "DataTransferError",
            "DataTransferError: All DataNodes failed",
            True,
        ),
        ("NoSASLMechanism", "NoSASLMechanism", "NoSASLMechanism", False),
        ("ChecksumError", "ChecksumError", "ChecksumError", True),
    ],
)
def test_an_error_of_hdfs_native_has_its_kind_and_no_stack_trace(
    text: str, kind: str, said: str, may_pass: bool
) -> None:
    error = shown(text)
    assert (error.kind, str(error), error.may_pass) == (kind, said, may_pass)


@pytest.mark.parametrize(
    ("text", "kind", "may_pass"),
    [
        ("java.net.ConnectException: Call From a to b failed", "ConnectException", True),
        ("java.net.SocketException: Call From a to b:8020 failed on socket exception: reset", "SocketException", True),
        ("org.apache.hadoop.net.ConnectTimeoutException: 20000 millis timeout", "ConnectTimeoutException", True),
        ("java.net.NoRouteToHostException: No Route to Host from a to b:8020", "NoRouteToHostException", True),
        (
            "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.ipc.StandbyException): Operation category WRITE",
            "StandbyException",
            True,
        ),
        ("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException: The quota", "NSQuotaExceededException", False),
        ("org.apache.hadoop.ipc.RemoteException(java.io.IOException): Source /a\n\tat x", "IOException", False),
        (
            "java.io.IOException: DestHost:destPort a:8020 , LocalHost:localPort b/127.0.0.1:0. "
            "Failed on local exception: java.io.IOException: Broken pipe",
            "IOException",
            True,
        ),
        (
            "org.apache.hadoop.ipc.RemoteException(java.io.IOException): File /a could only be written to 0 of the 1",
            "IOException",
            True,
        ),
        ("java.io.IOException: All datanodes [DatanodeInfo] are bad. Aborting...", "IOException", True),
        ("org.apache.hadoop.hdfs.BlockMissingException: Could not obtain block", "BlockMissingException", True),
        # Hadoop on Java 8 and 11
        (
            "java.io.IOException: Failed on local exception: java.io.IOException: Connection reset by peer; Host",
            "IOException",
            True,
        ),
        (
            "java.io.IOException: Failed on local exception: java.nio.channels.ClosedChannelException; Host",
            "IOException",
            True,
        ),
        (
            "java.io.IOException: Failed on local exception: org.apache.hadoop.security.KerberosAuthException: none",
            "IOException",
            False,
        ),
    ],
)
def test_an_exception_of_java_has_its_kind(text: str, kind: str, may_pass: bool) -> None:
    error = error_of(text)
    assert isinstance(error, HdfsError)
    assert (error.kind, error.may_pass) == (kind, may_pass)


def test_names_that_are_missing_or_taken() -> None:
    assert isinstance(error_of("java.io.FileNotFoundException: rename source /a is not found."), FileNotFoundError)
    assert isinstance(error_of("org.apache.hadoop.fs.FileAlreadyExistsException: /a exists"), FileExistsError)
