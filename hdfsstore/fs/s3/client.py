"""Makes botocore's client for a bucket's settings.

botocore makes one try of each request, because Calls tries again. Each client has its own session, so that a forked
child, which makes a new client, shares neither connections nor locks with its parent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from botocore import UNSIGNED
from botocore.config import Config
from botocore.credentials import DeferredRefreshableCredentials, RefreshableCredentials
from botocore.exceptions import BotoCoreError, IncompleteReadError
from botocore.session import Session
from botocore.utils import parse_timestamp
from urllib3.util import parse_url

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.s3.log_redaction import redact_log
from hdfsstore.fs.s3.settings import AssumedRole, S3Settings
from hdfsstore.fs.s3.whole_headers import require_whole_headers
from hdfsstore.fs.secret import Secret

_LINE_BREAK = re.compile(rb"[\r\n]")
# botocore's credential provider that asks the machine, an EC2 instance.
_OF_INSTANCE = "iam-role"


def make_client(settings: S3Settings) -> Any:
    """A botocore client of S3.

    Raises:
        StateStoreError: botocore makes no client of these settings.
    """
    try:
        session = _session(settings)
        if settings.assumed_role is not None and not settings.anonymous:
            _assume(session, settings, settings.assumed_role)
            keys = {}
        else:
            keys = _keys(settings)
        client = session.create_client(
            "s3",
            region_name=_region(session, settings.region),
            endpoint_url=settings.endpoint_url,
            verify=_verify(settings),
            config=_config(settings),
            **keys,
        )
    except (BotoCoreError, ValueError) as error:
        raise StateStoreError(
            f"botocore makes no client of these settings: {error}",
            remedy="Check the endpoint, the region and the profile",
        ) from error
    redact_log()
    _check_proxy(client._endpoint.http_session, client.meta.endpoint_url)
    require_whole_headers(client)
    client.meta.events.register("before-call.s3", _send_body_at_once)
    client.meta.events.register("after-call.s3", _check_length)
    return client


def keys_of(client: Any) -> list[str]:
    """The keys that the client has now, wherever botocore has found them. Nothing is asked for or renewed."""
    held = client._request_signer._credentials
    mark = "_" if isinstance(held, RefreshableCredentials) else ""
    found = [getattr(held, f"{mark}{name}", None) for name in ("access_key", "secret_key", "token")]
    return [key for key in found if key]


def proxy_of(client: Any) -> str | None:
    """The proxy of the settings or of the environment that the client's requests go by: host and port, no password."""
    url = _proxy_url(client._endpoint.http_session, client.meta.endpoint_url)
    return parse_url(url).netloc if url else None


def connect_timeout_s(settings: S3Settings) -> float:
    return min(settings.connect_timeout_s, settings.timeout_s / 4)


def request_timeout_s(settings: S3Settings) -> float:
    return min(settings.request_timeout_s, settings.timeout_s / 4)


def _check_proxy(http_session: Any, url: str) -> None:
    """Else the error of a request has the proxy's URL in it with its password, and botocore logs that."""
    proxy = _proxy_url(http_session, url)
    if proxy and not _makes_sense(proxy):
        raise StateStoreError(
            "the proxy of the settings or of the environment has no URL that makes sense",
            remedy="It begins with http:// or https://, and its port is at most 65535. "
            "Write %2F for a /, %23 for a #, %3F for a ? and %5C for a \\ in its user and its password",
        )


def _proxy_url(http_session: Any, url: str) -> str | None:
    """The proxy that botocore takes: NO_PROXY is no URL, and the proxies of other schemes are of no concern."""
    found: str | None = http_session._proxy_config.proxy_url_for(url)
    return found


def _makes_sense(url: str) -> bool:
    try:
        urlsplit(url)  # botocore gets the password from it
        parts = parse_url(url)
    except ValueError:
        return False
    # An @ there: the host is what comes before a / of the password, or another scheme.
    return "@" not in "".join(part or "" for part in (parts.path, parts.query, parts.fragment))


def _refuse_line_breaks(request: Any, **_: object) -> None:
    """Else the error of http.client has the whole header in it, and botocore logs that."""
    for name, value in request.headers.items():
        if _LINE_BREAK.search(value.encode() if isinstance(value, str) else value):
            raise StateStoreError(
                f"the header {name} would have a line break in it",
                remedy="Give the keys and the session token without line breaks",
            )


def _send_body_at_once(params: dict[str, Any], **_: object) -> None:
    """Else each body waits for the server's word: one more round trip."""
    params["headers"].pop("Expect", None)


def _check_length(http_response: Any, model: Any, **_: object) -> None:
    """Else a list that was cut before its first byte would be an empty one."""
    if model.http["method"] == "HEAD" or (http_response.status_code < 300 and model.has_streaming_output):
        return
    expected = http_response.headers.get("content-length")
    actual = len(http_response.content)
    if expected is not None and int(expected) != actual:
        raise IncompleteReadError(actual_bytes=actual, expected_bytes=expected)


