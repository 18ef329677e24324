"""What has gone wrong in a request to S3, whether it may pass by itself, and what the user can do."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from botocore.parsers import ResponseParserError

_PASSING_STATUS: Final = {408, 429, 500, 502, 503, 504}
_GATEWAY_TIMEOUT: Final = 504
_PASSING_CODES: Final = {
    "BadDigest",  # the body has changed on its way, as in the next two
    "IncompleteBody",
    "XAmzContentSHA256Mismatch",
    "BandwidthLimitExceeded",
    "ConditionalRequestConflict",
    "InternalError",
    "OperationAborted",
    "RequestLimitExceeded",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
}
_RIGHTS: Final = (
    "Grant the right: s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on the bucket's objects, "
    "s3:ListBucket and s3:ListBucketMultipartUploads on the bucket"
)
_NO_LIST: Final = (
    "S3 answers so for an object that is missing, too, unless the right s3:ListBucket on the bucket is given. "
    "Grant s3:ListBucket on the bucket and s3:GetObject on its objects"
)
_REMEDIES: Final = {
    "AccessDenied": _RIGHTS,
    "AllAccessDisabled": _RIGHTS,
    "AuthorizationHeaderMalformed": "Set the region of the bucket",
    "ExpiredToken": "Get new credentials: these have expired",
    "IllegalLocationConstraintException": "Set the region of the bucket",
    "InvalidAccessKeyId": "Give an access key that this server knows",
    "InvalidObjectState": "Restore the object from the archive",
    "InvalidToken": "Get new credentials: the session token is not valid",
    "NoSuchBucket": "Create the bucket, or correct its name, the endpoint or the region",
    "PermanentRedirect": "Set the region of the bucket",
    "QuotaExceeded": "Free space in the bucket, or raise its quota",
    "RequestTimeTooSkewed": "Set the clock of this machine",
    "SignatureDoesNotMatch": "Give the secret key that belongs to the access key",
    "TokenRefreshRequired": "Get new credentials: the session token is not valid",
    "XMinioAdminBucketQuotaExceeded": "Free space in the bucket, or raise its quota",
    "XMinioStorageFull": "Free space on the server's disks",
}
_REMEDIES_OF_STATUS: Final = {
    301: "Set the region of the bucket",
    403: _RIGHTS,
    407: "Give a user and a password that the proxy takes (fs.s3a.proxy.username, fs.s3a.proxy.password)",
    501: "This server cannot do that: use one that can, or leave the setting out that asks for it",
    507: "Free space on the server's disks",
}
_REMEDY: Final = "Check the endpoint, the credentials and the rights"


class S3Failure(Exception):
    """A request that has failed.

    Attributes:
        status: of HTTP; None: there was no answer.
        code: S3's name of the error; "" without an answer.
        may_pass: another try may succeed.
        remedy: what the user can do.
        headers: of the answer.
        hangs: the server has the request, or somebody before it, and it may still take effect.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str = "",
        may_pass: bool = False,
        remedy: str = _REMEDY,
        headers: dict[str, str] | None = None,
        hangs: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.may_pass = may_pass
        self.remedy = remedy
        self.headers = headers or {}
        self.hangs = hangs


def may_pass(error: Exception) -> bool:
    """For Calls: whether another try may succeed."""
    return isinstance(error, S3Failure) and error.may_pass


def failure(error: Exception, secrets: Sequence[str]) -> S3Failure | None:
    """The failure of an error of botocore, urllib3 or a socket; None for any other error.

    Its message holds none of the secrets.
    """
    found = _failure(error)
    if found is None:
        return None
    text = str(found)
    for secret in secrets:
        text = text.replace(secret, "***")
    found.args = (text,)
    # A traceback would show the text of the cause as it is.
    hidden = any(secret in str(each) for each in _chain(error) for secret in secrets)
    found.__cause__ = None if hidden else error
    found.__suppress_context__ = True
    return found


def _failure(error: Exception) -> S3Failure | None:
    if isinstance(error, ClientError):
        return _of_answer(error)
    if isinstance(error, ResponseParserError):
        return S3Failure(f"the answer makes no sense, or was cut: {error}", may_pass=True)
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        remedy = "Give an access key and a secret key, a profile or a role, or ask for no credentials (anonymous)"
        return S3Failure(str(error), remedy=remedy)
    if isinstance(error, SSLError) and any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error)):
        remedy = "Give the file of the certificates that the server's is signed with (aws_ca_bundle, AWS_CA_BUNDLE)"
        return S3Failure(str(error), remedy=remedy)
    if isinstance(error, (ConnectionError, HTTPClientError, IncompleteReadError)):
        return S3Failure(
            str(error),
            may_pass=not _is_unknown_host(error),
            remedy="Check that the server can be reached",
            hangs=isinstance(error, ReadTimeoutError),
        )
    if isinstance(error, BotoCoreError):
        return S3Failure(str(error))
    if isinstance(error, OSError) or _is_of_urllib3(error):
        return S3Failure(f"the connection broke: {error}", may_pass=True)
    return None


def _of_answer(error: ClientError) -> S3Failure:
    answer: dict[str, Any] = error.response
    meta = answer.get("ResponseMetadata", {})
    status = int(meta.get("HTTPStatusCode", 0)) or None
    code = str(answer.get("Error", {}).get("Code", ""))
    text = str(answer.get("Error", {}).get("Message", "")).rstrip(".")
    if code == str(status):  # HEAD: there is no body
        code = ""
    said = " ".join(part for part in (str(status or ""), code) if part) + (f": {text}" if text else "")
    request = meta.get("RequestId")
    if error.operation_name == "AssumeRole":
        said = f"AssumeRole: {said}"
    return S3Failure(
        f"S3 has answered {said}" + (f" (request {request})" if request else ""),
        status=status,
        code=code,
        may_pass=code in _PASSING_CODES or status in _PASSING_STATUS,
        remedy=_REMEDIES.get(code) or _REMEDIES_OF_STATUS.get(status or 0, _REMEDY),
        headers=meta.get("HTTPHeaders", {}),
        hangs=status == _GATEWAY_TIMEOUT,
    )


def failure_of_key(error: dict[str, Any]) -> S3Failure:
    """The failure of one key in an answer about many."""
    code = str(error.get("Code", ""))
    return S3Failure(
        f"S3 has answered {code}: {str(error.get('Message', '')).rstrip('.')}",
        code=code,
        may_pass=code in _PASSING_CODES,
        remedy=_REMEDIES.get(code, _REMEDY),
    )


def hidden_object(found: S3Failure) -> S3Failure:
    """A 403 of a read. It is the answer for a missing object too, where objects may not be listed."""
    if found.status == 403 and found.code in ("", "AccessDenied"):
        found.remedy = _NO_LIST
    return found


def _is_unknown_host(error: BaseException) -> bool:
    return any(isinstance(each, socket.gaierror) and each.errno == socket.EAI_NONAME for each in _chain(error))


def _is_of_urllib3(error: Exception) -> bool:
    from urllib3.exceptions import HTTPError

    return isinstance(error, HTTPError)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, and all that led to it."""
    left, seen = [error], set()
    while left:
        each = left.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        inner = each.kwargs.get("error") if isinstance(each, BotoCoreError) else None
        left += [
            other
            for other in (each.__cause__, each.__context__, inner, getattr(each, "reason", None))
            if isinstance(other, BaseException)
        ]
