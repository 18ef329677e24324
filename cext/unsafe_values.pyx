"""Values of the variable-length part of UnsafeRows and UnsafeArrayData; unsafe_layout.pxd has the layout.

A span is an (offset, size) pair of int32 in a pyarrow buffer; size -1 is a null.
"""

import pyarrow as pa

from hdfsstore.errors import SchemaMismatchError

from unsafe_layout cimport *

cdef int64_t MAX_MICROS = 9223372036854775  # that int64 nanoseconds hold


cdef inline void copy_short(uint8_t* out, const uint8_t* source, int64_t size, int64_t readable) noexcept nogil:
    """Copies size bytes, by 16 at a time while they are few: at most 15 bytes too many, which `out` has room for and
    `readable`, the bytes from source to the end of its buffer, allows."""
    cdef int64_t i = 0
    if size > 64 or ((size + 15) & ~<int64_t> 15) > readable:
        memcpy(out, source, size)
        return
    while i < size:
        memcpy(out + i, source + i, 16)
        i += 16


def read_bytes(data, spans):
    """(offsets, bytes) of an Arrow string or binary array. UTF-8 is not checked: Spark does not guarantee it."""
    cdef const uint8_t* base = address(data)
    cdef int64_t data_size = data.size
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, n = spans.size // 8, total = 0
    cdef uint8_t* out
    cdef int32_t* offsets
    offset_buffer = pa.allocate_buffer(4 * (n + 1))
    offsets = <int32_t*> address(offset_buffer)
    with nogil:
        offsets[0] = 0
        for r in range(n):
            if s[2 * r + 1] > 0:
                total += s[2 * r + 1]
                if total > INT32_MAX:
                    break
            offsets[r + 1] = <int32_t> total
    if total > INT32_MAX:
        raise SchemaMismatchError("the rows overlap: their strings are longer than the data that they lie in")
    values = pa.allocate_buffer(total + 16)
    out = address(values)
    with nogil:
        for r in range(n):
            if s[2 * r + 1] > 0:
                copy_short(out + offsets[r], base + s[2 * r], s[2 * r + 1], data_size - s[2 * r])
        memset(out + total, 0, 16)
    return offset_buffer, values.slice(0, total)


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


cdef bint below(uint64_t high, uint64_t low, uint64_t bound_high, uint64_t bound_low) noexcept nogil:
    """Whether the magnitude of a two's complement number of 128 bits is below a bound."""
    if high >> 63:
        low = 0 - low
        high = ~high + (low == 0)
    return high < bound_high or high == bound_high and low < bound_low


def read_decimals(data, spans, object digits, str path):
    """decimal128 values; a null is zero."""
    cdef const uint8_t* base = address(data)
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, i, size, n = spans.size // 8, bad = -1
    cdef object bound = 10**digits
    cdef uint64_t high, low, bound_high = bound >> 64, bound_low = bound & 0xFFFFFFFFFFFFFFFF
    cdef uint64_t* out
    values = pa.allocate_buffer(16 * n)
    out = <uint64_t*> address(values)
    with nogil:
        for r in range(n):
            size = s[2 * r + 1]
            high = low = 0
            if size >= 0:
                if size < 1 or size > 16:
                    bad = r
                    break
                if base[s[2 * r]] >> 7:
                    high = low = ~<uint64_t> 0
                for i in range(size):
                    high = high << 8 | low >> 56
                    low = low << 8 | base[s[2 * r] + i]
                if not below(high, low, bound_high, bound_low):
                    bad = r
                    break
            out[2 * r] = low
            out[2 * r + 1] = high
    if bad >= 0:
        raise mismatch(f"{s[2 * bad + 1]} bytes are not a decimal of {digits} digits", path, s[2 * bad])
    return values