def _session(settings: S3Settings) -> Any:
    session = Session(profile=settings.profile)
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=timestamp)
    # For all its clients, also those that botocore makes for the roles of profiles.
    session.register("before-send", _refuse_line_breaks)
    if settings.credentials_file:
        session.set_config_variable("credentials_file", settings.credentials_file)
    resolver = session.get_component("credential_provider")
    for provider in resolver.providers:
        if provider.METHOD == _OF_INSTANCE:
            provider.load = partial(_load_of_instance, provider._role_fetcher, provider.load)
    if settings.credential_sources:
        there = {provider.METHOD: provider for provider in resolver.providers}
        resolver.providers = [there[source] for source in settings.credential_sources if source in there]
    return session


def _load_of_instance(fetcher: Any, load: Callable[[], Any]) -> Any:
    """Asks for the keys of this machine, maybe by a proxy. This comes before there is a client."""
    if not fetcher._disabled:  # AWS_EC2_METADATA_DISABLED
        _check_proxy(fetcher._session, fetcher.get_base_url())
    return load()


def timestamp(value: Any) -> datetime:
    """A time of an answer. botocore's own parser, which takes any format, takes most of the time of a long list."""
    try:
        found = datetime.fromisoformat(value) if value[:1].isdigit() else parsedate_to_datetime(value)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        found = parse_timestamp(value)
    return found


def _keys(settings: S3Settings) -> dict[str, str | None]:
    return {
        "aws_access_key_id": _revealed(settings.access_key),
        "aws_secret_access_key": _revealed(settings.secret_key),
        "aws_session_token": _revealed(settings.session_token),
    }


def _revealed(secret: Secret | None) -> str | None:
    return secret.reveal() if secret else None


def _region(session: Any, region: str | None) -> str:
    return str(region or session.get_config_variable("region") or "us-east-1")


def _verify(settings: S3Settings) -> bool | str | None:
    return settings.ca_bundle if settings.verify_tls else False


def _config(settings: S3Settings) -> Any:
    chosen: dict[str, Any] = {
        "connect_timeout": connect_timeout_s(settings),
        "read_timeout": request_timeout_s(settings),
        "max_pool_connections": settings.max_connections,
        "retries": {"mode": "standard", "total_max_attempts": 1},
        "tcp_keepalive": True,
        # The signature covers the SHA-256 of each body, and the server checks it. A checksum beside it adds nothing,
        # and not every server knows its header.
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
        "s3": {"addressing_style": _addressing(settings), "payload_signing_enabled": True},
        # The settings have the endpoint; the identity of a bucket counts on it.
        "ignore_configured_endpoint_urls": True,
    }
    if settings.anonymous:
        chosen["signature_version"] = UNSIGNED
    if settings.proxy_url:
        proxy = settings.proxy_url.reveal()
        chosen["proxies"] = {"http": proxy, "https": proxy}
    if settings.dualstack:
        chosen["use_dualstack_endpoint"] = True
    if settings.fips:
        chosen["use_fips_endpoint"] = True
    if settings.user_agent:
        chosen["user_agent_extra"] = settings.user_agent
    return Config(**chosen)


def _addressing(settings: S3Settings) -> str:
    if settings.path_style is None:
        return "auto"
    return "path" if settings.path_style or _is_address(settings.endpoint_url) else "virtual"


def _is_address(url: str | None) -> bool:
    """Whether the host is an IP address, before which no bucket can be."""
    try:
        ip_address(urlsplit(url or "").hostname or "")
    except ValueError:
        return False
    return True


def _assume(session: Any, settings: S3Settings, role: AssumedRole) -> None:
    """Gives the session the credentials of a role. They are asked for at the first request, and before they expire."""
    asking = _session(settings).create_client(
        "sts",
        region_name=role.region or _region(session, settings.region),
        endpoint_url=role.endpoint_url,
        verify=_verify(settings),
        config=Config(
            connect_timeout=connect_timeout_s(settings),
            read_timeout=request_timeout_s(settings),
            retries={"mode": "standard", "total_max_attempts": 1},
            proxies=_config(settings).proxies,
            ignore_configured_endpoint_urls=True,
        ),
        **_keys(settings),
    )
    _check_proxy(asking._endpoint.http_session, asking.meta.endpoint_url)
    require_whole_headers(asking)
    arguments: dict[str, Any] = {
        "RoleArn": role.arn,
        "RoleSessionName": role.session_name,
        "DurationSeconds": role.duration_s,
    }
    if role.external_id:
        arguments["ExternalId"] = role.external_id.reveal()
    if role.policy:
        arguments["Policy"] = role.policy

    def assume() -> dict[str, Any]:
        given = asking.assume_role(**arguments)["Credentials"]
        return {
            "access_key": given["AccessKeyId"],
            "secret_key": given["SecretAccessKey"],
            "token": given["SessionToken"],
            "expiry_time": given["Expiration"].isoformat(),
        }

    session._credentials = DeferredRefreshableCredentials(refresh_using=assume, method="assume-role")
