"""Packs the unique ids of a version's partitions for the tasks: 16 bytes each.

Each task of a batch gets the ids of all partitions. As text an id takes 39 bytes when it is pickled. If a pickled
function takes more than a mebibyte, PySpark makes it a broadcast variable for each batch, and never deletes its file.
"""

from __future__ import annotations

from collections.abc import Sequence

_SIZE = 16
_NONE = bytes(_SIZE)


class BaseIds:
    """Unique ids by partition. None: the version has no id.

    Args:
        ids: a UUID as uuid.uuid4() makes it takes 16 bytes. If one id is not such a UUID, none of them is packed.
    """

    def __init__(self, ids: Sequence[str | None]) -> None:
        packed = [_packed(unique_id) for unique_id in ids]
        whole = [each for each in packed if each is not None]
        self._ids: bytes | tuple[str | None, ...] = b"".join(whole) if len(whole) == len(packed) else tuple(ids)

    def __getitem__(self, partition_id: int) -> str | None:
        if isinstance(self._ids, tuple):
            return self._ids[partition_id]
        return _text(self._ids[_SIZE * partition_id : _SIZE * (partition_id + 1)])


def _packed(unique_id: str | None) -> bytes | None:
    """None if the id is not a UUID in lower case with four hyphens."""
    if unique_id is None:
        return _NONE
    try:
        packed = bytes.fromhex(unique_id.replace("-", ""))
    except ValueError:
        return None
    return packed if len(packed) == _SIZE and _text(packed) == unique_id else None


def _text(packed: bytes) -> str | None:
    if packed == _NONE:
        return None
    text = packed.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
