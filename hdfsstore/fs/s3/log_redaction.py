"""Keeps secrets out of botocore's log, which at DEBUG has the headers of requests and the answers about roles."""

from __future__ import annotations

import logging
import re

from hdfsstore.fs.secret import HIDDEN

_NAMES = (
    "AccessKeyId",
    "accessToken",
    "Authorization",
    "clientSecret",
    "ExternalId",
    "refreshToken",
    "SecretAccessKey",
    "SessionToken",
    "SSECustomerKey",
    "WebIdentityToken",
    "x-amz-s3session-token",
    "x-amz-security-token",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-sso_bearer_token",
)
# A name, as in a dict, a header or XML; and its value: a text in quotes, as Python shows it, or all up to a tag, the
# next line or the next name.
_SECRET = re.compile(
    rf"""((?:{"|".join(_NAMES)})['"]?\s*[:=>]\s*)(b?'(?:\\.|[^'\\])*'|b?"(?:\\.|[^"\\])*"|[^'"\s<&,][^\s<&,]*)""",
    re.IGNORECASE,
)
# A header as it is signed, a line of its own: a value that had a line break now has a blank.
_SIGNED = re.compile(rf"^((?:{'|'.join(_NAMES)}): *).+", re.IGNORECASE | re.MULTILINE)


def redact_log() -> None:
    """From now on, botocore's modules that are imported log no secrets, whoever uses them."""
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("botocore."):
            logging.getLogger(name).addFilter(_hide)


def redacted(text: str) -> str:
    """A text of botocore's log without secrets."""
    return _SECRET.sub(rf"\1{HIDDEN}", _SIGNED.sub(rf"\1{HIDDEN}", text))


def _hide(record: logging.LogRecord) -> bool:
    try:
        text = redacted(record.getMessage())
    except Exception as error:  # noqa: BLE001 - of a value that cannot be shown: whoever logs it never fails by that
        text = f"a message that cannot be formatted: {type(error).__name__}"
    record.msg, record.args = text, None
    return True
