"""UnsafeArrayData, read into Arrow's offsets and elements and written from them; unsafe_layout.pxd has the layout.

Spark writes it in `UnsafeArrayWriter.java`. A map is two such arrays.
"""

import pyarrow as pa

from hdfsstore.errors import SchemaMismatchError

from unsafe_layout cimport *

cdef enum Reason:
    GOOD
    COUNT
    NULL_BITS
    BOOLEAN
    DIGITS
    SPAN
    OVERLAP
    NOT_NULL

cdef struct Elements:
    char kind
    uint64_t bound        # 10 ** digits of a decimal
    uint8_t* values
    uint8_t* validity     # NULL where no element is null
    int64_t count
    int64_t null_count
    int64_t bad_row
    Reason reason


cdef inline int64_t header_bytes(int64_t count) noexcept nogil:
    return 8 + bitset_bytes(count)


cdef bint check_arrays(
    Elements* e, const uint8_t* data, const int32_t* spans, int64_t n, int32_t* offsets
) noexcept nogil:
    """Checks the arrays' counts, fills their offsets and counts the null elements."""
    cdef int64_t r, w, size, count, width = element_width(e.kind)
    cdef uint64_t word
    cdef const uint8_t* array
    offsets[0] = 0
    for r in range(n):
        size = spans[2 * r + 1]
        if size >= 0:
            array = data + spans[2 * r]
            e.bad_row = r
            e.reason = COUNT
            if size < 8:
                return False
            word = load_le64(array)
            if word > <uint64_t> size:  # so that nothing below overflows
                return False
            count = <int64_t> word
            if header_bytes(count) + padded(count * width) > size or e.count + count > INT32_MAX:
                return False
            e.count += count
            word = 0
            for w in range(bitset_bytes(count) >> 3):
                word = load_le64(array + 8 + 8 * w)
                e.null_count += popcount(word)
            if count & 63 and word >> (count & 63):
                e.reason = NULL_BITS
                return False
        offsets[r + 1] = <int32_t> e.count
    return True


