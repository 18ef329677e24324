"""What Hadoop's configuration, the environment and the user say becomes settings of a bucket, or is refused by name."""

from __future__ import annotations

import base64
import json
import logging
import pickle
from typing import Any

import pytest

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs import not_honoured
from hdfsstore.fs.s3.settings import AssumedRole, Encryption, S3Settings
from hdfsstore.fs.s3_conf import s3_settings, secret_names
from hdfsstore.fs.s3_keys import HONOURED, NOT_HONOURED, REFUSED, RENAMED, SECRETS, WITHOUT_MEANING
from hdfsstore.fs.secret import Secret

PROFILE = ("assume-role", "sso", "shared-credentials-file", "login", "custom-process", "config-file")
KEYS = {"fs.s3a.access.key": "AKIA", "fs.s3a.secret.key": "s3cr3t"}
OWN_KEYS = {"access_key": Secret("AKIA"), "secret_key": Secret("s3cr3t")}
HADOOP = "org.apache.hadoop.fs.s3a"
SDK = "software.amazon.awssdk.auth.credentials"


def settings(*, environment: dict[str, str] | None = None, resolved: bool = False, **conf: str) -> S3Settings:
    properties = {f"fs.s3a.{name}": value for name, value in conf.pop("s3a", {}).items()} | conf
    return s3_settings("data", properties, secrets_resolved=resolved, environment=environment or {})


def of(conf: dict[str, str], **rest: Any) -> S3Settings:
    return settings(s3a=conf, **rest)


def test_nothing_set_is_amazon_with_botocores_credentials() -> None:
    assert of({}) == S3Settings()


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({"endpoint": "minio:9000", "connection.ssl.enabled": "false"}, {"endpoint_url": "http://minio:9000"}),
        ({"endpoint": "minio:9000"}, {"endpoint_url": "https://minio:9000"}),
        (
            {"endpoint": "http://minio:9000/", "path.style.access": "True"},
            {"endpoint_url": "http://minio:9000", "path_style": True},
        ),
        ({"endpoint": "s3.amazonaws.com"}, {}),
        ({"endpoint": "s3.amazonaws.com", "endpoint.region": "eu-west-1"}, {"region": "eu-west-1"}),
        (
            {"endpoint": "s3.eu-central-1.amazonaws.com"},
            {"endpoint_url": "https://s3.eu-central-1.amazonaws.com", "region": "eu-central-1"},
        ),
        (
            {"endpoint": "s3-eu-west-1.amazonaws.com"},
            {"endpoint_url": "https://s3-eu-west-1.amazonaws.com", "region": "eu-west-1"},
        ),
        (
            {"endpoint": "https://bucket.vpce-1.s3.us-west-2.vpce.amazonaws.com"},
            {"endpoint_url": "https://bucket.vpce-1.s3.us-west-2.vpce.amazonaws.com", "region": "us-west-2"},
        ),
        (
            {"endpoint": "s3.cn-north-1.amazonaws.com.cn"},
            {"endpoint_url": "https://s3.cn-north-1.amazonaws.com.cn", "region": "cn-north-1"},
        ),
        ({"path.style.access": "false"}, {"path_style": False}),
        ({"endpoint.fips": "true"}, {"fips": True}),
        (
            {"requester.pays.enabled": "true", "user.agent.prefix": "ours"},
            {"requester_pays": True, "user_agent": "ours"},
        ),
        ({"acl.default": "BucketOwnerFullControl"}, {"acl": "bucket-owner-full-control"}),
        ({"create.storage.class": "standard_ia"}, {"storage_class": "STANDARD_IA"}),
        (
            {"connection.establish.timeout": "5s", "connection.timeout": "2000"},
            {"connect_timeout_s": 5.0, "request_timeout_s": 2.0},
        ),
        ({"proxy.host": "px", "proxy.port": "3128"}, {"proxy_url": Secret("http://px:3128")}),
        (
            {"proxy.host": "px", "proxy.ssl.enabled": "true", "proxy.username": "me@x", "proxy.password": "p:w/"},
            {"proxy_url": Secret("https://me%40x:p%3Aw%2F@px:443")},
        ),
        ({"encryption.algorithm": "AES256"}, {"encryption": Encryption.SSE_S3}),
        (
            {"encryption.algorithm": "sse-kms", "encryption.key": "arn:key"},
            {"encryption": Encryption.SSE_KMS, "kms_key_id": "arn:key"},
        ),
        ({"server-side-encryption-algorithm": "DSSE-KMS"}, {"encryption": Encryption.DSSE_KMS}),
    ],
)
def test_what_is_set_is_honoured(conf: dict[str, str], expected: dict[str, Any]) -> None:
    assert of(conf) == S3Settings(**expected)


