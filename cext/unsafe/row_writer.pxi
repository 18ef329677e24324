# Arrow columns, written as the null bits and slots of rows.


cdef class Sources:
    """The columns of fields, as `write_fields` has them, and room for where their values lie; frees both."""

    cdef Source* of
    cdef int64_t** places

    def __cinit__(self, bytes kinds, bytes digits, list columns):
        cdef Py_ssize_t i, fields = len(kinds)
        self.of = <Source*> calloc(max(fields, 1), sizeof(Source))
        self.places = <int64_t**> calloc(max(fields, 1), sizeof(int64_t*))
        if self.of == NULL or self.places == NULL:
            raise MemoryError
        for i in range(fields):
            set_source(&self.of[i], <char> kinds[i], int(digits[i]), columns[i])

    def __dealloc__(self):
        free(self.of)
        free(self.places)


def row_sizes(int64_t count, int64_t first, validity, bytes kinds, bytes digits, list columns):
    """The bytes of each row, -1 for a null one, as a buffer of int32.

    `columns` has (first, validity or None, values or None, sizes or None) for each field, as for `write_fields`.

    Raises:
        OverflowError: a row is longer than an int32 tells.
    """
    cdef int64_t r, size, field, fields = len(kinds), fixed = bitset_bytes(fields) + 8 * fields
    cdef const uint8_t* bits = address(validity)
    cdef bint good = True
    cdef int32_t* sizes
    cdef Sources owner
    cdef const Source* sources
    columns = [column for kind, column in zip(kinds, columns) if is_variable(<char> kind)]
    kinds = kinds.translate(None, FIXED_KINDS)
    fields = len(kinds)
    owner = Sources(kinds, bytes(fields), columns)
    sources = owner.of
    result = pa.allocate_buffer(4 * count)
    sizes = <int32_t*> address(result)
    with nogil:
        for r in range(count):
            if bits != NULL and not get_bit(bits, first + r):
                sizes[r] = -1
                continue
            size = fixed
            for field in range(fields):
                if sources[field].kind != c"s":
                    size += 16
                elif sources[field].sizes[r] > 0:
                    size += padded(sources[field].sizes[r])
            if size > INT32_MAX:
                good = False
                break
            sizes[r] = <int32_t> size
    if not good:
        raise OverflowError
    return result


def write_fields(out, places, bytes kinds, bytes digits, list columns):
    """Writes rows without what stands in their variable-length parts.

    Args:
        out: the buffer to write to, zeros before.
        places: int64 offsets of the rows in out, -1 for a null one.
        kinds, digits: as for `read_fields`.
        columns: (first, validity or None, values or None, sizes or None) for each field: Arrow's buffers, of which the
            value number `first` is that of row 0, and int32 sizes of the values that do not fit a slot.

    Returns:
        (-1, places), where places is a list that has, for each field of a variable-length kind, a buffer with the
        offsets of its values in out, -1 for null, else None; or (number of the field, []) where a value does not fit
        the field's type.
    """
    cdef uint8_t* to = address(out)
    cdef const int64_t* rows = <const int64_t*> address(places)
    cdef int64_t r, n = places.size // 8, block, start, stop, field, bad = -1
    cdef int64_t fields = len(kinds), bits = bitset_bytes(fields), fixed = bits + 8 * fields
    cdef int64_t used[BLOCK]
    cdef Sources owner = Sources(kinds, digits, columns)
    cdef const Source* sources = owner.of
    cdef int64_t** children = owner.places
    result = [pa.allocate_buffer(8 * n) if is_variable(<char> kind) else None for kind in kinds]
    for field in range(fields):
        children[field] = <int64_t*> address(result[field])
    with nogil:
        for block in range((n + BLOCK - 1) // BLOCK):
            start = block * BLOCK
            stop = min(start + BLOCK, n)
            for r in range(stop - start):
                used[r] = fixed
            for field in range(fields):
                if children[field] != NULL:
                    write_spans(to, bits, rows, &sources[field], children[field], field, start, stop, used)
                elif not write_slots(to, bits, rows, &sources[field], field, start, stop):
                    bad = field
                    break
            if bad >= 0:
                break
    return bad, result if bad < 0 else []


cdef bint write_slots(
    uint8_t* to, int64_t bits, const int64_t* rows, const Source* source, int64_t field, int64_t start, int64_t stop
) noexcept nogil:
    cdef int64_t r
    cdef uint64_t word = 0
    cdef uint8_t* slots = to + bits + 8 * field
    if source.kind == c"8" and source.validity == NULL:
        for r in range(start, stop):
            if rows[r] >= 0:
                store_le64(slots + rows[r], load_le64(source.values + 8 * r))
        return True
    for r in range(start, stop):
        if rows[r] < 0:
            continue
        if is_null(source, r):
            set_bit(to + rows[r], field)
        elif take_value(source, r, &word):
            store_le64(slots + rows[r], word)
        else:
            return False
    return True


cdef void write_spans(
    uint8_t* to, int64_t bits, const int64_t* rows, const Source* source, int64_t* places, int64_t field,
    int64_t start, int64_t stop, int64_t* used,
) noexcept nogil:
    """Writes offsets and sizes; used[r - start] is how far row r is filled."""
    cdef int64_t r, size
    cdef uint64_t word
    for r in range(start, stop):
        places[r] = -1
        if rows[r] < 0:
            continue
        size = source.sizes[r]
        word = <uint64_t> used[r - start] << 32
        if size >= 0:
            places[r] = rows[r] + used[r - start]
            word |= <uint64_t> size
        else:
            set_bit(to + rows[r], field)
            if source.kind == c"s":
                word = 0
            elif source.kind == c"i":
                word |= 16
        if source.kind != c"s":
            used[r - start] += 16
        elif size > 0:
            used[r - start] += padded(size)
        store_le64(to + rows[r] + bits + 8 * field, word)