def read_intervals(data, spans, str path):
    """month_day_nano values (int32 months, int32 days, int64 nanoseconds); a null is zero."""
    cdef const uint8_t* base = address(data)
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, micros, n = spans.size // 8, bad = -1
    cdef uint64_t* out
    values = pa.allocate_buffer(16 * n)
    out = <uint64_t*> address(values)
    with nogil:
        for r in range(n):
            out[2 * r] = out[2 * r + 1] = 0
            if s[2 * r + 1] < 0:
                continue
            if s[2 * r + 1] != 16:
                bad = r
                break
            micros = <int64_t> load_le64(base + s[2 * r] + 8)
            if not -MAX_MICROS <= micros <= MAX_MICROS:
                bad = r
                break
            out[2 * r] = load_le64(base + s[2 * r])  # months and days have the same places in Arrow
            out[2 * r + 1] = <uint64_t> (micros * 1000)
    if bad >= 0 and s[2 * bad + 1] != 16:
        raise mismatch(f"{s[2 * bad + 1]} bytes are not a calendar interval", path, s[2 * bad])
    if bad >= 0:
        raise mismatch("an interval's microseconds are more than Arrow's nanoseconds hold", path, s[2 * bad])
    return values


def split_pairs(data, spans, bint variant, str path):
    """The spans of a variant's value and metadata, or of a map's keys and values.

    variant: int32 size of the value | value | metadata; map: int64 size of the key array | keys | values.
    """
    cdef const uint8_t* base = address(data)
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, size, n = spans.size // 8, bad = -1, head = 4 if variant else 8
    cdef uint64_t first
    cdef int32_t* left
    cdef int32_t* right
    left_spans = pa.allocate_buffer(8 * n)
    right_spans = pa.allocate_buffer(8 * n)
    left = <int32_t*> address(left_spans)
    right = <int32_t*> address(right_spans)
    with nogil:
        for r in range(n):
            size = s[2 * r + 1]
            left[2 * r] = right[2 * r] = 0
            left[2 * r + 1] = right[2 * r + 1] = -1
            if size < 0:
                continue
            if size < head:
                bad = r
                break
            first = load_le32(base + s[2 * r]) if variant else load_le64(base + s[2 * r])
            if first > <uint64_t> (size - head):
                bad = r
                break
            left[2 * r] = <int32_t> (s[2 * r] + head)
            left[2 * r + 1] = <int32_t> first
            right[2 * r] = <int32_t> (s[2 * r] + head + <int64_t> first)
            right[2 * r + 1] = <int32_t> (size - head - <int64_t> first)
    if bad >= 0:
        what = "variant" if variant else "map"
        raise mismatch(f"{s[2 * bad + 1]} bytes are not a {what}", path, s[2 * bad])
    return left_spans, right_spans


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


def byte_sizes(int64_t count, int64_t first, validity, offsets):
    """The bytes of each value of an Arrow string or binary array, -1 for a null, as a buffer of int32."""
    cdef const uint8_t* bits = address(validity)
    cdef const int32_t* starts = <const int32_t*> address(offsets) + first
    cdef int64_t r
    cdef int32_t* out
    result = pa.allocate_buffer(4 * count)
    out = <int32_t*> address(result)
    with nogil:
        for r in range(count):
            out[r] = starts[r + 1] - starts[r] if bits == NULL or get_bit(bits, first + r) else -1
    return result


def write_bytes(out, places, int64_t first, offsets, values):
    """Copies the values of an Arrow string or binary array, the first of which is number `first`, to their places:
    int64 offsets in out, -1 for none."""
    cdef uint8_t* to = address(out)
    cdef const int64_t* at = <const int64_t*> address(places)
    cdef const int32_t* starts = <const int32_t*> address(offsets) + first
    cdef const uint8_t* source = address(values)
    cdef int64_t r, size, n = places.size // 8
    with nogil:
        for r in range(n):
            size = starts[r + 1] - starts[r]
            if at[r] >= 0 and size > 0:
                memcpy(to + at[r], source + starts[r], size)


cdef inline int decimal_bytes(uint64_t high, uint64_t low) noexcept nogil:
    """Bytes of the shortest two's complement of a number."""
    cdef uint64_t sign = 0 - (high >> 63)
    cdef int size = 1
    high ^= sign
    low ^= sign
    while high or low > 0x7F:
        low = low >> 8 | high << 56
        high >>= 8
        size += 1
    return size