def test_the_encryption_context_and_the_customers_key() -> None:
    made = of({"encryption.algorithm": "SSE-KMS", "encryption.context": "team = a, for=state"})
    assert json.loads(base64.b64decode(made.kms_context or "")) == {"team": "a", "for": "state"}
    key = base64.b64encode(bytes(32)).decode()
    assert of({"encryption.algorithm": "SSE-C", "encryption.key": key}).customer_key == Secret(key)


def test_the_buckets_own_settings_win() -> None:
    conf = {
        **KEYS,
        "fs.s3a.endpoint": "http://general",
        "fs.s3a.bucket.data.endpoint": "http://own",
        "fs.s3a.bucket.data.fs.s3a.access.key": "OWN",
        "fs.s3a.bucket.data.server-side-encryption-algorithm": "SSE-KMS",
        "fs.s3a.encryption.algorithm": "AES256",
        "fs.s3a.bucket.other.endpoint": "http://other",
        "fs.s3a.bucket.data.more.endpoint": "http://of-the-bucket-data.more",
        "fs.s3a.bucket.data.bucket.endpoint": "http://never",
    }
    made = s3_settings("data", conf, environment={})
    assert made == S3Settings(
        endpoint_url="http://own",
        access_key=Secret("OWN"),
        secret_key=Secret("s3cr3t"),
        encryption=Encryption.SSE_KMS,
    )
    assert s3_settings("data.more", conf, environment={}).endpoint_url == "http://of-the-bucket-data.more"


@pytest.mark.parametrize(
    ("providers", "conf", "expected"),
    [
        (None, KEYS, OWN_KEYS),
        (None, {**KEYS, "fs.s3a.session.token": "t"}, {**OWN_KEYS, "session_token": Secret("t")}),
        ([f"{HADOOP}.SimpleAWSCredentialsProvider"], {**KEYS, "fs.s3a.session.token": "t"}, OWN_KEYS),
        (
            [f"{HADOOP}.TemporaryAWSCredentialsProvider"],
            {**KEYS, "fs.s3a.session.token": "t"},
            {**OWN_KEYS, "session_token": Secret("t")},
        ),
        ([f"{HADOOP}.AnonymousAWSCredentialsProvider"], KEYS, {"anonymous": True}),
        (["com.amazonaws.auth.EnvironmentVariableCredentialsProvider"], KEYS, {"credential_sources": ("env",)}),
        ([f"{HADOOP}.SimpleAWSCredentialsProvider", f"{SDK}.EnvironmentVariableCredentialsProvider"], KEYS, OWN_KEYS),
        ([f"{HADOOP}.auth.IAMInstanceCredentialsProvider"], {}, {"credential_sources": ("container-role", "iam-role")}),
        (
            [f"{SDK}.WebIdentityTokenFileCredentialsProvider"],
            {},
            {"credential_sources": ("assume-role-with-web-identity",)},
        ),
        ([f"{SDK}.DefaultCredentialsProvider"], {}, {}),
        (
            [f"{HADOOP}.auth.ProfileAWSCredentialsProvider"],
            {"fs.s3a.auth.profile.name": "me", "fs.s3a.auth.profile.file": "/f"},
            {
                "profile": "me",
                "credentials_file": "/f",
                "credential_sources": PROFILE,
            },
        ),
        (
            ["mine"],
            {**KEYS, "fs.s3a.aws.credentials.provider.mapping": f"mine={HADOOP}.SimpleAWSCredentialsProvider"},
            OWN_KEYS,
        ),
    ],
)
def test_the_first_provider_with_credentials_counts(
    providers: list[str] | None, conf: dict[str, str], expected: dict[str, Any]
) -> None:
    named = {} if providers is None else {"fs.s3a.aws.credentials.provider": " ,\n".join(providers)}
    assert s3_settings("data", {**conf, **named}, environment={}) == S3Settings(**expected)