cdef inline int popcount(uint64_t word) noexcept nogil:
    word -= (word >> 1) & 0x5555555555555555ULL
    word = (word & 0x3333333333333333ULL) + ((word >> 2) & 0x3333333333333333ULL)
    return <int> (((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0FULL) * 0x0101010101010101ULL >> 56)


cdef Reason read_array(Elements* e, const uint8_t* data, int64_t at, int64_t size, int64_t first) noexcept nogil:
    """Reads the elements of one array; `first` is the place of the first among all."""
    cdef const uint8_t* array = data + at
    cdef const uint8_t* nulls = array + 8
    cdef int64_t i, offset, length, count = <int64_t> load_le64(array)
    cdef const uint8_t* slots = array + header_bytes(count)
    cdef int64_t width = element_width(e.kind)
    cdef int64_t used = header_bytes(count) + padded(count * width)
    cdef uint64_t word
    cdef int32_t* spans = <int32_t*> e.values
    if e.validity != NULL:
        for i in range(count):
            if not get_bit(nulls, i):
                set_bit(e.validity, first + i)
    if is_plain(e.kind):
        if count:
            memcpy(e.values + first * width, slots, count * width)
    elif e.kind == c"?":
        for i in range(count):
            if slots[i] > 1:
                return BOOLEAN
            if slots[i]:
                set_bit(e.values, first + i)
    elif e.kind == c"m":
        for i in range(count):
            memset(e.values + 16 * (first + i), 0, 16)
            memcpy(e.values + 16 * (first + i), slots + 4 * i, 4)
    elif e.kind == c"d":
        for i in range(count):
            if not put_decimal(e.values + 16 * (first + i), load_le64(slots + 8 * i), e.bound):
                return DIGITS
    elif e.kind == c"0":
        for i in range(count):
            if not get_bit(nulls, i):
                return NOT_NULL
    else:
        for i in range(count):
            spans[2 * (first + i)] = 0
            spans[2 * (first + i) + 1] = -1
            if get_bit(nulls, i):
                continue
            word = load_le64(slots + 8 * i)
            offset = <int64_t> (word >> 32)
            length = <int64_t> <uint32_t> word
            if offset < header_bytes(count) + 8 * count or offset + length > size:
                return SPAN
            used += padded(length)
            spans[2 * (first + i)] = <int32_t> (at + offset)
            spans[2 * (first + i) + 1] = <int32_t> length
        if used > padded(size):
            return OVERLAP
    return GOOD


def read_elements(data, spans, str kind, object digits, str path):
    """The elements of arrays.

    Args:
        data, spans: pyarrow buffers: bytes, and the (offset, size) of each array as int32 pairs that lie inside of
            them; size -1 is a null array.
        kind, digits: the letter (see unsafe_layout.pxd) and the digits, of decimals, of an element.
        path: the field's name, for errors.

    Returns:
        (offsets, count, null_count, validity or None, values or None): the int32 offsets of an Arrow list array and its
        elements, as Arrow's values if they fit their slots, else as spans of data.

    Raises:
        SchemaMismatchError: these are no arrays of such elements.
    """
    cdef const uint8_t* base = address(data)
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, n = spans.size // 8
    cdef int32_t* offsets
    cdef Elements e
    memset(&e, 0, sizeof(e))
    e.kind = <char> ord(kind)
    e.bound = 10 ** min(digits, 18)
    offset_buffer = pa.allocate_buffer(4 * (n + 1))
    offsets = <int32_t*> address(offset_buffer)
    with nogil:
        good = check_arrays(&e, base, s, n, offsets)
    if not good:
        raise failure(&e, s, path)
    validity = values = None
    if e.null_count and not is_variable(e.kind) and e.kind != c"0":
        validity = zeroed(pa.allocate_buffer((e.count + 7) // 8))
        e.validity = address(validity)
    if e.kind == c"?":
        values = zeroed(pa.allocate_buffer((e.count + 7) // 8))
    elif e.kind != c"0":
        values = pa.allocate_buffer((8 if is_variable(e.kind) else arrow_bytes(e.kind)) * e.count)
    if values is not None:
        e.values = address(values)
    with nogil:
        for r in range(n):
            if s[2 * r + 1] >= 0:
                e.reason = read_array(&e, base, s[2 * r], s[2 * r + 1], offsets[r])
                if e.reason != GOOD:
                    e.bad_row = r
                    good = False
                    break
    if not good:
        raise failure(&e, s, path)
    return offset_buffer, e.count, e.null_count, validity, values


cdef failure(Elements* e, const int32_t* spans, str path):
    reasons = {
        COUNT: "counts more elements than its bytes hold",
        NULL_BITS: "has null bits past its last element",
        BOOLEAN: "has a boolean that is neither 0 nor 1",
        DIGITS: "has a decimal with more digits than its type",
        SPAN: "has an element whose offset and size do not lie inside it",
        OVERLAP: "has elements that together are longer than it",
        NOT_NULL: "has a void element that is not null",
    }
    return SchemaMismatchError(
        f"an array of {spans[2 * e.bad_row + 1]} bytes in field {path!r} does not fit the schema: "
        f"it {reasons[e.reason]}",
        offset=spans[2 * e.bad_row],
        remedy="Check the schema, or pass the one that the state was written with",
    )


def array_sizes(int64_t count, int64_t first, validity, offsets, str kind, sizes):
    """The bytes of each array, -1 for a null one, as a buffer of int32; the array number `first` of offsets and
    validity is array 0. `sizes` are those of the elements if their kind is a variable-length one, else None. Errors:
    OverflowError where an array is longer than an int32 tells.
    """
    cdef const uint8_t* bits = address(validity)
    cdef const int32_t* starts = <const int32_t*> address(offsets) + first
    cdef const int32_t* element_sizes = <const int32_t*> address(sizes)
    cdef int64_t r, i, size, elements, width = element_width(<char> ord(kind))
    cdef bint good = True
    cdef int32_t* out
    result = pa.allocate_buffer(4 * count)
    out = <int32_t*> address(result)
    with nogil:
        for r in range(count):
            if bits != NULL and not get_bit(bits, first + r):
                out[r] = -1
                continue
            elements = starts[r + 1] - starts[r]
            size = header_bytes(elements) + padded(elements * width)
            if element_sizes != NULL:
                for i in range(starts[r], starts[r + 1]):
                    if element_sizes[i] > 0:
                        size += padded(element_sizes[i])
            if size > INT32_MAX:
                good = False
                break
            out[r] = <int32_t> size
    if not good:
        raise OverflowError
    return result


def write_elements(out, places, int64_t first, offsets, str kind, object digits, tuple column):
    """Writes arrays without what stands in their variable-length parts.

    Args:
        out: the buffer to write to, zeros before.
        places: int64 offsets of the arrays in out, -1 for a null one.
        first, offsets: Arrow's offsets; array 0 is number `first` of them.
        kind, digits: as for `read_elements`.
        column: (first, validity or None, values or None, sizes or None) of the elements.

    Returns:
        (True, None), or (True, int64 offsets in out of the elements of a variable-length kind, -1 for null), or
        (False, None) where a value does not fit the elements' type.
    """
    cdef uint8_t* to = address(out)
    cdef const int64_t* arrays = <const int64_t*> address(places)
    cdef const int32_t* starts = <const int32_t*> address(offsets) + first
    cdef int64_t r, i, n = places.size // 8
    cdef int64_t* children = NULL
    cdef Source source
    cdef bint good = True
    memset(&source, 0, sizeof(source))
    set_source(&source, <char> ord(kind), digits, column)
    element_places = None
    if source.sizes != NULL:
        element_places = pa.allocate_buffer(column[3].size * 2)
        children = <int64_t*> address(element_places)
        for i in range(column[3].size // 4):
            children[i] = -1
    with nogil:
        for r in range(n):
            if arrays[r] >= 0 and not write_array(to, arrays[r], &source, starts[r], starts[r + 1], children):
                good = False
                break
    return good, element_places if good else None


cdef bint write_array(
    uint8_t* to, int64_t place, const Source* source, int64_t start, int64_t stop, int64_t* children
) noexcept nogil:
    cdef uint8_t* array = to + place
    cdef int64_t i, count = stop - start, width = element_width(source.kind)
    cdef int64_t used = header_bytes(count) + padded(count * width)
    cdef uint8_t* slots = array + header_bytes(count)
    cdef uint8_t word_bytes[8]
    cdef uint64_t word = 0
    store_le64(array, <uint64_t> count)
    if source.validity == NULL and is_plain(source.kind):
        if count:
            memcpy(slots, source.values + start * width, count * width)
        return True
    for i in range(count):
        if is_null(source, start + i):
            set_bit(array + 8, i)
            continue
        if children != NULL:
            word = <uint64_t> used << 32 | <uint64_t> source.sizes[start + i]
            children[start + i] = place + used
            used += padded(source.sizes[start + i])
        elif not take_value(source, start + i, &word):
            return False
        store_le64(word_bytes, word)
        memcpy(slots + i * width, word_bytes, width)
    return True
