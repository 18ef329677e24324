"""Cases: the undamaged inputs of a target, each damaged in some way that the seed and the case's number decide."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Lengths and counts that are negative, huge, or overflow when something is added or multiplied.
NUMBERS = (-1, 0, 1, 7, 8, 1 << 15, -(1 << 15), 1 << 25, 1 << 29, (1 << 31) - 1, (1 << 31) - 16, -(1 << 31), 1 << 62)
SNIPPETS = (
    *(b"[" * 100_000, b'{"":' * 100_000, b"9" * 5_000, b"-1", b"1e999", b"NaN", b"null", b"[]", b"{}", b'""', b"\n"),
    *(b'"\\ud800"', b"\xff\xfe", b"\xed\xa0\x80", b"\0" * 64, b"true", b"9223372036854775808"),
)


@dataclass(frozen=True)
class Input:
    """An undamaged input. Where it came from tells the target how to read it."""

    origin: str
    data: bytes


@dataclass(frozen=True)
class Case:
    """A damaged input.

    Attributes:
        index: of the input.
        small: whether the input was only cut, or one byte of it changed: what a checksum always finds.
    """

    index: int
    data: bytes
    small: bool


class Cases:
    """All cases of one seed and target: every cut and every byte in an order by chance, in turn with other damage."""

    def __init__(self, seed: int, target: str, inputs: Sequence[Input]) -> None:
        self._name = f"{seed}/{target}"
        self._inputs = inputs
        self._places = [(index, at) for index, i in enumerate(inputs) for at in range(len(i.data))]
        random.Random(self._name).shuffle(self._places)

    def __getitem__(self, number: int) -> Case:
        chance = random.Random(f"{self._name}/{number}")
        kind, turn = number % 3, number // 3
        if kind < 2 and turn < len(self._places):
            index, at = self._places[turn]
            data = self._inputs[index].data
            if kind == 0:
                return Case(index, data[:at], small=True)
            changed = data[at] ^ chance.choice((1, 0x80, 0xFF, chance.randrange(1, 256)))
            return Case(index, data[:at] + bytes((changed,)) + data[at + 1 :], small=True)
        index = chance.randrange(len(self._inputs))
        data = self._inputs[index].data
        for _ in range(chance.choice((1, 1, 2, 5))):
            data = chance.choice(DAMAGES)(chance, data, chance.choice(self._inputs).data)
        return Case(index, data, small=False)


def _number(chance: random.Random, data: bytes, _: bytes) -> bytes:
    size = chance.choice((2, 4, 4, 4, 8))
    at = chance.randrange(len(data) + 1)
    if chance.random() < 0.5:
        at -= at % 4
    number = chance.choice(NUMBERS) & ((1 << 8 * size) - 1)
    return data[:at] + number.to_bytes(size, chance.choice(("big", "little"))) + data[at + size :]


def _splice(chance: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)] + other[chance.randrange(len(other) + 1) :]


def _remove(chance: random.Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(chance, data)
    return data[:start] + data[end:]


def _repeat(chance: random.Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(chance, data)
    return data[:end] + data[start:end] * chance.choice((1, 1, 3, 20)) + data[end:]


def _noise(chance: random.Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(chance, data)
    return data[:start] + chance.randbytes(min(end - start, 64)) + data[end:]


def _fill(chance: random.Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(chance, data)
    return data[:start] + chance.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * (end - start) + data[end:]


def _snippet(chance: random.Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(chance, data)
    return data[:start] + chance.choice(SNIPPETS) + data[chance.choice((start, end)) :]


def _all_noise(chance: random.Random, data: bytes, _: bytes) -> bytes:
    return chance.randbytes(chance.randrange(2 * len(data) + 1))


def _range(chance: random.Random, data: bytes) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    longest = len(data) - start
    return start, start + chance.randrange(min(longest, chance.choice((8, 64, longest + 1))) + 1)


DAMAGES: tuple[Any, ...] = (_number, _number, _number, _splice, _remove, _repeat, _noise, _fill, _snippet, _all_noise)
