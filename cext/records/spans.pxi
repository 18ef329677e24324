# Records of rows in other bytes, as spans: pairs of native int32 (offset in the data, size), none of them null.

cdef struct Rows:
    const uint8_t* data
    const int32_t* keys
    const int32_t* values
    int64_t count


cdef Rows rows_of(const uint8_t[::1] data, const int32_t[::1] keys, const int32_t[::1] values) except *:
    """The rows, each of which lies in the data. ValueError: one does not, or has no value."""
    cdef Rows rows
    cdef int64_t i, size = data.shape[0], bad = -1
    if keys.shape[0] != values.shape[0] or keys.shape[0] % 2:
        raise ValueError(f"{keys.shape[0]} and {values.shape[0]} numbers are no spans of the same rows")
    rows.data = &data[0] if size else NULL
    rows.keys = &keys[0] if keys.shape[0] else NULL
    rows.values = &values[0] if values.shape[0] else NULL
    rows.count = keys.shape[0] // 2
    with nogil:
        for i in range(rows.count):
            if not (lies_in(rows.keys + 2 * i, size) and lies_in(rows.values + 2 * i, size)):
                bad = i
                break
    if bad >= 0:
        raise ValueError(f"the key or value of row {bad} does not lie in the {size} bytes of data")
    return rows


cdef inline bint lies_in(const int32_t* span, int64_t size) noexcept nogil:
    return span[0] >= 0 and span[1] >= 0 and <int64_t> span[0] + span[1] <= size


def encode_spans(data not None, keys not None, values not None, *, bint row_checksums=False):
    """The records of rows as bytes (a pyarrow.Buffer), without an end mark.

    Args:
        data: bytes of keys and values.
        keys, values: the spans in it.
        row_checksums: whether each record carries its CRC-32C.

    Raises:
        ValueError: the spans do not fit.
        SizeLimitError: a value is 2 GiB or more with its checksum.
    """
    cdef const int32_t[::1] k = memoryview(keys).cast("B").cast("i"), v = memoryview(values).cast("B").cast("i")
    cdef const uint8_t[::1] whole = memoryview(data).cast("B")
    cdef Rows rows = rows_of(whole, k, v)
    cdef int64_t i, total = 0, extra = 4 if row_checksums else 0
    cdef uint8_t* out
    for i in range(rows.count):
        if rows.values[2 * i + 1] > INT32_MAX - extra:
            raise too_large(f"the value of record {i}")
        total += 8 + extra + rows.keys[2 * i + 1] + rows.values[2 * i + 1]
    result = pa.allocate_buffer(total)
    out = <uint8_t*> <uintptr_t> result.address
    with nogil:
        for i in range(rows.count):
            out = write_put(
                out,
                rows.data + rows.keys[2 * i],
                rows.keys[2 * i + 1],
                rows.data + rows.values[2 * i],
                rows.values[2 * i + 1],
                row_checksums,
            )
    return result


def digest_spans(data not None, keys not None, values not None):
    """A hash of rows that does not depend on their order: the sum modulo 2^64 of one of each row.

    Args:
        data, keys, values: as encode_spans has them.
    """
    cdef const int32_t[::1] k = memoryview(keys).cast("B").cast("i"), v = memoryview(values).cast("B").cast("i")
    cdef const uint8_t[::1] whole = memoryview(data).cast("B")
    cdef Rows rows = rows_of(whole, k, v)
    cdef int64_t i
    cdef uint64_t total = 0
    cdef uint64_t[2] row
    with nogil:
        for i in range(rows.count):
            row[0] = xxh3(rows.data + rows.keys[2 * i], rows.keys[2 * i + 1])
            row[1] = xxh3(rows.data + rows.values[2 * i], rows.values[2 * i + 1])
            total += xxh3(<const uint8_t*> row, sizeof(row))
    return total


def spans_of_part(data not None, keys not None, kinds, int part, int parts):
    """Which records are in one of equal parts of all keys, by the hash of the key, as a buffer of int64: their places.

    Args:
        data, keys: as encode_spans has them.
        kinds: of the records, as RecordParser.kinds; range deletions are in every part.
        part, parts: the number of the part, and how many there are.

    Raises:
        ValueError: the spans do not fit, or there is no such part.
    """
    cdef const int32_t[::1] k = memoryview(keys).cast("B").cast("i")
    cdef const uint8_t[::1] whole = memoryview(data).cast("B")
    cdef Rows rows = rows_of(whole, k, k)
    cdef const uint8_t[::1] types
    cdef const uint8_t* type_of = NULL
    cdef int64_t i, count = 0
    cdef int64_t* out
    if not 0 <= part < parts:
        raise ValueError(f"there is no part {part} of {parts}")
    if kinds is not None and rows.count:
        types = memoryview(kinds).cast("B")
        if types.shape[0] != rows.count:
            raise ValueError(f"{types.shape[0]} kinds of {rows.count} records")
        type_of = &types[0]
    result = pa.allocate_buffer(8 * rows.count)
    out = <int64_t*> <uintptr_t> result.address
    with nogil:
        for i in range(rows.count):
            if (type_of != NULL and type_of[i] == KIND_RANGE_DELETION) or (
                (xxh3(rows.data + rows.keys[2 * i], rows.keys[2 * i + 1]) >> 32) * <uint64_t> parts >> 32
                == <uint64_t> part
            ):
                out[count] = i
                count += 1
    return result.slice(0, 8 * count)
