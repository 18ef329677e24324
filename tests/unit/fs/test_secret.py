"""A Secret shows its text to nobody who does not ask for it."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import pprint
import traceback

import pytest

from hdfsstore.fs.secret import Secret

TEXT = "wJalrXUtnFEMI"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    key: Secret


def test_it_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    secret = Secret(TEXT)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>20}",
        f"{secret:>20}",
        pprint.pformat({"key": [secret]}),
        repr(Settings(secret)),
        repr(dataclasses.asdict(Settings(secret))),
        str(ValueError(secret)),
    ]
    caplog.set_level(logging.DEBUG)
    logging.getLogger("hdfsstore.test").info("the key %s, %r", secret, Settings(secret))
    try:
        raise ValueError(Settings(secret))
    except ValueError:
        shown.append(traceback.format_exc())
    assert all(TEXT not in text for text in [*shown, caplog.text])
    with pytest.raises(TypeError):
        json.dumps(secret)
    with pytest.raises(TypeError):
        "".join([secret])  # type: ignore[list-item]


def test_it_is_revealed_pickled_and_compared() -> None:
    secret = Secret(TEXT)
    assert secret.reveal() == TEXT
    for same in (pickle.loads(pickle.dumps(secret)), copy.deepcopy(secret), Secret(TEXT)):
        assert same == secret
        assert hash(same) == hash(secret)
        assert same.reveal() == TEXT
    assert secret != Secret("other")
    assert secret != TEXT
    assert secret
    assert not Secret("")
