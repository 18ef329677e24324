# The slots of rows, read into Arrow columns; spans where a value does not fit its slot.


cdef bint read_dense(Rows* rows, Column* column, int64_t field, int64_t start, int64_t stop) noexcept nogil:
    """Reads a field that fits its slot and is null in no row."""
    cdef const uint8_t* slots = rows.data + rows.prefix_size + bitset_bytes(rows.fields) + 8 * field
    cdef const int32_t* spans = rows.spans
    cdef uint8_t* out = column.values
    cdef uint64_t word, unused = unused_bits(column.kind)
    cdef int64_t r
    if column.kind == c"8":
        for r in range(start, stop):
            (<uint64_t*> out)[r] = load_le64(slots + spans[2 * r])
    elif column.kind == c"4":
        for r in range(start, stop):
            word = load_le64(slots + spans[2 * r])
            if word & unused:
                return fail(rows, r, field, UNUSED_BITS)
            (<uint32_t*> out)[r] = <uint32_t> word
    else:
        for r in range(start, stop):
            word = load_le64(slots + spans[2 * r])
            if not put_value(rows, column, word, field, r):
                return False
    return True


cdef bint put_value(Rows* rows, Column* column, uint64_t word, int64_t field, int64_t r) noexcept nogil:
    cdef uint8_t* out = column.values
    cdef char kind = column.kind
    if word & unused_bits(kind):
        return fail(rows, r, field, UNUSED_BITS)
    if kind == c"8":
        (<uint64_t*> out)[r] = word
    elif kind == c"4":
        (<uint32_t*> out)[r] = <uint32_t> word
    elif kind == c"?":
        if word:
            set_bit(out, r)
    elif kind == c"1":
        out[r] = <uint8_t> word
    elif kind == c"2":
        (<uint16_t*> out)[r] = <uint16_t> word
    elif kind == c"m":
        memset(out + 16 * r, 0, 16)
        (<uint32_t*> (out + 16 * r))[0] = <uint32_t> word
    elif kind == c"d":
        if not put_decimal(out + 16 * r, word, column.bound):
            return fail(rows, r, field, DIGITS)
    elif kind == c"0":
        return fail(rows, r, field, NULL_SLOT)
    return True


cdef bint read_nullable(Rows* rows, Column* column, int64_t field, int64_t start, int64_t stop) noexcept nogil:
    """Reads a field that fits its slot; out and validity are zero before."""
    cdef const uint8_t* row
    cdef uint64_t word
    cdef int64_t r
    for r in range(start, stop):
        if rows.spans[2 * r + 1] < 0:
            column.null_count += 1
            continue
        row = rows.data + rows.spans[2 * r] + rows.prefix_size
        word = load_le64(row + bitset_bytes(rows.fields) + 8 * field)
        if get_bit(row, field):
            if word:
                return fail(rows, r, field, NULL_SLOT)
            column.null_count += 1
        else:
            if not put_value(rows, column, word, field, r):
                return False
            if column.validity != NULL:
                set_bit(column.validity, r)
    return True


cdef bint read_spans(
    Rows* rows, Column* column, int64_t field, int64_t start, int64_t stop, int64_t* used
) noexcept nogil:
    """Reads where a field's values lie; used[r - start] grows by the bytes that they take in row r."""
    cdef const uint8_t* row
    cdef int32_t* out = <int32_t*> column.values
    cdef int64_t r, offset, size, row_size, slot = bitset_bytes(rows.fields) + 8 * field
    cdef int64_t before = rows.prefix_size  # of 64 bits: a null row may have any size below 0
    cdef uint64_t word
    for r in range(start, stop):
        row_size = rows.spans[2 * r + 1] - before
        if row_size < 0:
            column.null_count += 1
            out[2 * r] = 0
            out[2 * r + 1] = -1
            continue
        row = rows.data + rows.spans[2 * r] + before
        word = load_le64(row + slot)
        offset = <int64_t> (word >> 32)
        size = <int64_t> <uint32_t> word
        if get_bit(row, field):
            if size and not (column.kind == c"i" and size == 16):
                return fail(rows, r, field, NULL_SLOT)
            if word and column.kind != c"s":
                used[r - start] += 16
            column.null_count += 1
            out[2 * r] = 0
            out[2 * r + 1] = -1
            continue
        if offset < rows.fixed or offset + size > row_size:
            return fail(rows, r, field, SPAN)
        used[r - start] += 16 if column.kind == c"D" else padded(size)
        out[2 * r] = <int32_t> (rows.spans[2 * r] + before + offset)
        out[2 * r + 1] = <int32_t> size
    return True


