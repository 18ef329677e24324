"""Divides keys into equal parts, so that what is too much for the memory is read in a pass for each part."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hdfsstore._cext.records import spans_of_part
from hdfsstore.codecs.records import RecordChunk

# With less, the time of a pass is better spent.
LEAST_MEMORY = 4 << 20


@dataclass(frozen=True, slots=True)
class KeyPart:
    """Keys whose hashes are in one of equal parts of all hashes.

    Attributes:
        number: of the part, from 0.
        parts: how many there are.
    """

    number: int = 0
    parts: int = 1

    def of(self, chunk: RecordChunk) -> RecordChunk:
        """The records of the part. Deletions of ranges of keys are in every part."""
        if self.parts == 1:
            return chunk
        places = spans_of_part(chunk.data, chunk.keys, chunk.kinds, self.number, self.parts)
        return chunk.take(pa.Array.from_buffers(pa.int64(), places.size // 8, [None, places]))


ALL_PARTS = KeyPart()


def parts_for(size: int, memory: int) -> list[KeyPart]:
    """As many parts of keys that take `size` bytes as fit into the memory one by one."""
    parts = max(-(-size // max(memory, LEAST_MEMORY)), 1)
    return [KeyPart(number, parts) for number in range(parts)]
