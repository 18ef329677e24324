"""The bytes around rows in keys and values of Spark's RocksDB (RocksDBStateEncoder, StateStoreRowChecksum of Spark).

    list value        int32 LE size | that many bytes: an element; the next element follows after a comma, or at once
    checksummed       int32 LE CRC-32C(key, bytes) | int32 LE size | that many bytes; values that were merged follow
                      in the same way
    two parts         int32 LE size | that many bytes: the first part | the second part
    timestamp         int64 BE, its sign bit flipped
    ordered number    byte 0 negative, 1 not negative, 2 null | big-endian bytes; floats: all bits flipped if negative

Spans are pairs of native int32 (offset in the data, size); size -1 is null, and stays so.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

import pyarrow as pa

from byteorder cimport load_le32, store_be32
from copy_bytes cimport copy_bytes
from crc32c_inline cimport crc32c_update
from prefix cimport begins_with, prefix_error
from unsafe_layout cimport address, get_bit, set_bit, zeroed

from hdfsstore.errors import CorruptFileError, SizeLimitError

cdef enum:
    COMMA = 44
    NEGATIVE = 0
    NULL_MARKER = 2

cdef struct Input:
    const uint8_t* data
    int64_t data_size
    const int32_t* spans
    int64_t count


cdef Input input_of(data, spans):
    """The spans, each of which lies in the data. CorruptFileError: one does not."""
    cdef Input result
    cdef int64_t i, bad = -1
    result.data = address(data)
    result.data_size = min(<int64_t> data.size, INT32_MAX)
    result.spans = <const int32_t*> address(spans)
    result.count = spans.size // 8
    with nogil:
        for i in range(result.count):
            if result.spans[2 * i + 1] >= 0 and (
                result.spans[2 * i] < 0 or <int64_t> result.spans[2 * i] + result.spans[2 * i + 1] > result.data_size
            ):
                bad = i
                break
    if bad >= 0:
        raise CorruptFileError(f"a key or value lies outside of the {result.data_size} bytes of its block")
    return result


def strip(data, spans, bytes prefix not None):
    """The spans after `prefix`, with which each of them begins: a family's id, and the encoding's version 0.

    Raises:
        CorruptFileError: one does not begin like that; `offset` counts in the data.
        UnsupportedVersionError: one has another version, in the last byte of the prefix.
    """
    cdef Input source = input_of(data, spans)
    cdef const uint8_t* begin = prefix
    cdef int32_t length = <int32_t> len(prefix), offset, size
    cdef int64_t i, bad = -1
    cdef int32_t* out
    result = pa.allocate_buffer(8 * source.count)
    out = <int32_t*> address(result)
    with nogil:
        for i in range(source.count):
            offset, size = source.spans[2 * i], source.spans[2 * i + 1]
            if size < 0:
                out[2 * i] = 0
                out[2 * i + 1] = -1
            elif size < length or not begins_with(source.data + offset, begin, length):
                bad = i
                break
            else:
                out[2 * i] = offset + length
                out[2 * i + 1] = size - length
    if bad < 0:
        return result
    raise prefix_error(source.data, source.spans[2 * bad], source.spans[2 * bad + 1], prefix)


def begin_with(data, spans, bytes prefix not None):
    """The numbers of the spans that begin with `prefix`, as a buffer of int64."""
    cdef Input source = input_of(data, spans)
    cdef const uint8_t* begin = prefix
    cdef int32_t length = <int32_t> len(prefix)
    cdef int64_t i, count = 0
    cdef int64_t* out
    result = pa.allocate_buffer(8 * source.count)
    out = <int64_t*> address(result)
    with nogil:
        for i in range(source.count):
            if source.spans[2 * i + 1] >= length and begins_with(source.data + source.spans[2 * i], begin, length):
                out[count] = i
                count += 1
    return result.slice(0, 8 * count)


def split(data, spans):
    """The spans of the first and of the second part of each key.

    Raises:
        CorruptFileError: the first part is longer than the key.
    """
    cdef Input source = input_of(data, spans)
    cdef int64_t i, bad = -1, size
    cdef int32_t offset
    cdef int32_t* first_out
    cdef int32_t* second_out
    first = pa.allocate_buffer(8 * source.count)
    second = pa.allocate_buffer(8 * source.count)
    first_out = <int32_t*> address(first)
    second_out = <int32_t*> address(second)
    with nogil:
        for i in range(source.count):
            offset = source.spans[2 * i]
            size = <int32_t> load_le32(source.data + offset) if source.spans[2 * i + 1] >= 4 else -1
            if size < 0 or size > source.spans[2 * i + 1] - 4:
                bad = i
                break
            first_out[2 * i] = offset + 4
            first_out[2 * i + 1] = <int32_t> size
            second_out[2 * i] = offset + 4 + <int32_t> size
            second_out[2 * i + 1] = source.spans[2 * i + 1] - 4 - <int32_t> size
    if bad >= 0:
        raise CorruptFileError("a key has no prefix of its declared length", offset=source.spans[2 * bad])
    return first, second


def read_timestamps(data, spans, bint at_end):
    """The timestamps at the end or the begin of keys as a buffer of int64, and the spans of the rest.

    Raises:
        CorruptFileError: a key is shorter than a timestamp.
    """
    cdef Input source = input_of(data, spans)
    cdef int64_t i, bad = -1
    cdef int32_t offset, size, skipped = 0 if at_end else 8
    cdef int32_t* out
    cdef uint64_t* values_out
    rest = pa.allocate_buffer(8 * source.count)
    values = pa.allocate_buffer(8 * source.count)
    out = <int32_t*> address(rest)
    values_out = <uint64_t*> address(values)
    with nogil:
        for i in range(source.count):
            offset = source.spans[2 * i]
            size = source.spans[2 * i + 1]
            if size < 8:
                bad = i
                break
            values_out[i] = load_be(source.data + offset + (size - 8 if at_end else 0), 8) ^ (<uint64_t> 1 << 63)
            out[2 * i] = offset + skipped
            out[2 * i + 1] = size - 8
    if bad >= 0:
        raise CorruptFileError("a key is too short for its timestamp", offset=source.spans[2 * bad])
    return values, rest


def write_timestamps(values, int64_t first, int64_t count):
    """The 8 bytes of each timestamp of an Arrow buffer of int64, from the value `first` on."""
    cdef const uint64_t* source = <const uint64_t*> address(values) + first
    cdef int64_t i
    cdef uint8_t* out
    result = pa.allocate_buffer(8 * count)
    out = address(result)
    with nogil:
        for i in range(count):
            store_be(out + 8 * i, source[i] ^ (<uint64_t> 1 << 63), 8)
    return result


def read_ordered(offsets, data, int64_t first, int64_t count, int width, bint floating):
    """The numbers of an ordered column.

    Args:
        offsets, data, first, count: of an Arrow binary array.
        width: of a number in bytes.

    Returns:
        (null_count, validity or None, values), Arrow's.

    Raises:
        CorruptFileError: a number has another size or marker.
    """
    cdef const int32_t* starts = <const int32_t*> address(offsets) + first
    cdef const uint8_t* bytes_ = address(data)
    cdef const uint8_t* p
    cdef int64_t i, bad = -1, nulls = 0
    cdef uint64_t word
    cdef uint8_t* out
    cdef uint8_t* bits
    values = zeroed(pa.allocate_buffer(width * count))
    validity = zeroed(pa.allocate_buffer((count + 7) // 8))
    out = address(values)
    bits = address(validity)
    with nogil:
        for i in range(count):
            p = bytes_ + starts[i]
            if starts[i + 1] - starts[i] != width + 1 or p[0] > NULL_MARKER:
                bad = i
                break
            if p[0] == NULL_MARKER:
                nulls += 1
                continue
            set_bit(bits, i)
            word = load_be(p + 1, width)
            store_le(out + width * i, ~word if floating and p[0] == NEGATIVE else word, width)
    if bad >= 0:
        raise CorruptFileError(f"a column by which keys are ordered is no marker and number of {width} bytes")
    return nulls, validity if nulls else None, values


def write_ordered(values, validity, int64_t first, int64_t count, int width, bint floating):
    """The bytes of numbers, width + 1 for each; the arguments are those of an Arrow array."""
    cdef const uint8_t* source = address(values) + width * first
    cdef const uint8_t* bits = address(validity)
    cdef uint8_t* out
    cdef int64_t i
    cdef uint64_t word
    cdef bint negative
    result = zeroed(pa.allocate_buffer((width + 1) * count))
    out = address(result)
    with nogil:
        for i in range(count):
            if bits != NULL and not get_bit(bits, first + i):
                out[0] = NULL_MARKER
            else:
                word = load_le(source + width * i, width)
                negative = (word >> (8 * width - 1)) & 1
                out[0] = not negative
                store_be(out + 1, ~word if floating and negative else word, width)
            out += width + 1
    return result


cdef inline uint64_t load_be(const uint8_t* p, int width) noexcept nogil:
    cdef uint64_t word = 0
    cdef int i
    for i in range(width):
        word = word << 8 | p[i]
    return word


cdef inline void store_be(uint8_t* p, uint64_t word, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        p[i] = <uint8_t> (word >> (8 * (width - 1 - i)))


cdef inline uint64_t load_le(const uint8_t* p, int width) noexcept nogil:
    cdef uint64_t word = 0
    cdef int i
    for i in range(width):
        word |= <uint64_t> p[i] << (8 * i)
    return word


cdef inline void store_le(uint8_t* p, uint64_t word, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        p[i] = <uint8_t> (word >> (8 * i))


# Cuts values into the elements that were joined.
include "rocksdb_rows/joined.pxi"
# Writes rows as keys and values.
include "rocksdb_rows/stored.pxi"