@pytest.mark.parametrize("first", ["EnvironmentVariableCredentialsProvider", "DefaultCredentialsProvider"])
def test_keys_of_the_environment_win_where_they_are_named_first(first: str) -> None:
    simple = f"{HADOOP}.SimpleAWSCredentialsProvider"
    conf = {**KEYS, "fs.s3a.aws.credentials.provider": f"{SDK}.{first},{simple}"}
    environment = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert s3_settings("data", conf, environment=environment).access_key is None
    assert s3_settings("data", conf, environment={"AWS_ACCESS_KEY_ID": "a"}) == S3Settings(**OWN_KEYS)
    later = {**conf, "fs.s3a.aws.credentials.provider": f"{simple},{SDK}.{first}"}
    assert s3_settings("data", later, environment=environment) == S3Settings(**OWN_KEYS)


def test_an_assumed_role_with_its_own_providers() -> None:
    made = of(
        {
            "access.key": "AKIA",
            "secret.key": "s3cr3t",
            "aws.credentials.provider": f"{HADOOP}.auth.AssumedRoleCredentialProvider",
            "assumed.role.arn": "arn:role",
            "assumed.role.session.name": "me",
            "assumed.role.session.duration": "30m",
            "assumed.role.policy": "{}",
            "assumed.role.external.id": "ext",
            "assumed.role.sts.endpoint": "sts.eu-west-1.amazonaws.com",
            "assumed.role.sts.endpoint.region": "eu-west-1",
            "assumed.role.credentials.provider": f"{HADOOP}.SimpleAWSCredentialsProvider",
        }
    )
    role = AssumedRole("arn:role", "me", 1800, Secret("ext"), "{}", "https://sts.eu-west-1.amazonaws.com", "eu-west-1")
    assert made == S3Settings(**OWN_KEYS, assumed_role=role)  # type: ignore[arg-type]


def test_the_environment_says_what_hadoop_does_not() -> None:
    environment = {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "x", "AWS_ENDPOINT_URL": "http://minio:9000"}
    assert of({}, environment=environment) == S3Settings(region="eu-west-1", endpoint_url="http://minio:9000")
    both = {**environment, "AWS_ENDPOINT_URL_S3": "http://s3:1"}
    assert of({}, environment=both).endpoint_url == "http://s3:1"
    assert of({"endpoint": "http://set", "endpoint.region": "r"}, environment=both) == S3Settings(
        region="r", endpoint_url="http://set"
    )


