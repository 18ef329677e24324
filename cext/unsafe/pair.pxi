# Variants and maps, two values behind the size of the first.
#
#   variant   int32 size of the value | value | metadata
#   map       int64 size of the keys | array of keys | array of values


def split_pairs(data, spans, bint variant, str path):
    """The spans of variants' values and metadata, or of maps' keys and values."""
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
