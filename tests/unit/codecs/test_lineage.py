"""The header of a delta with a unique id."""

from __future__ import annotations

import io
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore.codecs.lineage import (
    MAX_LINEAGE_BYTES,
    LineageItem,
    encode_header,
    fits,
    newest_that_fit,
    read_header,
    read_start,
)
from hdfsstore.codecs.records import Start
from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedVersionError
from tests.support.changelogs import UNKNOWN_LAYOUTS, WITHOUT_LAYOUT, utf

A, B = "0a6a1a4a-5e3c-4b5b-8a3e-0123456789ab", "f47ac10b-58cc-4372-a567-0e02b2c3d479"


def lineage_of(count: int, first: int = 1) -> list[LineageItem]:
    return [LineageItem(first + i, str(uuid.UUID(int=i))) for i in range(count)]


def test_bytes() -> None:
    assert encode_header([]) == b"\0\x02v3\0\x02[]"
    json = f'[{{"version":7,"checkpointUniqueId":"{A}"}},{{"version":8,"checkpointUniqueId":"{B}"}}]'
    assert encode_header([LineageItem(7, A), LineageItem(8, B)]) == utf("v3") + utf(json)


@given(st.integers(1, 1 << 40), st.lists(st.from_regex(r"[0-9a-fA-F-]+", fullmatch=True), max_size=20), st.binary())
def test_round_trip(first: int, ids: list[str], rest: bytes) -> None:
    lineage = [LineageItem(first + i, unique_id) for i, unique_id in enumerate(ids)]
    header = encode_header(lineage)
    stream = io.BytesIO(header + rest)
    assert read_header(stream, "f", first + len(ids)) == (lineage, Start(len(header)))
    assert stream.read() == rest


@pytest.mark.parametrize("first", [1, 995, 99_999])
def test_what_fits(first: int) -> None:
    lineage = lineage_of(2000, first)
    assert not fits(lineage)
    with pytest.raises(StateStoreError, match="65535"):
        encode_header(lineage)
    kept = newest_that_fit(lineage)
    assert kept == lineage[-len(kept) :]
    assert fits(kept)
    assert not fits(lineage[-len(kept) - 1 :])
    header = encode_header(kept)
    assert MAX_LINEAGE_BYTES - 100 < len(header) - 6 <= MAX_LINEAGE_BYTES
    assert read_header(io.BytesIO(header), "f", first + 2000) == (kept, Start(len(header)))


@pytest.mark.parametrize("slack", [-1, 0, 1])
def test_a_lineage_of_exactly_the_largest_size(slack: int) -> None:
    small = encode_header([LineageItem(1, "")])
    item = LineageItem(1, "a" * (MAX_LINEAGE_BYTES - (len(small) - 6) + slack))
    assert fits([item]) == (slack <= 0)
    assert newest_that_fit([item]) == ([item] if slack <= 0 else [])


def test_small_lineages_are_kept_whole() -> None:
    for lineage in ([], lineage_of(1), lineage_of(50)):
        assert fits(lineage)
        assert newest_that_fit(lineage) == lineage


def item(version: object = 1, unique_id: object = f'"{A}"') -> str:
    return f'{{"version":{version},"checkpointUniqueId":{unique_id}}}'


@pytest.mark.parametrize(
    ("lineage", "version"),
    [
        (f"[{item(1)}]", 3),  # ends too early
        (f"[{item(3)}]", 3),  # its own version
        (f"[{item(1)},{item(3)}]", 4),
        (f"[{item(2)},{item(1)}]", 3),
        (f"[{item(2)},{item(2)}]", 3),
        (f"[{item(0)}]", 1),
        (f"[{item(1)}", 2),
        (f"[{item('true')}]", 2),
        (f"[{item('1.0')}]", 2),
        (f"[{item(1, 7)}]", 2),
        (f"[{item(1, 'null')}]", 2),
        (f"[{item(1, chr(34) + '../../x' + chr(34))}]", 2),
        (f"[{item(1, chr(34) * 2)}]", 2),
        ('[{"version":1}]', 2),
        ("[1]", 2),
        ("{}", 2),
        ("7", 2),
        ("", 2),
        ("[" * 30_000, 2),
        ('[{"version":1,"checkpointUniqueId":"\u00e9"}]', 2),
    ],
)
def test_a_lineage_that_makes_no_sense(lineage: str, version: int) -> None:
    data = utf("v3") + len(lineage.encode()).to_bytes(2, "big") + lineage.encode()
    with pytest.raises(CorruptFileError, match="lineage") as caught:
        read_header(io.BytesIO(data), "f", version)
    assert caught.value.path == "f"
    assert caught.value.offset == 4


@pytest.mark.parametrize("cut", range(8))
def test_cut_off(cut: int) -> None:
    with pytest.raises(CorruptFileError, match="ends in its header") as caught:
        read_header(io.BytesIO(encode_header([])[:cut]), "f", 1)
    assert caught.value.offset == cut


@pytest.mark.parametrize("data", [b"\0\0\0\x18" + bytes(28), b"\xff\xff\xff\xff", utf("v3 ") + utf("[]"), utf("x3")])
def test_no_header(data: bytes) -> None:
    with pytest.raises(CorruptFileError):
        read_header(io.BytesIO(data), "f", 1)


@pytest.mark.parametrize("layout", ["v1", "v2", "v4", "v12"])
def test_other_layouts(layout: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{layout}.*v3") as caught:
        read_header(io.BytesIO(utf(layout) + utf("[]")), "f", 1)
    assert caught.value.path == "f"


@pytest.mark.parametrize("layout", ["v1", "v2", "v5", "v12"])
def test_layouts_that_no_changelog_with_a_unique_id_has(layout: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{layout}.*v3' or 'v4"):
        read_header(io.BytesIO(utf(layout) + utf("[]")), "f", 1, typed=True)


def test_records_with_types_and_a_lineage() -> None:
    header = encode_header(lineage_of(2)).replace(b"v3", b"v4")
    stream = io.BytesIO(header + b"rest")
    assert read_header(stream, "f", 3, typed=True) == (lineage_of(2), Start(len(header), typed=True))
    assert stream.read() == b"rest"


def test_records_with_types_without_a_unique_id() -> None:
    stream = io.BytesIO(utf("v2") + b"rest")
    assert read_start(stream, "f") == Start(4, typed=True)
    assert stream.read() == b"rest"


@pytest.mark.parametrize("content", WITHOUT_LAYOUT)
def test_what_spark_takes_for_records_without_types(content: bytes) -> None:
    stream = io.BytesIO(content)
    start = read_start(stream, "f")
    assert (start.size, start.typed) == (0, False)
    assert start.rest + stream.read() == content


@pytest.mark.parametrize("layout", [*UNKNOWN_LAYOUTS, "v3", "v4"])
def test_layouts_that_no_changelog_without_a_unique_id_has(layout: str) -> None:
    with pytest.raises(UnsupportedVersionError, match="layout") as caught:
        read_start(io.BytesIO(utf(layout) + bytes(10)), "f")
    assert (caught.value.path, caught.value.offset) == ("f", 0)
