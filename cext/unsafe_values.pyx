"""Values of the variable-length part of UnsafeRows and UnsafeArrayData; unsafe_layout.pxd has the layout.

A span is an (offset, size) pair of int32 in a pyarrow buffer; size -1 is a null.
"""

import pyarrow as pa

from hdfsstore.errors import SchemaMismatchError

from unsafe_layout cimport *

cdef int64_t MAX_MICROS = 9223372036854775  # that int64 nanoseconds hold

# Reads and writes strings and binaries.
include "unsafe/bytes.pxi"
# Reads and writes decimals of more than 18 digits.
include "unsafe/decimal.pxi"
# Reads and writes calendar intervals.
include "unsafe/interval.pxi"
# Reads and writes variants and maps, each a pair of values.
include "unsafe/pair.pxi"


def validity_of(spans, int64_t null_count):
    """The validity bitmap of spans, None where none is null."""
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, n = spans.size // 8
    cdef uint8_t* bits
    if not null_count:
        return None
    buffer = zeroed(pa.allocate_buffer((n + 7) // 8))
    bits = address(buffer)
    with nogil:
        for r in range(n):
            if s[2 * r + 1] >= 0:
                set_bit(bits, r)
    return buffer


cdef mismatch(str what, str path, int64_t offset):
    return SchemaMismatchError(
        f"field {path!r} does not fit the schema: {what}",
        offset=offset,
        remedy="Check the schema, or pass the one that the state was written with",
    )


def fixed_sizes(int64_t count, int64_t first, validity, int32_t size):
    """`size` for each value, -1 for a null, as a buffer of int32."""
    cdef const uint8_t* bits = address(validity)
    cdef int64_t r
    cdef int32_t* out
    result = pa.allocate_buffer(4 * count)
    out = <int32_t*> address(result)
    with nogil:
        for r in range(count):
            out[r] = size if bits == NULL or get_bit(bits, first + r) else -1
    return result


def lay_out(sizes):
    """Room for values of these sizes, one after the other.

    Returns:
        (arrow type, null_count, [validity or None, offsets, zeros]) of a binary array that long, a large one where an
        int32 does not tell its offsets, and the values' places in it as int64, -1 for a null.
    """
    cdef const int32_t* size = <const int32_t*> address(sizes)
    cdef int64_t r, n = sizes.size // 4, total = 0, null_count = 0
    cdef int64_t* places
    cdef int64_t* long_offsets
    cdef int32_t* offsets
    cdef uint8_t* bits
    place_buffer = pa.allocate_buffer(8 * n)
    places = <int64_t*> address(place_buffer)
    with nogil:
        for r in range(n):
            if size[r] < 0:
                places[r] = -1
                null_count += 1
            else:
                places[r] = total
                total += size[r]
    large = total > INT32_MAX
    offset_buffer = pa.allocate_buffer((8 if large else 4) * (n + 1))
    long_offsets = <int64_t*> address(offset_buffer) if large else NULL
    offsets = <int32_t*> address(offset_buffer)
    validity = zeroed(pa.allocate_buffer((n + 7) // 8)) if null_count else None
    bits = address(validity)
    out = zeroed(pa.allocate_buffer(total))
    total = 0
    with nogil:
        for r in range(n + 1):
            if long_offsets != NULL:
                long_offsets[r] = total
            else:
                offsets[r] = <int32_t> total
            if r < n and size[r] >= 0:
                total += size[r]
                if bits != NULL:
                    set_bit(bits, r)
    return pa.large_binary() if large else pa.binary(), null_count, [validity, offset_buffer, out], place_buffer