def decimal_sizes(int64_t count, int64_t first, validity, values):
    """The bytes of each decimal128, -1 for a null, as a buffer of int32."""
    cdef const uint8_t* bits = address(validity)
    cdef const uint64_t* words = <const uint64_t*> address(values) + 2 * first
    cdef int64_t r
    cdef int32_t* out
    result = pa.allocate_buffer(4 * count)
    out = <int32_t*> address(result)
    with nogil:
        for r in range(count):
            if bits == NULL or get_bit(bits, first + r):
                out[r] = decimal_bytes(words[2 * r + 1], words[2 * r])
            else:
                out[r] = -1
    return result


def write_decimals(out, places, int64_t first, values, sizes, object digits):
    """Writes decimal128 values, big-endian; False where one has too many digits."""
    cdef uint8_t* to = address(out)
    cdef const int64_t* at = <const int64_t*> address(places)
    cdef const int32_t* size = <const int32_t*> address(sizes)
    cdef const uint64_t* words = <const uint64_t*> address(values) + 2 * first
    cdef object bound = 10**digits
    cdef uint64_t high, low, bound_high = bound >> 64, bound_low = bound & 0xFFFFFFFFFFFFFFFF
    cdef int64_t r, i, n = places.size // 8
    cdef bint good = True
    with nogil:
        for r in range(n):
            if at[r] < 0:
                continue
            low = words[2 * r]
            high = words[2 * r + 1]
            if not below(high, low, bound_high, bound_low):
                good = False
                break
            for i in range(size[r] - 1, -1, -1):
                to[at[r] + i] = <uint8_t> low
                low = low >> 8 | high << 56
                high >>= 8
    return good


def write_intervals(out, places, int64_t first, values):
    """Writes month_day_nano values; False where one has a fraction of a microsecond."""
    cdef uint8_t* to = address(out)
    cdef const int64_t* at = <const int64_t*> address(places)
    cdef const uint64_t* words = <const uint64_t*> address(values) + 2 * first
    cdef int64_t r, nanos, n = places.size // 8
    cdef bint good = True
    with nogil:
        for r in range(n):
            if at[r] < 0:
                continue
            nanos = <int64_t> words[2 * r + 1]
            if nanos % 1000:
                good = False
                break
            store_le64(to + at[r], words[2 * r])
            store_le64(to + at[r] + 8, <uint64_t> (nanos // 1000))
    return good


def join_sizes(int64_t first, validity, left, right, int32_t head):
    """The sizes of variants and maps: head + left + right, -1 for a null. Errors: OverflowError past an int32."""
    cdef const uint8_t* bits = address(validity)
    cdef const int32_t* a = <const int32_t*> address(left)
    cdef const int32_t* b = <const int32_t*> address(right)
    cdef int64_t r, size, n = left.size // 4
    cdef bint good = True
    cdef int32_t* out
    result = pa.allocate_buffer(4 * n)
    out = <int32_t*> address(result)
    with nogil:
        for r in range(n):
            size = -1
            if bits == NULL or get_bit(bits, first + r):
                size = <int64_t> a[r] + b[r] + head
            if size > INT32_MAX:
                good = False
                break
            out[r] = <int32_t> size
    if not good:
        raise OverflowError
    return result


def write_pairs(out, places, left, bint variant):
    """Writes the sizes in front of variants or maps, `left` being those of the values or keys; returns the places of
    the two parts."""
    cdef uint8_t* to = address(out)
    cdef const int64_t* at = <const int64_t*> address(places)
    cdef const int32_t* sizes = <const int32_t*> address(left)
    cdef int64_t r, n = places.size // 8, head = 4 if variant else 8
    cdef int64_t* first
    cdef int64_t* second
    first_places = pa.allocate_buffer(8 * n)
    second_places = pa.allocate_buffer(8 * n)
    first = <int64_t*> address(first_places)
    second = <int64_t*> address(second_places)
    with nogil:
        for r in range(n):
            first[r] = second[r] = -1
            if at[r] < 0:
                continue
            store_le32(to + at[r], <uint32_t> sizes[r])
            first[r] = at[r] + head
            second[r] = at[r] + head + sizes[r]
    return first_places, second_places


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
