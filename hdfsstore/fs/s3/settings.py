"""How one S3 bucket is reached. Settings hash, compare and pickle, and show no secret."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote, urlsplit

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.secret import Secret

# Any of AWS's own endpoints leads to the same buckets of its partition.
_AWS = {"amazonaws.com": "s3.amazonaws.com", "amazonaws.com.cn": "s3.amazonaws.com.cn"}
_PORTS = {"http": 80, "https": 443}
_ONLY_A_PLACE = re.compile(r"[^@?#]*")


class Encryption(StrEnum):
    """How the server encrypts what it stores, under the names of Hadoop's fs.s3a.encryption.algorithm."""

    SSE_S3 = "AES256"
    SSE_KMS = "SSE-KMS"
    DSSE_KMS = "DSSE-KMS"
    SSE_C = "SSE-C"


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """A role that is assumed through STS with the other credentials of the settings, anew before it expires."""

    arn: str
    session_name: str = "hdfsstore"
    duration_s: int = 3600
    external_id: Secret | None = None
    policy: str | None = None
    endpoint_url: str | None = None
    """Of STS; None: AWS's own."""
    region: str | None = None

    def __post_init__(self) -> None:
        _check_endpoint(self.endpoint_url, "the endpoint of STS")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """The settings of a bucket.

    Credentials are, in this order: none at all (`anonymous`), the keys given here, the profile of that name, and what
    botocore finds by itself: environment, files, web identity, container, instance.
    """

    endpoint_url: str | None = None
    """`scheme://host[:port]`; None: AWS's own for the region."""
    region: str | None = None
    """None: that of botocore's own configuration, else us-east-1."""
    path_style: bool | None = None
    """Whether the bucket is in the path of a request and not in the host's name; None: for an endpoint of one's own."""
    dualstack: bool = False
    fips: bool = False

    anonymous: bool = False
    access_key: Secret | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    profile: str | None = None
    credentials_file: str | None = None
    """The path of the file with the profile; None: that of botocore's own configuration."""
    credential_sources: tuple[str, ...] = ()
    """botocore's credential providers (their METHOD) that are asked, in this order; none: all, in botocore's order."""
    assumed_role: AssumedRole | None = None

    proxy_url: Secret | None = None
    """`scheme://[user:password@]host:port`; None: that of the environment, if there is one."""
    verify_tls: bool = True
    ca_bundle: str | None = None
    """The path of a file of certificates; None: those of botocore's own configuration, else certifi's."""

    encryption: Encryption | None = None
    """None: what the bucket does by default."""
    kms_key_id: str | None = None
    kms_context: str | None = None
    """The encryption context of KMS as base64 of JSON, as in S3's header."""
    customer_key: Secret | None = None
    """The 32 bytes of an SSE-C key in base64."""

    acl: str | None = None
    """A canned ACL for new objects, under S3's name: `bucket-owner-full-control`."""
    storage_class: str | None = None
    requester_pays: bool = False
    user_agent: str | None = None
    """Is added to the User-Agent of each request."""

    timeout_s: float = 120.0
    """After so many seconds without progress a call fails."""
    connect_timeout_s: float = 10.0
    """Of one connection, and of one block that is sent. At most a quarter of timeout_s is taken."""
    request_timeout_s: float = 30.0
    """Between two blocks of one answer. At most a quarter of timeout_s is taken."""
    max_connections: int = 32
    scope: str = ""
    """Parts clients that have all else in common but their secrets: two sessions of Spark with keys of their own."""

    def __post_init__(self) -> None:
        """Raises: StateStoreError: the endpoint is none, or has more in it than a place."""
        _check_endpoint(self.endpoint_url, "the endpoint of S3")

    def identity(self, bucket: str) -> str:
        """`s3://host[:port]/bucket`: equal for two settings that lead to the same objects."""
        if self.endpoint_url is None:
            partition = "amazonaws.com.cn" if (self.region or "").startswith("cn-") else "amazonaws.com"
            return f"s3://{_AWS[partition]}/{bucket}"
        parts = urlsplit(self.endpoint_url)
        host = parts.hostname or ""
        for partition, name in _AWS.items():
            if host.endswith(f".{partition}"):
                return f"s3://{name}/{bucket}"
        if ":" in host:
            host = f"[{host}]"
        port = parts.port
        at = "" if port in (None, _PORTS.get(parts.scheme)) else f":{port}"
        return f"s3://{host}{at}{parts.path.rstrip('/')}/{bucket}"

    def secrets(self) -> list[str]:
        """All that these settings say and that must appear in no log and no error."""
        role = self.assumed_role.external_id if self.assumed_role else None
        proxy = urlsplit(self.proxy_url.reveal()) if self.proxy_url else None
        found = [self.access_key, self.secret_key, self.session_token, self.customer_key, role]
        texts = [secret.reveal() for secret in found if secret is not None]
        password = proxy.password or "" if proxy else ""
        return list(dict.fromkeys(text for text in (*texts, password, unquote(password)) if text))


def _check_endpoint(url: str | None, what: str) -> None:
    """An endpoint is shown, stored and logged, so it holds no credentials. No error shows it, as it may."""
    if url is None:
        return
    if not _ONLY_A_PLACE.fullmatch(url):
        raise UnsupportedSettingError(
            f"{what} has a user, a key or other settings in it",
            remedy="Write scheme://host:port alone, and give keys as settings of their own",
        )
    try:
        _ = urlsplit(url).port
    except ValueError:
        raise StateStoreError(f"{what} is no URL of a server", remedy="Write scheme://host:port") from None
