"""Finds which credentials s3a's list of providers leads to (fs.s3a.aws.credentials.provider).

s3a asks one provider after the other, and takes the first that has credentials. Keys that are set are found here. What
a provider finds in the environment, in a file or at the instance's own service is left to botocore, which renews it.
Keys that are set win over providers of files and services that are named before them: nobody asks these first.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.hadoop_values import names, pairs, seconds, senseless
from hdfsstore.fs.s3.settings import AssumedRole
from hdfsstore.fs.s3_keys import PREFIX
from hdfsstore.fs.secret import Secret

PROVIDERS: Final = f"{PREFIX}aws.credentials.provider"
_MAPPING = f"{PROVIDERS}.mapping"
_ROLE = f"{PREFIX}assumed.role."
_ROLE_PROVIDERS = f"{_ROLE}credentials.provider"

_SIMPLE = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_ASSUMED_ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
_ANONYMOUS = {
    "com.amazonaws.auth.AnonymousAWSCredentials",
    "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider",
}
_ENVIRONMENT = ("env",)
_KEYS_OF_ENVIRONMENT = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_INSTANCE = ("container-role", "iam-role")
# What a profile can hold: a role, a login, keys, or the command of a process that prints some.
_PROFILE = ("assume-role", "sso", "shared-credentials-file", "login", "custom-process", "config-file")
_WEB_IDENTITY = ("assume-role-with-web-identity",)
# The providers of botocore (their METHOD) that do what a class does; none: all of them, in botocore's order.
_SOURCES: dict[str, tuple[str, ...]] = {
    "com.amazonaws.auth.ContainerCredentialsProvider": _INSTANCE,
    "com.amazonaws.auth.DefaultAWSCredentialsProviderChain": (),
    "com.amazonaws.auth.EC2ContainerCredentialsProviderWrapper": _INSTANCE,
    "com.amazonaws.auth.EnvironmentVariableCredentialsProvider": _ENVIRONMENT,
    "com.amazonaws.auth.InstanceProfileCredentialsProvider": _INSTANCE,
    "com.amazonaws.auth.WebIdentityTokenCredentialsProvider": _WEB_IDENTITY,
    "com.amazonaws.auth.profile.ProfileCredentialsProvider": _PROFILE,
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider": _INSTANCE,
    "org.apache.hadoop.fs.s3a.auth.ProfileAWSCredentialsProvider": _PROFILE,
    "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider": _INSTANCE,
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider": (),
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider": _ENVIRONMENT,
    "software.amazon.awssdk.auth.credentials.InstanceProfileCredentialsProvider": _INSTANCE,
    "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider": _PROFILE,
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider": _WEB_IDENTITY,
}
# Credentials that each machine of a cluster has of its own.
OF_THE_MACHINE: Final = frozenset(_INSTANCE + _WEB_IDENTITY)
CLASSES: Final = tuple(sorted({*_SOURCES, *_ANONYMOUS, _SIMPLE, _TEMPORARY, _ASSUMED_ROLE}))


def credentials(conf: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, Any]:
    """The fields of S3Settings that say which credentials are taken.

    Args:
        conf: the settings of s3a for the bucket.
        environment: may have keys too.

    Raises:
        UnsupportedSettingError: a class is not known.
        StateStoreError: only classes are named that have nothing here, or a setting is missing.
    """
    in_environment = all(environment.get(name) for name in _KEYS_OF_ENVIRONMENT)
    classes = _classes(conf, PROVIDERS)
    if _ASSUMED_ROLE in classes:
        if len(classes) > 1:
            raise UnsupportedSettingError(
                f"{PROVIDERS} names {_ASSUMED_ROLE} beside other classes", remedy="Name it alone for this bucket"
            )
        base = _classes(conf, _ROLE_PROVIDERS)
        if _ASSUMED_ROLE in base:
            raise senseless(_ROLE_PROVIDERS, "a role cannot be assumed with itself")
        return {**_first(conf, base, _ROLE_PROVIDERS, in_environment), "assumed_role": _role(conf)}
    return _first(conf, classes, PROVIDERS, in_environment)


def is_own_of_each_machine(found: Mapping[str, Any]) -> bool:
    """Whether the fields lead to credentials that another machine of the cluster gets by itself."""
    sources = found.get("credential_sources", ())
    return bool(found.get("anonymous")) or (
        "access_key" not in found and bool(sources) and OF_THE_MACHINE.issuperset(sources)
    )


def _classes(conf: Mapping[str, str], name: str) -> list[str]:
    mapping = pairs(conf, _MAPPING)
    return [mapping.get(each, each) for each in names(conf, name)]


def _first(conf: Mapping[str, str], classes: list[str], name: str, in_environment: bool) -> dict[str, Any]:
    access_key, secret_key = conf.get(f"{PREFIX}access.key"), conf.get(f"{PREFIX}secret.key")
    token = conf.get(f"{PREFIX}session.token")
    unknown = [each for each in classes if each not in CLASSES]
    if unknown:
        raise UnsupportedSettingError(
            f"{name} names the class {unknown[0]}, which only a JVM can run",
            remedy="Give keys in storage_options, or one of AWS's or Hadoop's own classes",
        )
    if bool(access_key) != bool(secret_key):
        missing = "secret.key" if access_key else "access.key"
        raise StateStoreError(f"{PREFIX}{missing} is not set, and its counterpart is", remedy="Set both or none")
    first_of_keys = next((each for each in classes if each in (_SIMPLE, _TEMPORARY) or _asks_environment(each)), "")
    if access_key and secret_key and not (in_environment and _asks_environment(first_of_keys)):
        keys = {"access_key": Secret(access_key), "secret_key": Secret(secret_key)}
        if token and (not classes or _TEMPORARY in classes):
            return {**keys, "session_token": Secret(token)}
        if not classes or _SIMPLE in classes:
            return keys
    return _without_keys(conf, classes, name)


def _asks_environment(name: str) -> bool:
    return name in _SOURCES and _SOURCES[name] in ((), _ENVIRONMENT)


def _without_keys(conf: Mapping[str, str], classes: list[str], name: str) -> dict[str, Any]:
    lazy = [each for each in classes if each in _SOURCES]
    is_anonymous = not _ANONYMOUS.isdisjoint(classes)
    if is_anonymous and not lazy:
        return {"anonymous": True}
    if is_anonymous:
        raise UnsupportedSettingError(
            f"{name} names anonymous access beside {lazy[0]}",
            remedy="Name one of them, so that it is certain who reads and writes",
        )
    if classes and not lazy:
        raise StateStoreError(
            f"there are no credentials: {name} names {', '.join(classes)}, which need {PREFIX}access.key and others",
            remedy="Set the keys, or name another class",
        )
    found: dict[str, Any] = {}
    sources = [source for each in lazy for source in _SOURCES[each]]
    if lazy and all(_SOURCES[each] for each in lazy):
        found["credential_sources"] = tuple(dict.fromkeys(sources))
    if not classes or not set(_PROFILE).isdisjoint(sources):
        found |= _profile(conf)
    return found


def _profile(conf: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for field, name in (("profile", "name"), ("credentials_file", "file")):
        value = conf.get(f"{PREFIX}auth.profile.{name}")
        if value:
            found[field] = str(Path(value).expanduser()) if field == "credentials_file" else value
    return found


def _role(conf: Mapping[str, str]) -> AssumedRole:
    arn = conf.get(f"{_ROLE}arn")
    if not arn:
        raise StateStoreError(f"{_ROLE}arn is not set, and {PROVIDERS} assumes a role", remedy="Set it")
    endpoint = conf.get(f"{_ROLE}sts.endpoint")
    if endpoint and "://" not in endpoint:
        endpoint = f"https://{endpoint}"
    external_id = conf.get(f"{_ROLE}external.id")
    return AssumedRole(
        arn,
        session_name=conf.get(f"{_ROLE}session.name") or "hdfsstore",
        duration_s=int(seconds(conf, f"{_ROLE}session.duration", "s") or 3600),
        external_id=Secret(external_id) if external_id else None,
        policy=conf.get(f"{_ROLE}policy") or None,
        endpoint_url=endpoint or None,
        region=conf.get(f"{_ROLE}sts.endpoint.region") or None,
    )
