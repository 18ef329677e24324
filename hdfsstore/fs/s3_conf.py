"""Makes S3Settings of what Hadoop, the environment and the user say about a bucket. docs/storage.md has the rules."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.hadoop_conf import CREDENTIAL_PROVIDER_PATH
from hdfsstore.fs.hadoop_values import boolean, pairs, seconds, senseless
from hdfsstore.fs.not_honoured import warn_of
from hdfsstore.fs.s3 import settings as s3
from hdfsstore.fs.s3_credentials import credentials
from hdfsstore.fs.s3_keys import (
    BUCKET_PREFIX,
    DELEGATION_TOKENS,
    HONOURED,
    NOT_HONOURED,
    PREFIX,
    PROVIDER_PATH,
    REFUSED,
    RENAMED,
    SECRETS,
    is_known,
    is_without_meaning,
)
from hdfsstore.fs.secret import Secret

# Which of them are set decides which credentials are taken, so those of one origin are never mixed with others.
CREDENTIALS: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "access.key",
        "assumed.role.arn",
        "assumed.role.credentials.provider",
        "auth.profile.file",
        "auth.profile.name",
        "aws.credentials.provider",
        "secret.key",
        "session.token",
    )
)
_CENTRAL = "s3.amazonaws.com"
# s3.eu-west-1.amazonaws.com, s3-eu-west-1..., s3.dualstack.eu-west-1..., x.s3.eu-west-1.vpce.amazonaws.com
_REGION = re.compile(r"(?<=[./-])([a-z]{2}(?:-[a-z]+)+-\d+)(?:\.vpce)?\.amazonaws\.com")
# Hadoop names ACLs as AWS's Java client does, and storage classes in small letters.
_ACLS = {
    name.replace("-", "").lower(): name
    for name in (
        "private",
        "public-read",
        "public-read-write",
        "authenticated-read",
        "aws-exec-read",
        "log-delivery-write",
        "bucket-owner-read",
        "bucket-owner-full-control",
    )
}
_STORAGE_CLASSES = ("STANDARD", "REDUCED_REDUNDANCY", "STANDARD_IA", "ONEZONE_IA", "INTELLIGENT_TIERING", "GLACIER_IR")
_ARCHIVES = ("GLACIER", "DEEP_ARCHIVE", "OUTPOSTS")
_ENCRYPTION_KEY_BYTES = 32
# EMR's own client of s3: (EmrFS) has settings of these names, and stores data otherwise than they say without them.
_OF_OTHER_CLIENTS = re.compile(r"fs\.(s3n?)\.(?!impl(?:$|\.))(.+)")
_SECURITY = re.compile(r"crypt|cse|kms|acl|authori[sz]ation|credential|assumed?role|key|storage\.?class", re.IGNORECASE)

# Environment variables of AWS's tools. Those of credentials are left to botocore, which renews what they lead to.
_REGIONS: Final = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def s3_settings(
    bucket: str,
    conf: Mapping[str, str],
    options: Mapping[str, str] | None = None,
    *,
    secrets_resolved: bool = False,
    environment: Mapping[str, str] = os.environ,
    **fields: Any,
) -> s3.S3Settings:
    """The settings of a bucket.

    Args:
        bucket: its name.
        conf: Hadoop's configuration: the properties that somebody has set.
        options: properties of the user, which win. Credentials in them take the place of all those in conf.
        secrets_resolved: whether the keys and passwords in conf are those that Hadoop's credential providers have.
        environment: has the region and the endpoint, if conf does not say them.
        fields: more of S3Settings, if they are not None.

    Raises:
        UnsupportedSettingError: a setting about security, or about where data lies, cannot be honoured.
        StateStoreError: the value of a setting makes no sense.
    """
    own, chosen = of_bucket(conf, bucket), of_bucket(options or {}, bucket)
    has_credentials = not CREDENTIALS.isdisjoint(chosen)
    if has_credentials:
        own = {name: value for name, value in own.items() if name not in CREDENTIALS}
    own |= chosen
    _check(own, conf, secrets_resolved=secrets_resolved)
    if not has_credentials and not secrets_resolved:
        _refuse_stores_of_keys(own, conf)
    place = _place(own, environment)
    return s3.S3Settings(
        **place,
        **credentials(own, environment),
        **_proxy(own),
        **_encryption(own, place),
        **_objects(own),
        **_times(own),
        **{name: value for name, value in fields.items() if value is not None},
    )


def of_bucket(conf: Mapping[str, str], bucket: str) -> dict[str, str]:
    """The settings `fs.s3a.*` of a bucket: its own over the general ones, under the general names."""
    own = f"{BUCKET_PREFIX}{bucket}."
    general: dict[str, str] = {}
    special: dict[str, str] = {}
    for name in conf:
        if name.startswith(own):
            rest = name[len(own) :].removeprefix(PREFIX)  # passwords may have their full name there
            if not rest.startswith("bucket.") and rest != "impl" and (is_known(rest) or not _is_of_longer_name(rest)):
                special[PREFIX + RENAMED.get(rest, rest)] = conf[name]
        elif name.startswith(PREFIX) and (not name.startswith(BUCKET_PREFIX) or is_known(name[len(PREFIX) :])):
            rest = name[len(PREFIX) :]
            if rest not in RENAMED or PREFIX + RENAMED[rest] not in conf:
                general[PREFIX + RENAMED.get(rest, rest)] = conf[name]
    return {**general, **special}


def _is_of_longer_name(rest: str) -> bool:
    """`data.endpoint` under the bucket `my` is the endpoint of the bucket `my.data`."""
    return any(is_known(rest[at + 1 :]) for at, letter in enumerate(rest) if letter == ".")


def _check(own: Mapping[str, str], conf: Mapping[str, str], *, secrets_resolved: bool) -> None:
    """Refuses what must not be passed over, and warns of what is."""
    for name, value in own.items():
        rest = name[len(PREFIX) :]
        if rest in REFUSED:
            harmless, remedy = REFUSED[rest]
            if value and value.lower() not in harmless:
                raise UnsupportedSettingError(f"{name} is set, and cannot be honoured", remedy=remedy)
        elif rest == DELEGATION_TOKENS and not secrets_resolved and value:
            raise UnsupportedSettingError(
                f"{name} is set, and only Hadoop's own client has its tokens", remedy="Give keys in storage_options"
            )
        elif rest in NOT_HONOURED:
            if value.lower() not in NOT_HONOURED[rest]:
                warn_of(name, "is not honoured")
        elif rest not in HONOURED and rest != PROVIDER_PATH and not is_without_meaning(rest):
            warn_of(name, "is not known, and is not looked at")
    for name in conf:
        found = _OF_OTHER_CLIENTS.fullmatch(name)
        if found and conf[name] and conf[name].lower() != "false" and _SECURITY.search(found[2]):
            raise UnsupportedSettingError(
                f"{name} is set, which is a setting of another client than s3a, and cannot be honoured",
                remedy=f"Say it as {PREFIX}..., and remove {name}",
            )
        if found and not _SECURITY.search(found[2]):
            warn_of(name, "is a setting of another client than s3a, and is not looked at")


def _place(own: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    endpoint = own.get(f"{PREFIX}endpoint", "")
    region = own.get(f"{PREFIX}endpoint.region", "")
    fips = boolean(own, f"{PREFIX}endpoint.fips", False)
    style = f"{PREFIX}path.style.access"
    if endpoint and "://" not in endpoint:
        scheme = "https" if boolean(own, f"{PREFIX}connection.ssl.enabled", True) else "http"
        endpoint = f"{scheme}://{endpoint}"
    elif not endpoint:
        endpoint = _first_of(environment, _ENDPOINTS)
    if not region:
        found = _REGION.search(endpoint.rstrip("/"))
        region = found[1] if found else _first_of(environment, _REGIONS)
    is_central = endpoint.rstrip("/").endswith(_CENTRAL)
    if fips and endpoint and not is_central:
        raise senseless(f"{PREFIX}endpoint.fips", "an endpoint is set too")
    return {
        "endpoint_url": None if is_central else endpoint.rstrip("/") or None,
        "region": region or None,
        "path_style": boolean(own, style, False) if own.get(style) else None,
        "fips": fips,
    }


def _first_of(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")


def _refuse_stores_of_keys(own: Mapping[str, str], conf: Mapping[str, str]) -> None:
    for name in (f"{PREFIX}{PROVIDER_PATH}", CREDENTIAL_PROVIDER_PATH):
        if own.get(name) or conf.get(name):
            raise UnsupportedSettingError(
                f"{name} is set: the keys are in a store that only Hadoop's own client can read",
                remedy=f"Give {PREFIX}access.key and {PREFIX}secret.key in storage_options, or work in Spark",
            )


def _proxy(own: Mapping[str, str]) -> dict[str, Any]:
    host, port = own.get(f"{PREFIX}proxy.host", ""), own.get(f"{PREFIX}proxy.port", "")
    user, password = own.get(f"{PREFIX}proxy.username"), own.get(f"{PREFIX}proxy.password")
    if not host:
        if port:
            raise senseless(f"{PREFIX}proxy.port", f"{PREFIX}proxy.host is not set")
        return {}
    if bool(user) != bool(password):
        raise StateStoreError(
            f"one of {PREFIX}proxy.username and {PREFIX}proxy.password is set without the other", remedy="Set both"
        )
    if "/" in host or host.count("[") != host.count("]"):  # a URL may have a password that errors would show
        raise senseless(f"{PREFIX}proxy.host", "the name of a host is needed, and no URL")
    is_secure = boolean(own, f"{PREFIX}proxy.ssl.enabled", False)
    if port and not port.isdecimal():
        raise senseless(f"{PREFIX}proxy.port", "a number is needed")
    login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if user and password else ""
    at = port or ("443" if is_secure else "80")
    return {"proxy_url": Secret(f"{'https' if is_secure else 'http'}://{login}{host}:{at}")}


def _encryption(own: Mapping[str, str], place: Mapping[str, Any]) -> dict[str, Any]:
    name, key_name = f"{PREFIX}encryption.algorithm", f"{PREFIX}encryption.key"
    algorithm, key = own.get(name, ""), own.get(key_name, "")
    context = pairs(own, f"{PREFIX}encryption.context")
    if not algorithm:
        if key:
            raise UnsupportedSettingError(
                f"{key_name} is set without {name}, so objects would not be encrypted with it", remedy=f"Set {name}"
            )
        return {}
    known = {each.value.lower(): each for each in s3.Encryption}
    kind = known.get(algorithm.lower())
    if kind is None:
        raise UnsupportedSettingError(
            f"{name} asks for {algorithm}, which cannot be honoured",
            remedy=f"It can be one of {', '.join(each.value for each in s3.Encryption)}: the server encrypts then",
        )
    if kind is s3.Encryption.SSE_C:
        if (place["endpoint_url"] or "").lower().startswith("http:"):
            raise UnsupportedSettingError(
                f"{name} is {kind.value}, and the endpoint has no TLS, so that anybody on the way could read the key",
                remedy="Give an endpoint with https:",
            )
        return {"encryption": kind, "customer_key": Secret(_customer_key(key_name, key))}
    if kind is s3.Encryption.SSE_S3:
        if key:
            raise senseless(key_name, f"{name} is {kind.value}, which has no key")
        return {"encryption": kind}
    text = base64.b64encode(json.dumps(context).encode()).decode() if context else None
    return {"encryption": kind, "kms_key_id": key or None, "kms_context": text}


def _customer_key(name: str, key: str) -> str:
    try:
        size = len(base64.b64decode(key, validate=True))
    except ValueError:
        size = -1
    if size != _ENCRYPTION_KEY_BYTES:
        raise senseless(name, f"SSE-C needs {_ENCRYPTION_KEY_BYTES} bytes in base64")
    return key


def _objects(own: Mapping[str, str]) -> dict[str, Any]:
    """What new objects are like, and who pays."""
    acl = own.get(f"{PREFIX}acl.default", "")
    if acl and acl.replace("-", "").lower() not in _ACLS:
        raise senseless(f"{PREFIX}acl.default", f"it is one of {', '.join(_ACLS.values())}")
    storage_class = own.get(f"{PREFIX}create.storage.class", "").upper()
    if storage_class in _ARCHIVES:
        raise UnsupportedSettingError(
            f"{PREFIX}create.storage.class is {storage_class.lower()}, whose objects cannot be read at once",
            remedy="Choose another one for this bucket",
        )
    if storage_class and storage_class not in _STORAGE_CLASSES:
        raise senseless(f"{PREFIX}create.storage.class", f"it is one of {', '.join(_STORAGE_CLASSES).lower()}")
    return {
        "acl": _ACLS[acl.replace("-", "").lower()] if acl else None,
        "storage_class": storage_class or None,
        "requester_pays": boolean(own, f"{PREFIX}requester.pays.enabled", False),
        "user_agent": own.get(f"{PREFIX}user.agent.prefix") or None,
    }


def _times(own: Mapping[str, str]) -> dict[str, Any]:
    times = {
        "connect_timeout_s": seconds(own, f"{PREFIX}connection.establish.timeout", "ms"),
        "request_timeout_s": seconds(own, f"{PREFIX}connection.timeout", "ms"),
    }
    return {name: value for name, value in times.items() if value}


def secret_names(bucket: str) -> list[str]:
    """The settings of a bucket that hold secrets, under all their names, so that Hadoop's providers can be asked."""
    own = f"{BUCKET_PREFIX}{bucket}."
    old = {new: old for old, new in RENAMED.items()}
    names = [each for name in SECRETS for each in (name, old.get(name)) if each]
    return [f"{prefix}{name}" for name in names for prefix in (PREFIX, own, own + PREFIX)]
