"""What makes Spark's s3a work: jars from Maven beside those of PySpark, and settings."""

from __future__ import annotations

from pathlib import Path

from tests.services import cache, java

_SDK = "2.35.4"
_SDK_MODULES = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
# The SDK's bundle is 686 MB and holds the modules above. The rest is in PySpark's jars, or only makes TLS faster.
_EXCLUDES = (
    "software.amazon.awssdk:bundle",
    "org.wildfly.openssl:wildfly-openssl",
    "io.netty:*",
    "org.slf4j:*",
    "commons-logging:commons-logging",
    "commons-codec:commons-codec",
    "org.apache.httpcomponents:httpclient",
    "org.apache.httpcomponents:httpcore",
)


def jars() -> list[Path]:
    """The jars that Spark needs for s3a, downloaded once.

    Raises:
        ServiceMissingError: they cannot be had.
    """
    version = java.hadoop_version()
    packages = [f"org.apache.hadoop:hadoop-aws:{version}"]
    packages += [f"software.amazon.awssdk:{module}:{_SDK}" for module in _SDK_MODULES]
    folder = cache.whole_folder(f"s3a-{version}-{_SDK}", lambda made: java.download(made, packages, _EXCLUDES))
    return sorted(folder.glob("*.jar"))
