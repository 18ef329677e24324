"""JSON text byte for byte as Spark writes it: Jackson's, without spaces, characters as they are.

Python differs from it in one point only: Jackson's escapes of control characters have upper-case digits.
"""

from __future__ import annotations

import json
import re
from typing import Any

# Two characters at a time, so that the second backslash of an escaped one starts nothing.
_ESCAPE = re.compile(r"\\(?:u00[01][0-9a-f]|.)")


def dump_json(value: Any) -> str:
    """The text of a value made of dicts, lists, strings, integers, booleans and None."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(lambda escape: escape[0][:2] + escape[0][2:].upper(), text)
