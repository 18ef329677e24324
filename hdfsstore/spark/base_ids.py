"""The unique ids of a version's partitions, as they travel to the tasks: 16 bytes each.

Each task of a batch has those of all partitions. As texts they take 39 bytes each when they are pickled, and what
takes more than a mebibyte PySpark makes a broadcast variable of, for each batch, whose file it never deletes.
"""

from __future__ import annotations

from collections.abc import Sequence

_SIZE = 16
_NONE = bytes(_SIZE)


class BaseIds:
    """Ids by partition; None for a version without.

    Args:
        ids: UUIDs as uuid.uuid4() gives them take 16 bytes each; any other id makes all of them travel as they are.
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
    """None where the id is no UUID in lower case with its four hyphens."""
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
