"""Schema files of each version and layout, and damaged ones."""

from __future__ import annotations

import pytest

from hdfsstore import CorruptFileError, StateStoreError, UnsupportedVersionError
from hdfsstore.checkpoint.state_schema import parse_state_schema
from hdfsstore.codecs.types import LongType, StringType, StructField, StructType, parse_type
from tests.unit.checkpoint.build import KEY, VALUE, long_json, schema_v1, schema_v2, schema_v3, utf

KEY_TYPE = StructType((StructField("k", StringType()),))
VALUE_TYPE = StructType((StructField("n", LongType(), nullable=False),))


@pytest.mark.parametrize("data", [schema_v1(), schema_v2()])
def test_versions_1_and_2(data: bytes) -> None:
    (family,) = parse_state_schema(data, "f")
    assert (family.name, family.key_type, family.value_type) == ("default", KEY_TYPE, VALUE_TYPE)
    assert (family.key_encoder, family.user_key_type) == ({}, None)


@pytest.mark.parametrize(("ids", "read"), [(None, (0, 0)), ((0, 0), (0, 0)), ((1, 3), (1, 3))])
def test_version_3_in_both_layouts(ids: tuple[int, int] | None, read: tuple[int, int]) -> None:
    families = parse_state_schema(schema_v3("default", "$procTimers", "s", ids=ids), "f")
    assert [family.name for family in families] == ["default", "$procTimers", "s"]
    for family in families:
        assert (family.key_type, family.value_type) == (KEY_TYPE, VALUE_TYPE)
        assert (family.key_schema_id, family.value_schema_id) == read
        assert family.key_encoder == {"keyStateEncoderType": "PrefixKeyScanStateEncoderSpec", "numColsPrefixKey": 1}
        assert family.user_key_type is None


@pytest.mark.parametrize("ids", [None, (0, 0)])
def test_version_3_with_user_keys_and_without_families(ids: tuple[int, int] | None) -> None:
    (family,) = parse_state_schema(schema_v3("map", ids=ids, user_key=KEY), "f")
    assert family.user_key_type == KEY_TYPE
    assert parse_state_schema(schema_v3(ids=ids), "f") == []


def test_long_schemas_and_any_character() -> None:
    # One of the two piece sizes cuts pairs of surrogates in two.
    names = ["a\0b", "😀" * 30_000, "é\u2028", "x" * 70_000]
    key = parse_type({"type": "struct", "fields": [field(name) for name in names]})
    text = '{"type":"struct","fields":[' + ",".join(map(field_json, names)) + "]}"
    for chunk in (20_000, 20_001):
        (family,) = parse_state_schema(utf("v2") + long_json(text, chunk) + long_json(VALUE), "f")
        assert family.key_type == key


def field(name: str) -> dict[str, object]:
    return {"name": name, "type": "string", "nullable": True, "metadata": {}}


def field_json(name: str) -> str:
    escaped = name.replace("\0", "\\u0000")
    return f'{{"name":"{escaped}","type":"string","nullable":true,"metadata":{{}}}}'


def test_zero_character_in_two_bytes() -> None:
    assert b"\xc0\x80" in schema_v3("a\0b", ids=(0, 0))
    assert parse_state_schema(schema_v3("a\0b", ids=(0, 0)), "f")[0].name == "a\0b"


def test_newer_version() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"version 4 .* version 3") as caught:
        parse_state_schema(utf("v4") + b"anything", "the/file")
    assert caught.value.path == "the/file"


DAMAGED = {
    "empty": b"",
    "no version": utf("x") + long_json(KEY),
    "value missing": utf("v2") + long_json(KEY),
    "more bytes": schema_v2() + b"\0",
    "not a struct": schema_v2(key='"long"'),
    "not JSON": schema_v2(key="{"),
    "deep": utf("v2") + long_json("[" * 100_000) + long_json(VALUE),
    "deep struct": utf("v2") + long_json('{"type":' * 20_000) + long_json(VALUE),
    "count of 2 billion": utf("v2") + b"\x7f\xff\xff\xff",
    "negative count": utf("v2") + b"\xff\xff\xff\xff" + long_json(KEY) + long_json(VALUE),
    "families of 2 billion": utf("v3") + b"\x7f\xff\xff\xff",
    "negative families": utf("v3") + b"\xff\xff\xff\xff",
    "half a pair": utf("v3") + b"\0\0\0\1" + b"\0\3\xed\xa0\xbd",
    "not UTF-8": utf("v2") + b"\0\0\0\1\0\2\xff\xfe" + long_json(VALUE),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged(data: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        parse_state_schema(data, "the/file")
    assert caught.value.path == "the/file"
    assert caught.value.offset is not None


@pytest.mark.parametrize(
    "data", [schema_v1(), schema_v2(), schema_v3("a", "b", ids=(0, 0)), schema_v3("a", "b", ids=None)]
)
def test_every_cut_is_found_and_every_changed_byte_read_or_a_typed_error(data: bytes) -> None:
    for at in range(len(data)):
        with pytest.raises(CorruptFileError):
            parse_state_schema(data[:at], "f")
    failed = 0
    for at in range(len(data)):
        for bit in (0x01, 0x10, 0x80):
            try:
                parse_state_schema(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :], "f")
            except StateStoreError:
                failed += 1
    assert failed > len(data)
