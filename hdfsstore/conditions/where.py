"""Parses the conditions of `--where`, a small part of SQL, and evaluates them on Arrow record batches.

    condition  = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" condition ")" | field | operand test
    test       = ( "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=" ) operand
               | [ "not" ] "in" "(" literal { "," literal } ")"
               | [ "not" ] "like" string                        -- % any text, _ any character
               | "is" [ "not" ] ( "null" | "nan" )
    operand    = field | literal
    field      = name { "." name }       -- name: letters, digits and _, or any text between " or `
    literal    = number | 'string' | true | false | date 'Y-M-D' | timestamp 'Y-M-D h:m:s' | time 'h:m:s' | x'hex'

A field that stands alone is a boolean. As in SQL, a comparison with null is neither true nor false, and rows for which
the condition is not true are left out. Dates and timestamps may be plain strings; a timestamp without a zone is UTC.

The project parses this itself, because pyarrow evaluates expressions but parses none. DuckDB would parse and evaluate
it, but it is an extra (`sql`): filtering rows must need no more than pyarrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.conditions.fields import ConditionError, Field, Literal, Mask, find_field

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<bytes>[xX]'[0-9a-fA-F]*')
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"[^"]*"|`[^`]*`)
      | (?P<name>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[=<>().,])
    )""",
    re.VERBOSE,
)
_COMPARE = {
    "=": pc.equal,
    "==": pc.equal,
    "!=": pc.not_equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}

_PARSE: dict[str, Callable[[str], date | datetime | time]] = {
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
    "time": time.fromisoformat,
}


def parse_condition(text: str, schema: pa.Schema) -> Mask:
    """Parses a condition for batches of the schema. Raises ConditionError."""
    mask = _parse(text, schema)[1]
    try:  # A batch without rows shows whether Arrow can compare the types of the fields.
        mask(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema))
    except pa.ArrowException as error:
        raise ConditionError(str(error)) from None
    return mask


def fields_of(text: str, schema: pa.Schema) -> list[Field]:
    """The fields that a condition compares. Raises ConditionError."""
    return _parse(text, schema)[0].fields


def equal_values(text: str, schema: pa.Schema, column: str) -> dict[tuple[int, ...], pa.Scalar]:
    """The values that fields of a column have in all rows of a condition, by their places on each level.

    A condition with `or` or `not` tells none. Raises ConditionError.
    """
    parser = _parse(text, schema)[0]
    if any(kind == "name" and word.lower() in ("or", "not") for kind, word, _ in parser.tokens):
        return {}
    return {field.path: value for field, value in parser.equal if field.names[0] == column}


def _parse(text: str, schema: pa.Schema) -> tuple[_Parser, Mask]:
    parser = _Parser(text, schema)
    mask = parser.condition()
    parser.end()
    return parser, mask


