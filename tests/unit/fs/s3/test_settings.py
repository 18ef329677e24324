"""S3Settings: which of them lead to the same objects, and that no text shows a secret."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from functools import partial

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.s3.settings import AssumedRole, S3Settings
from hdfsstore.fs.secret import Secret

SECRETS = S3Settings(
    endpoint_url="http://127.0.0.1:9000",
    access_key=Secret("the-access-key"),
    secret_key=Secret("the-secret-key"),
    session_token=Secret("the-token"),
    customer_key=Secret("the-customer-key"),
    proxy_url=Secret("http://user:the-password@proxy:3128"),
    assumed_role=AssumedRole("arn:aws:iam::123456789012:role/state", external_id=Secret("the-external-id")),
)


@pytest.mark.parametrize(
    ("settings", "identity"),
    [
        (S3Settings(), "s3://s3.amazonaws.com/b"),
        (S3Settings(region="eu-central-1"), "s3://s3.amazonaws.com/b"),
        (S3Settings(endpoint_url="https://s3.eu-central-1.amazonaws.com"), "s3://s3.amazonaws.com/b"),
        (S3Settings(region="cn-north-1"), "s3://s3.amazonaws.com.cn/b"),
        (S3Settings(endpoint_url="https://s3.cn-north-1.amazonaws.com.cn"), "s3://s3.amazonaws.com.cn/b"),
        (S3Settings(endpoint_url="http://127.0.0.1:9000"), "s3://127.0.0.1:9000/b"),
        (S3Settings(endpoint_url="http://Store.Example:80/"), "s3://store.example/b"),
        (S3Settings(endpoint_url="https://store.example:443"), "s3://store.example/b"),
        (S3Settings(endpoint_url="http://store.example:443"), "s3://store.example:443/b"),
        (S3Settings(endpoint_url="https://store.example/s3/"), "s3://store.example/s3/b"),
        (S3Settings(endpoint_url="http://[::1]:9000"), "s3://[::1]:9000/b"),
        (SECRETS, "s3://127.0.0.1:9000/b"),
    ],
)
def test_the_identity_is_that_of_the_objects(settings: S3Settings, identity: str) -> None:
    assert settings.identity("b") == identity


def test_settings_travel_and_are_keys() -> None:
    assert pickle.loads(pickle.dumps(SECRETS)) == SECRETS
    assert len({SECRETS, pickle.loads(pickle.dumps(SECRETS)), S3Settings()}) == 2


def test_no_text_shows_a_secret() -> None:
    hidden = SECRETS.secrets()
    assert sorted(hidden) == sorted(
        ["the-access-key", "the-secret-key", "the-token", "the-customer-key", "the-password", "the-external-id"]
    )
    for text in (repr(SECRETS), str(SECRETS), f"{SECRETS}"):
        assert not [secret for secret in hidden if secret in text]
    assert S3Settings().secrets() == []


@pytest.mark.parametrize(
    "url",
    [
        "http://user:the-key@store.example:9000",
        "http://the-key@store.example",
        "https://user:the/key@store.example",
        "https://store.example/?token=the-key",
        "https://store.example#the-key",
        "https://the-key:of",
        "https://store.example:99999",
    ],
)
@pytest.mark.parametrize("of", [partial(S3Settings), partial(AssumedRole, "arn")], ids=["S3", "STS"])
def test_an_endpoint_is_a_place_alone(url: str, of: Callable[..., object]) -> None:
    with pytest.raises(StateStoreError, match="the endpoint of S") as caught:
        of(endpoint_url=url)
    assert not {"the-key", "the/key"} & set(re.findall(r"the.key", str(caught.value)))


def test_a_password_is_hidden_as_it_is_and_as_it_is_written_in_a_url() -> None:
    assert S3Settings(proxy_url=Secret("http://me:p%40ss@proxy:1")).secrets() == ["p%40ss", "p@ss"]
