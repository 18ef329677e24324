"""What botocore logs, without secrets."""

from __future__ import annotations

import logging

import pytest

from hdfsstore.fs.s3.client import make_client
from hdfsstore.fs.s3.log_redaction import redacted
from hdfsstore.fs.s3.settings import S3Settings

SECRET = "s3cr3t/+="
ONE_QUOTE, BOTH_QUOTES = repr(b"'s3cr3t"), repr(b"'\"s3cr3t")


@pytest.mark.parametrize(
    "text",
    [
        f"headers={{'X-Amz-Security-Token': b'{SECRET}', 'X-Amz-Date': b'20261124T193924Z'}}",
        f"'headers': {{'X-Amz-Server-Side-Encryption-Customer-Key': '{SECRET}', 'X-Amz-Date': '20261124T193924Z'}}",
        f"x-amz-date:20261124T193924Z\nx-amz-security-token:{SECRET}\n\nhost;x-amz-date",
        f"x-amz-date:20261124T193924Z\nx-amz-security-token:abc {SECRET}, <{SECRET}\n\nhost;x-amz-date",
        f"20261124T193924Z <SecretAccessKey>{SECRET}</SecretAccessKey><SessionToken>{SECRET}</SessionToken>",
        f"'params': {{'SSECustomerKey': '{SECRET}', 'Date': '20261124T193924Z'}}",
        f"'params': {{'SSECustomerKey': {ONE_QUOTE}, 'Date': '20261124T193924Z'}}",
        f"'params': {{'SSECustomerKey': {BOTH_QUOTES}, 'Date': '20261124T193924Z'}}",
        f"'Authorization': b'AWS4 Credential={SECRET}, SignedHeaders=host', 'Date': '20261124T193924Z'",
        f"{{'ExternalId': '{SECRET}', 'Date': '20261124T193924Z'}}",
        # Of a role by a web identity (pods of Kubernetes), of IAM Identity Center, of a directory bucket.
        f"'body': {{'WebIdentityToken': '{SECRET}', 'Date': '20261124T193924Z'}}",
        f"'headers': {{'x-amz-sso_bearer_token': '{SECRET}', 'Date': '20261124T193924Z'}}",
        f'Response body:\nb\'{{"accessToken":"{SECRET}","refreshToken":"{SECRET}","Date":"20261124T193924Z"}}\'',
        f'\'body\': b\'{{"clientSecret": "{SECRET}", "Date": "20261124T193924Z"}}\'',
        f"headers={{'x-amz-s3session-token': b'{SECRET}', 'X-Amz-Date': b'20261124T193924Z'}}",
    ],
)
def test_a_secret_is_hidden_and_the_rest_is_not(text: str) -> None:
    found = redacted(text)
    assert "s3cr3t" not in found
    assert "20261124T193924Z" in found
    assert "***" in found


@pytest.mark.parametrize(
    "text",
    [
        "'X-Amz-Server-Side-Encryption-Customer-Key-MD5': 'abc', 'SSECustomerAlgorithm': 'AES256'",
        "SignedHeaders=host;x-amz-date;x-amz-security-token;x-amz-user-agent, Signature=1",
        "<NextContinuationToken>abc</NextContinuationToken>",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_a_client_hides_them_in_each_of_botocores_loggers(caplog: pytest.LogCaptureFixture) -> None:
    make_client(S3Settings(anonymous=True))
    caplog.set_level(logging.DEBUG)
    for name in ("auth", "endpoint", "parsers", "client", "credentials", "hooks", "httpsession", "utils"):
        logging.getLogger(f"botocore.{name}").debug("%s: %s", "SessionToken", SECRET)
    assert caplog.text.count("SessionToken: ***") == 8
    assert SECRET not in caplog.text


class Unshown:
    def __repr__(self) -> str:
        raise ValueError(SECRET)


def test_a_value_that_cannot_be_shown_is_no_error_for_who_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    make_client(S3Settings(anonymous=True))
    caplog.set_level(logging.DEBUG)
    logging.getLogger("botocore.endpoint").debug("params: %s", {"Body": Unshown()})
    assert caplog.messages[-1] == "a message that cannot be formatted: ValueError"
