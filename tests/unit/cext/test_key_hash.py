"""The hash of keys: statistics of its own, of sets of keys that are made to collide, and of an image of such keys."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.maps import image_of, index_at

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and shutil.which("cc") is None, reason="the hash is compiled for these tests"
)

Bytes = npt.NDArray[np.uint8]
Hashes = npt.NDArray[np.uint64]
HashKeys = Callable[[Bytes, bytes], Hashes]

SEED_BYTES = 72
SEEDS = [np.random.default_rng(number).bytes(SEED_BYTES) for number in range(4)]
COUNT = 20_000
# Of hashes before this one: 2^64 divided by the golden ratio, and others that multiply-and-fold hashes are known for.
CONSTANTS = [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xBF58476D1CE4E5B9, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB]


def compiled(source: Path, target: Path, *flags: str) -> HashKeys:
    command = ["cc", "-O2", "-shared", "-fPIC", "-Wall", "-Wextra", "-Wconversion", "-Wno-sign-conversion", "-Werror"]
    here = Path(__file__).with_name("key_hash.c")
    subprocess.run([*command, *flags, f"-I{source}", "-o", str(target), str(here)], check=True)
    function = ctypes.CDLL(str(target)).hash_keys
    function.restype = None

    def hash_keys(keys: Bytes, seed: bytes) -> Hashes:
        keys = np.ascontiguousarray(keys)
        count, size = keys.shape
        out = np.empty(count, np.uint64)
        address = ctypes.c_void_p
        function(address(keys.ctypes.data), ctypes.c_int64(count), ctypes.c_int64(size), seed, address(out.ctypes.data))
        return out

    return hash_keys


@pytest.fixture(scope="module")
def source(pytestconfig: pytest.Config) -> Path:
    assert pytestconfig.inipath is not None
    return pytestconfig.inipath.parent / "cext" / "common"


@pytest.fixture(scope="module")
def hash_keys(source: Path, tmp_path_factory: pytest.TempPathFactory) -> HashKeys:
    return compiled(source, tmp_path_factory.mktemp("hash") / "key_hash.so")


def random_keys(count: int, size: int) -> Bytes:
    return np.random.default_rng(size).integers(0, 256, (count, size), np.uint8)


def words_of(size: int) -> npt.NDArray[np.uint64]:
    """Keys that are all the same, to be changed, as words."""
    keys = np.tile(random_keys(1, size), (COUNT, 1))
    return keys.view("<u8")


NUMBERS = np.arange(COUNT, dtype=np.uint64)


def differing_in(size: int, places: list[int]) -> Bytes:
    """Keys that are alike but for a few bytes, which count."""
    keys = np.tile(random_keys(1, size), (COUNT, 1))
    number = NUMBERS.copy()
    for at in places:
        keys[:, at] = number & np.uint64(0xFF)
        number >>= np.uint64(8)
    return keys


def flood() -> Bytes:
    """Keys of 80 bytes that differ in the highest byte of the first word of each 16 bytes."""
    return differing_in(80, [7, 23, 39, 55, 71])


def structured(source: Path) -> Iterator[tuple[str, Bytes]]:
    for size, first in ((16, 7), (40, 7), (40, 15), (80, 7), (80, 15), (200, 7), (200, 15)):
        places = list(range(first, size, 16))
        yield f"highest bytes from {first} on, {size}", differing_in(size, places if len(places) > 1 else [*places, 0])
    for size, step in ((16, 1), (24, 1), (40, 1), (200, 3)):
        for at in range(0, size - 1, step):
            yield f"bytes {at} and {at + 1} of {size}", differing_in(size, [at, at + 1])
    for size in (16, 40, 200):
        for top in (True, False):
            words = words_of(size)
            bits = max(-(-15 // (size // 8)), 1)
            for i in range(size // 8):
                part = (NUMBERS >> np.uint64(i * bits)) & np.uint64((1 << bits) - 1)
                words[:, i] ^= part << np.uint64(64 - bits if top else 0)
            yield f"{'highest' if top else 'lowest'} bits of each word of {size}", words.view(np.uint8)
    blocks = random_keys(8, 16)
    orders = np.array(list(itertools.islice(itertools.permutations(range(8)), 0, 2 * COUNT, 2)))
    yield "blocks that change places", blocks[orders].reshape(COUNT, 128)
    words8 = random_keys(8, 8)
    yield "words that change places", words8[orders].reshape(COUNT, 64)
    for size in (32, 96):
        for first, second in ((0, 1), (0, 2), (1, 3), (1, 2)):
            for name, other in (("sums", np.negative(NUMBERS)), ("differences", NUMBERS)):
                words = words_of(size)
                words[:, first] += NUMBERS << np.uint64(40)
                words[:, second] += other << np.uint64(40)
                yield f"{name} of words {first} and {second} that cancel, {size}", words.view(np.uint8)
            words = words_of(size)
            words[:, first] ^= NUMBERS
            words[:, second] ^= NUMBERS
            yield f"words {first} and {second} changed alike, {size}", words.view(np.uint8)
    here = [int(number, 0) for number in re.findall(r"\b(?:0x[0-9A-F]+|\d+)\b", (source / "key_hash.h").read_text())]
    constants = {constant & (1 << 64) - 1 for known in {*CONSTANTS, *here} for constant in (known, ~known, -known)}
    for constant in sorted(constants):
        for size, at in ((16, 0), (16, 1), (40, 0), (40, 3), (40, 4), (112, 2), (112, 5), (112, 13)):
            words = words_of(size)
            words[:, at] = np.uint64(constant)
            words[:, at ^ 1 if at ^ 1 < size // 8 else at - 1] = NUMBERS
            yield f"word {at} of {size} is {constant:#x}, and another one counts", words.view(np.uint8)


def unevenness(places: Hashes, num_places: int) -> float:
    """Chi-squared of how many hashes each place has, in standard deviations from what is expected by chance."""
    counts = np.bincount(places.astype(np.int64), minlength=num_places)
    expected = len(places) / num_places
    return float((((counts - expected) ** 2 / expected).sum() - (num_places - 1)) / (2 * num_places) ** 0.5)


@pytest.mark.parametrize("seed", SEEDS[:2], ids=range(2))
@pytest.mark.parametrize("size", [2, 3, 4, 7, 8, 12, 16, 17, 24, 33, 40, 48, 49, 64, 100, 200])
def test_each_bit_of_a_key_changes_each_bit_of_the_hash_half_of_the_time(
    hash_keys: HashKeys, size: int, seed: bytes
) -> None:
    keys = random_keys(512, size)
    before = hash_keys(keys, seed)
    for bit in range(8 * size):
        changed = keys.copy()
        changed[:, bit // 8] ^= 1 << bit % 8
        changes = before ^ hash_keys(changed, seed)
        share = np.unpackbits(changes.view(np.uint8).reshape(512, 8), axis=1).mean(axis=0)
        assert share.min() > 0.35, (size, bit)
        assert share.max() < 0.65, (size, bit)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", SEEDS, ids=range(4))
def test_keys_that_are_made_to_collide_do_not(hash_keys: HashKeys, source: Path, seed: bytes) -> None:
    for name, keys in structured(source):
        hashes = hash_keys(keys, seed)
        assert len(np.unique(hashes)) == COUNT, name
        for shift in (0, 12, 20, 32, 52):  # the lowest and the highest bits place keys in tables, others are kept there
            assert unevenness((hashes >> np.uint64(shift)) & np.uint64(0xFFF), 4096) < 6, (name, shift)


@pytest.mark.parametrize("seed", SEEDS, ids=range(4))
def test_sizes_count(hash_keys: HashKeys, seed: bytes) -> None:
    """Zeros, of which there may be more or fewer."""
    hashes = {int(hash_keys(np.zeros((1, size), np.uint8), seed)[0]) for size in range(3_000)}
    assert len(hashes) == 3_000


def test_seeds_give_other_hashes(hash_keys: HashKeys) -> None:
    """Each bit of the seed counts."""
    for keys in (random_keys(1, 16), random_keys(1, 200)):
        seed = np.frombuffer(SEEDS[0], np.uint8)
        hashes = {int(hash_keys(keys, SEEDS[0])[0])}
        for bit in range(8 * SEED_BYTES):
            changed = seed.copy()
            changed[bit // 8] ^= 1 << bit % 8
            hashes.add(int(hash_keys(keys, changed.tobytes())[0]))
        # Of a short key three seeds are one, and the three for whole blocks have nothing to do.
        assert len(hashes) == 1 + 64 * (4 if keys.shape[1] == 16 else 9)


def test_processors_without_a_wide_product_have_the_same_hashes(
    hash_keys: HashKeys, source: Path, tmp_path: Path
) -> None:
    portable = compiled(source, tmp_path / "portable.so", "-U__SIZEOF_INT128__")
    for size in (0, 1, 5, 8, 15, 16, 40, 200):
        keys = random_keys(1_000, size)
        assert (portable(keys, SEEDS[0]) == hash_keys(keys, SEEDS[0])).all()


def test_an_image_of_keys_that_are_made_to_collide_finds_them_as_quickly_as_others(hash_keys: HashKeys) -> None:
    for keys in (flood(), random_keys(COUNT, 80)):
        file = b"".join(image_of({key.tobytes(): b"" for key in keys}).parts(b""))
        num_slots = struct.unpack_from("<Q", file, 32)[0]
        homes = [int(h) * num_slots >> 64 for h in hash_keys(keys, file[112 : 112 + SEED_BYTES])]
        steps = 0
        for at, slot in enumerate(struct.unpack_from(f"<{num_slots}Q", file, index_at(file))):
            if slot:
                record = ((slot & (1 << 40) - 1) - 1) // 88
                steps += (at - homes[record]) % num_slots
        assert steps < 4 * COUNT