cdef bint have_room(Rows* rows, int64_t start, int64_t stop, const int64_t* used) noexcept nogil:
    """Checks that the rows are as long as what they hold; used[r - start] is that of the variable-length part."""
    cdef const int32_t* spans = rows.spans
    cdef int64_t fixed = rows.fixed, before = rows.prefix_size
    cdef int64_t r, left, wrong = 0
    for r in range(start, stop):
        left = ((spans[2 * r + 1] - before) & ~<int64_t> 7) - fixed - used[r - start]
        if spans[2 * r + 1] < 0:
            left = 0
        wrong |= left
    if wrong >= 0:
        return True
    for r in range(start, stop):
        if spans[2 * r + 1] >= 0 and fixed + used[r - start] > ((spans[2 * r + 1] - before) & ~<int64_t> 7):
            return fail(rows, r, -1, OVERLAP)
    return True


cdef bint read_dense_spans(
    Rows* rows, Column* column, int64_t field, int64_t start, int64_t stop, int64_t* used
) noexcept nogil:
    """Does the same for a field that is null in no row, without a branch at each row.

    If it is the only field with a variable-length part, the rows are as long as what they hold, too.
    """
    cdef const uint8_t* slots = rows.data + rows.prefix_size + bitset_bytes(rows.fields) + 8 * field
    cdef const int32_t* spans = rows.spans
    cdef int32_t* out = <int32_t*> column.values
    cdef int64_t fixed = rows.fixed, before = rows.prefix_size
    cdef int64_t r, offset, size, row_size, wrong = 0
    cdef uint64_t word
    cdef bint alone = rows.num_variable == 1
    for r in range(start, stop):
        word = load_le64(slots + spans[2 * r])
        offset = <int64_t> (word >> 32)
        size = <int64_t> <uint32_t> word
        row_size = spans[2 * r + 1] - before
        wrong |= (offset - fixed) | (row_size - offset - size)  # the highest bit: it is negative
        if alone:
            wrong |= (row_size & ~<int64_t> 7) - fixed - padded(size)
        else:
            used[r - start] += padded(size)
        out[2 * r] = <int32_t> (spans[2 * r] + before + offset)
        out[2 * r + 1] = <int32_t> size
    if wrong >= 0:
        return True
    return read_spans(rows, column, field, start, stop, used) and have_room(rows, start, stop, used)


cdef bint read_columns(Rows* rows, Column* columns) noexcept nogil:
    """Reads all rows. It stops with LATE_NULL at a null that was not known of when the columns were made."""
    cdef int64_t used[BLOCK]
    cdef int64_t block, start, stop, field
    cdef Column* column
    cdef bint good, is_room_known
    for block in range((rows.count + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        stop = min(start + BLOCK, rows.count)
        if rows.checked < stop:
            if not check_rows(rows, stop):
                return False
            if rows.has_nulls:
                return fail(rows, start, -1, LATE_NULL)
        is_room_known = True
        if rows.num_variable:
            memset(used, 0, sizeof(used))
        for field in range(rows.fields):
            column = &columns[field]
            if not is_variable(column.kind):
                if column.has_nulls:
                    good = read_nullable(rows, column, field, start, stop)
                else:
                    good = read_dense(rows, column, field, start, stop)
            elif column.has_nulls or column.kind != c"s":
                good = read_spans(rows, column, field, start, stop, used)
                is_room_known = False
            else:
                good = read_dense_spans(rows, column, field, start, stop, used)
                is_room_known = rows.num_variable == 1
            if not good:
                return False
        if not is_room_known and not have_room(rows, start, stop, used):
            return False
    return True
