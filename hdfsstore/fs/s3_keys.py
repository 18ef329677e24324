"""Which of s3a's settings count. docs/storage.md has the same table.

Each name is that after `fs.s3a.`; one that ends with a point stands for all that begin with it. The names are those of
Hadoop 3.5 (Constants.java and others of hadoop-aws) and of older releases.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = "fs.s3a."
BUCKET_PREFIX: Final = f"{PREFIX}bucket."

# Old names; both may be set (S3AFileSystem.java).
RENAMED: Final = {
    "server-side-encryption-algorithm": "encryption.algorithm",
    "server-side-encryption.key": "encryption.key",
}

HONOURED: Final = frozenset(
    {
        "access.key",
        "acl.default",
        "assumed.role.arn",
        "assumed.role.credentials.provider",
        "assumed.role.external.id",
        "assumed.role.policy",
        "assumed.role.session.duration",
        "assumed.role.session.name",
        "assumed.role.sts.endpoint",
        "assumed.role.sts.endpoint.region",
        "auth.profile.file",
        "auth.profile.name",
        "aws.credentials.provider",
        "aws.credentials.provider.mapping",
        "connection.establish.timeout",
        "connection.ssl.enabled",
        "connection.timeout",
        "create.storage.class",
        "encryption.algorithm",
        "encryption.context",
        "encryption.key",
        "endpoint",
        "endpoint.fips",
        "endpoint.region",
        "path.style.access",
        "proxy.host",
        "proxy.password",
        "proxy.port",
        "proxy.ssl.enabled",
        "proxy.username",
        "requester.pays.enabled",
        "secret.key",
        "session.token",
        "user.agent.prefix",
    }
)

# Those that hold a secret, which Hadoop's credential providers (JCEKS) may have too.
SECRETS: Final = (
    "access.key",
    "encryption.key",
    "proxy.password",
    "proxy.username",
    "secret.key",
    "session.token",
)

# About how s3a works inside, or about what hdfsstore does not do: nothing is missed without them.
WITHOUT_MEANING: Final = frozenset(
    {
        "access.grants.fallback.to.iam",
        "analytics.accelerator.",
        "attempts.maximum",
        "audit.",
        "authoritative.path",
        "block.size",
        "bucket.probe",
        "buffer.dir",
        "bulk.delete.page.size",
        "capability.",
        "change.detection.",
        "checksum.generation",
        "checksum.validation",
        "classloader.isolation",
        "committer.",
        "connection.acquisition.timeout",
        "connection.expect.continue",
        "connection.idle.time",
        "connection.keepalive",
        "connection.maximum",
        "connection.part.upload.timeout",
        "connection.request.timeout",
        "connection.ttl",
        "create.conditional.enabled",
        "create.header.",
        "create.multipart",
        "create.performance",
        "cross.region.access.enabled",
        "directory.marker.retention",
        "directory.operations.purge.uploads",
        "downgrade.syncable.exceptions",
        "encryption.cse.",
        "etag.checksum.enabled",
        "executor.capacity",
        "experimental.",
        "failinject.",
        "fast.",
        "impl.disable.cache",
        "input.",
        "internal.",
        "max.total.tasks",
        "metadatastore.",
        "multipart.",
        "optimized.copy.from.local.enabled",
        "paging.maximum",
        "performance.flags",
        "prefetch.",
        "readahead.range",
        "request.md5.header",
        "retry.",
        "s3express.create.session",
        "s3guard.",
        "select.",
        "socket.",
        "ssl.channel.mode",
        "threads.",
        "vectored.",
    }
)

# What these ask for we do as if it were not set. Only the values named here ask for nothing; others are warned of.
NOT_HONOURED: Final = {
    "create.checksum.algorithm": ("none",),
    "impl": ("org.apache.hadoop.fs.s3a.s3afilesystem",),
    "io.rate.limit": ("0",),
    "list.version": ("2",),
    "multiobjectdelete.enable": ("true",),
    "multipart.purge": ("false",),
    "object.content.encoding": (),
}

_SIGNER = "Requests are signed with AWS's Signature Version 4. Remove it for this bucket, if the server takes that"
_ACCESS_POINT = "Give the bucket itself, if the credentials may reach it without an access point"
_HEADERS = "Remove it for this bucket, if the server does not need the headers"
_INTERCEPTOR = "Remove it for this bucket, if requests need not be changed by such a class"
_FACTORY = "Remove it for this bucket, if AWS's own client will do"
_V4 = ("awss3v4signertype", "aws4signertype", "v4signertype", "awss3v4signer")

# About security, or where data lies. Each is refused, unless its value is one of those named here: (values, remedy).
REFUSED: Final = {
    "access.grants.enabled": (("false",), "Give credentials that may reach the bucket without access grants"),
    "accesspoint.arn": ((), _ACCESS_POINT),
    "accesspoint.required": (("false",), _ACCESS_POINT),
    "audit.execution.interceptors": ((), _INTERCEPTOR),
    "audit.request.handlers": ((), _INTERCEPTOR),
    "client.s3.custom.headers": ((), _HEADERS),
    "client.sts.custom.headers": ((), _HEADERS),
    "custom.signers": ((), _SIGNER),
    "http.signer.class": ((), _SIGNER),
    "http.signer.enabled": (("false",), _SIGNER),
    "proxy.domain": ((), "Give a proxy that takes a user and a password, not NTLM"),
    "proxy.workstation": ((), "Give a proxy that takes a user and a password, not NTLM"),
    "s3.client.factory.impl": (("org.apache.hadoop.fs.s3a.defaults3clientfactory",), _FACTORY),
    "s3.signing-algorithm": (_V4, _SIGNER),
    "signing-algorithm": (_V4, _SIGNER),
    "sts.signing-algorithm": (_V4, _SIGNER),
}

# Other places of keys. In Spark s3a itself takes the keys from there; without a JVM nobody can.
DELEGATION_TOKENS: Final = "delegation.token.binding"
PROVIDER_PATH: Final = "security.credential.provider.path"


def is_without_meaning(name: str) -> bool:
    return name in WITHOUT_MEANING or any(name.startswith(prefix) for prefix in WITHOUT_MEANING if prefix.endswith("."))


def is_known(name: str) -> bool:
    """A release of s3a has a setting of this name, without `fs.s3a.`."""
    return (
        name in HONOURED
        or name in RENAMED
        or name in REFUSED
        or name in NOT_HONOURED
        or name in (DELEGATION_TOKENS, PROVIDER_PATH)
        or is_without_meaning(name)
    )