class _Parser:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self.schema = schema
        self.equal: list[tuple[Field, pa.Scalar]] = []
        self.fields: list[Field] = []
        self.text = text
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while text[at:].strip():
            token = _TOKEN.match(text, at)
            if token is None:
                at += len(text[at:]) - len(text[at:].lstrip())
                raise ConditionError(f"cannot read {text[at:]!r} (character {at + 1})")
            kind = token.lastgroup or ""
            self.tokens.append((kind, token[kind], token.start(kind)))
            at = token.end()
        self.tokens.append(("end", "", len(text)))
        self.next = 0

    def condition(self) -> Mask:
        left = self.all()
        while self.take_word("or"):
            left = _both(pc.or_kleene, left, self.all())
        return left

    def all(self) -> Mask:
        left = self.one()
        while self.take_word("and"):
            left = _both(pc.and_kleene, left, self.one())
        return left

    def one(self) -> Mask:
        if self.take_word("not"):
            return _not(self.one())
        if self.take("("):
            inner = self.condition()
            self.expect(")")
            return inner
        return self.test(self.operand())

    def test(self, left: Field | Literal) -> Mask:
        kind, sign, _ = self.tokens[self.next]
        if kind == "sign" and sign in _COMPARE:
            self.next += 1
            right = self.operand()
            mask = _compare(sign, left, right)
            for field, literal in ((left, right), (right, left)):
                if _COMPARE[sign] is pc.equal and isinstance(field, Field) and isinstance(literal, Literal):
                    self.equal.append((field, literal.fit(field)))
            return mask
        if isinstance(left, Literal):
            raise self.wrong("a comparison")
        if self.take_word("is"):
            negated = self.take_word("not")
            return _negate_if(negated, self.null_or_nan(left))
        negated = self.take_word("not")
        if self.take_word("in"):
            return _negate_if(negated, self.in_list(left))
        if self.take_word("like"):
            return _negate_if(negated, self.like(left))
        if negated:
            raise self.wrong("in or like")
        if not pa.types.is_boolean(left.type):
            raise self.wrong(f"a comparison: {left.name} is {left.type}")
        return left.of

    def null_or_nan(self, field: Field) -> Mask:
        if self.take_word("null"):
            return lambda batch: pc.is_null(field.of(batch))
        if not self.take_word("nan"):
            raise self.wrong("null or nan")
        if not pa.types.is_floating(field.type):
            raise ConditionError(f"{field.name} is {field.type}: only floating point numbers can be NaN")
        return lambda batch: pc.is_nan(field.of(batch))

    def in_list(self, field: Field) -> Mask:
        self.expect("(")
        tests = [_compare("=", field, self.literal())]
        while self.take(","):
            tests.append(_compare("=", field, self.literal()))
        self.expect(")")
        either = tests[0]
        for test in tests[1:]:
            either = _both(pc.or_kleene, either, test)
        return either

    def like(self, field: Field) -> Mask:
        pattern = self.literal()
        if not isinstance(pattern.value, str):
            raise ConditionError(f"like takes a string, not {pattern.text}")
        pattern.fit(field)
        return lambda batch: pc.match_like(field.of(batch), pattern=pattern.value)

    def operand(self) -> Field | Literal:
        kind, text, _ = self.tokens[self.next]
        follows = self.tokens[min(self.next + 1, len(self.tokens) - 1)][0]
        typed = text.lower() in ("date", "timestamp", "time") and follows == "string"
        if kind == "quoted" or (kind == "name" and not typed and text.lower() not in ("true", "false", "null")):
            return self.field()
        return self.literal()

    def field(self) -> Field:
        names = [self.name()]
        while self.take("."):
            names.append(self.name())
        self.fields.append(find_field(self.schema, names))
        return self.fields[-1]

    def name(self) -> str:
        kind, text, _ = self.tokens[self.next]
        if kind not in ("name", "quoted"):
            raise self.wrong("a field")
        self.next += 1
        return text if kind == "name" else text[1:-1]

    def literal(self) -> Literal:
        kind, text, _ = self.tokens[self.next]
        self.next += 1
        if kind == "number":
            return Literal(text, int(text) if text.lstrip("+-").isdigit() else Decimal(text))
        if kind == "string":
            return Literal(text, text[1:-1].replace("''", "'"))
        if kind == "bytes" and len(text) % 2:
            return Literal(text, bytes.fromhex(text[2:-1]))
        if kind == "name" and text.lower() in ("true", "false"):
            return Literal(text, text.lower() == "true")
        follows, string, _ = self.tokens[min(self.next, len(self.tokens) - 1)]
        parse = _PARSE.get(text.lower())
        if kind == "name" and follows == "string" and parse is not None:
            self.next += 1
            try:
                return Literal(f"{text} {string}", parse(string[1:-1]))
            except ValueError as error:
                raise ConditionError(f"{text} {string}: {error}") from None
        self.next -= 1
        if text.lower() == "null":
            raise ConditionError("nothing is equal to null: write `is null` or `is not null`")
        raise self.wrong("a field, a number or a 'string'")

    def take(self, sign: str) -> bool:
        if self.tokens[self.next][:2] != ("sign", sign):
            return False
        self.next += 1
        return True

    def take_word(self, word: str) -> bool:
        kind, text, _ = self.tokens[self.next]
        if kind != "name" or text.lower() != word:
            return False
        self.next += 1
        return True

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise self.wrong(sign)

    def end(self) -> None:
        if self.tokens[self.next][0] != "end":
            raise self.wrong("and, or, or the end")

    def wrong(self, expected: str) -> ConditionError:
        kind, text, at = self.tokens[self.next]
        where = "at the end" if kind == "end" else f"at {text!r} (character {at + 1})"
        return ConditionError(f"expected {expected} {where}")


def _compare(sign: str, left: Field | Literal, right: Field | Literal) -> Mask:
    compare = _COMPARE[sign]
    if isinstance(left, Field):
        if isinstance(right, Field):
            return lambda batch: compare(left.of(batch), right.of(batch))
        constant = right.fit(left)
        return lambda batch: compare(left.of(batch), constant)
    if isinstance(right, Field):
        constant = left.fit(right)
        return lambda batch: compare(constant, right.of(batch))
    raise ConditionError(f"{left.text} {sign} {right.text} compares no field")


def _both(combine: Callable[..., Any], left: Mask, right: Mask) -> Mask:
    return lambda batch: combine(left(batch), right(batch))


def _not(mask: Mask) -> Mask:
    return lambda batch: pc.invert(mask(batch))


def _negate_if(negated: bool, mask: Mask) -> Mask:
    return _not(mask) if negated else mask