@pytest.mark.parametrize(
    ("conf", "name"),
    [
        ({"encryption.algorithm": "CSE-KMS", "encryption.key": "k"}, "fs.s3a.encryption.algorithm asks for CSE-KMS"),
        ({"encryption.algorithm": "CSE-CUSTOM"}, "fs.s3a.encryption.algorithm"),
        ({"encryption.key": "k"}, "fs.s3a.encryption.key"),
        ({"bucket.data.accesspoint.arn": "arn:x"}, "fs.s3a.accesspoint.arn"),
        ({"accesspoint.required": "true"}, "fs.s3a.accesspoint.required"),
        ({"access.grants.enabled": "true"}, "fs.s3a.access.grants.enabled"),
        ({"signing-algorithm": "S3SignerType"}, "fs.s3a.signing-algorithm"),
        ({"custom.signers": "Mine:my.Signer"}, "fs.s3a.custom.signers"),
        ({"http.signer.enabled": "true"}, "fs.s3a.http.signer.enabled"),
        ({"client.s3.custom.headers": "a=b"}, "fs.s3a.client.s3.custom.headers"),
        ({"s3.client.factory.impl": "my.Factory"}, "fs.s3a.s3.client.factory.impl"),
        ({"audit.execution.interceptors": "my.Interceptor"}, "fs.s3a.audit.execution.interceptors"),
        ({"delegation.token.binding": "my.Binding"}, "fs.s3a.delegation.token.binding"),
        ({"aws.credentials.provider": "my.Provider"}, "fs.s3a.aws.credentials.provider names the class my.Provider"),
        ({"security.credential.provider.path": "jceks://f"}, "fs.s3a.security.credential.provider.path"),
        ({"create.storage.class": "glacier"}, "fs.s3a.create.storage.class"),
        ({"proxy.domain": "NT"}, "fs.s3a.proxy.domain"),
    ],
)
def test_what_is_about_security_or_place_and_not_honoured_is_refused(conf: dict[str, str], name: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=name) as raised:
        of(conf)
    assert raised.value.remedy


def test_hadoops_store_of_keys_is_refused_unless_hadoop_has_read_it() -> None:
    conf = {**KEYS, "hadoop.security.credential.provider.path": "jceks://file/keys.jceks"}
    with pytest.raises(UnsupportedSettingError, match=r"hadoop\.security\.credential\.provider\.path"):
        s3_settings("data", conf, environment={})
    assert s3_settings("data", conf, environment={}, secrets_resolved=True) == S3Settings(**OWN_KEYS)
    theirs = {"fs.s3a.access.key": "AKIA", "fs.s3a.secret.key": "s3cr3t"}
    assert s3_settings("data", conf, theirs, environment={}) == S3Settings(**OWN_KEYS)


def test_the_users_options_win_and_their_keys_are_not_mixed_with_others() -> None:
    conf = {
        "fs.s3a.bucket.data.access.key": "FILE",
        "fs.s3a.bucket.data.secret.key": "FILE",
        "fs.s3a.session.token": "FILE",
        "fs.s3a.bucket.data.endpoint": "http://file",
        "fs.s3a.aws.credentials.provider": "my.Provider",
        "fs.s3a.path.style.access": "true",
    }
    made = s3_settings("data", conf, {**KEYS, "fs.s3a.endpoint": "http://mine"}, environment={})
    assert made == S3Settings(endpoint_url="http://mine", path_style=True, **OWN_KEYS)
    profile = s3_settings("data", conf, {"fs.s3a.auth.profile.name": "me"}, environment={})
    assert profile == S3Settings(endpoint_url="http://file", path_style=True, profile="me")


