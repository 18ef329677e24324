"""A value that must not be seen: a key, a token, a password."""

from __future__ import annotations

HIDDEN = "***"


class Secret:
    """A text that is shown nowhere, whatever prints, formats, joins or logs it. Only `reveal` returns it.

    It can be pickled, because settings travel to tasks; the pickle has the text. Two are equal if their texts are.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself, for the call that sends or signs with it. Do not keep it."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return format(HIDDEN, spec)

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        return Secret, (self._text,)