@pytest.mark.parametrize(
    "name",
    ["fs.s3.enableServerSideEncryption", "fs.s3.cse.enabled", "fs.s3.storageClass", "fs.s3n.awsSecretAccessKey"],
)
def test_security_settings_of_other_clients_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=name):
        s3_settings("data", {name: "true"}, environment={})


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_every_refused_setting_passes_with_a_harmless_value_only(name: str) -> None:
    harmless, _ = REFUSED[name]
    for value in ("", *harmless):
        of({name: value})
    with pytest.raises(UnsupportedSettingError, match=f"fs.s3a.{name}"):
        of({name: "something"})


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({"path.style.access": "yes"}, "fs.s3a.path.style.access makes no sense"),
        ({"connection.timeout": "soon"}, "fs.s3a.connection.timeout makes no sense"),
        ({"acl.default": "mine"}, "fs.s3a.acl.default makes no sense"),
        ({"create.storage.class": "floppy"}, "fs.s3a.create.storage.class makes no sense"),
        ({"encryption.algorithm": "SSE-C", "encryption.key": "c2hvcnQ="}, "SSE-C needs 32 bytes"),
        ({"encryption.algorithm": "SSE-C", "encryption.key": "not base64"}, "SSE-C needs 32 bytes"),
        ({"encryption.algorithm": "AES256", "encryption.key": "k"}, "which has no key"),
        ({"encryption.algorithm": "SSE-KMS", "encryption.context": "a"}, "fs.s3a.encryption.context makes no sense"),
        ({"access.key": "AKIA"}, "fs.s3a.secret.key is not set"),
        ({"proxy.port": "1"}, "fs.s3a.proxy.host is not set"),
        ({"proxy.host": "h", "proxy.port": "x"}, "fs.s3a.proxy.port makes no sense"),
        ({"proxy.host": "http://user:s3cr3t@h", "proxy.port": "1"}, "fs.s3a.proxy.host makes no sense"),
        ({"proxy.host": "[::1", "proxy.port": "1"}, "fs.s3a.proxy.host makes no sense"),
        ({"proxy.host": "h", "proxy.username": "u"}, "without the other"),
        ({"endpoint": "minio", "endpoint.fips": "true"}, "fs.s3a.endpoint.fips makes no sense"),
        ({"aws.credentials.provider": f"{HADOOP}.SimpleAWSCredentialsProvider"}, "there are no credentials"),
        ({"aws.credentials.provider": f"{HADOOP}.auth.AssumedRoleCredentialProvider"}, "fs.s3a.assumed.role.arn"),
    ],
)
def test_senseless_values_are_errors_without_the_value(conf: dict[str, str], message: str) -> None:
    with pytest.raises(StateStoreError, match=message) as raised:
        of(conf)
    assert raised.value.remedy
    assert "c2hvcnQ" not in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


def test_unknown_settings_are_warned_of_once_by_name(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(not_honoured, "_warned", set())
    conf = {"no.such.setting": "hidden", "bucket.data.neither": "hidden", "multiobjectdelete.enable": "false"}
    conf["impl"] = "hidden.FileSystem"
    harmless = {"threads.max": "9", "committer.magic.enabled": "true", "bucket.other.x": "y", "list.version": "2"}
    with caplog.at_level(logging.WARNING, "hdfsstore.fs.settings"):
        of({**conf, **harmless})
        of(conf)
    assert sorted(caplog.messages) == [
        "Hadoop's setting fs.s3a.impl is not honoured",
        "Hadoop's setting fs.s3a.multiobjectdelete.enable is not honoured",
        "Hadoop's setting fs.s3a.neither is not known, and is not looked at",
        "Hadoop's setting fs.s3a.no.such.setting is not known, and is not looked at",
    ]
    assert "hidden" not in caplog.text


def test_no_setting_is_in_two_classes() -> None:
    classes = [HONOURED, set(REFUSED), set(NOT_HONOURED), set(RENAMED), WITHOUT_MEANING]
    assert sum(map(len, classes)) == len(frozenset().union(*classes))
    assert set(SECRETS) <= HONOURED


def test_names_of_secrets_are_those_that_s3a_asks_its_providers_for() -> None:
    names = secret_names("data")
    assert {
        "fs.s3a.secret.key",
        "fs.s3a.bucket.data.secret.key",
        "fs.s3a.bucket.data.fs.s3a.secret.key",
        "fs.s3a.server-side-encryption.key",
    } <= set(names)


def test_settings_travel_and_show_no_secret() -> None:
    key = base64.b64encode(b"k" * 32).decode()
    made = of(
        {
            **{name.removeprefix("fs.s3a."): value for name, value in KEYS.items()},
            "session.token": "t0ken",
            "encryption.algorithm": "SSE-C",
            "encryption.key": key,
            "proxy.host": "px",
            "proxy.username": "user",
            "proxy.password": "pa55",
        }
    )
    assert pickle.loads(pickle.dumps(made)) == made
    for secret in ("AKIA", "s3cr3t", "t0ken", key, "pa55", *made.secrets()):
        assert secret not in repr(made)
