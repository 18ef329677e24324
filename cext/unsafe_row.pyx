"""The fixed-length part of UnsafeRows, read into columns and written from them; unsafe_layout.pxd has the layout.

Spark writes it in `UnsafeRowWriter.java`; the checks on reading are those of `UnsafeRowUtils.scala`.
"""

import pyarrow as pa

from hdfsstore.errors import SchemaMismatchError

from unsafe_layout cimport *
from libc.stdlib cimport calloc, free

cdef bytes FIXED_KINDS = b"0?1248md"

cdef enum:
    BLOCK = 512  # rows whose columns are read one after the other, so that the rows stay in the first-level cache

cdef enum Reason:
    GOOD
    OUTSIDE
    TOO_SHORT
    OTHER_SIZE
    NULL_BITS
    NULL_SLOT
    UNUSED_BITS
    SPAN
    OVERLAP
    DIGITS

cdef struct Column:
    char kind
    bint has_nulls
    uint64_t bound      # 10 ** digits of a decimal
    uint8_t* values
    uint8_t* validity   # NULL where the column has no nulls
    int64_t null_count

cdef struct Rows:
    const uint8_t* data
    int64_t data_size
    const int32_t* spans
    int64_t count
    int64_t fields
    int64_t fixed       # bytes of null bits and slots
    bint all_fixed      # no field has a variable-length part
    int64_t null_count
    int64_t bad_row     # where reading stopped, and why
    int64_t bad_field
    Reason reason


cdef bint check_rows(Rows* rows, uint8_t* any_null) noexcept nogil:
    """Checks the rows' sizes and ORs their null bits into any_null."""
    cdef int64_t r, w, offset, size, words = bitset_bytes(rows.fields) >> 3
    cdef uint64_t bits, past_end = 0, first = 0
    if rows.fields & 63:
        past_end = ~<uint64_t> 0 << (rows.fields & 63)
    for r in range(rows.count):
        size = rows.spans[2 * r + 1]
        if size < 0:
            rows.null_count += 1
            continue
        offset = rows.spans[2 * r]
        rows.bad_row = r
        if offset < 0 or offset + size > rows.data_size:
            rows.reason = OUTSIDE
            return False
        size &= ~<int64_t> 7  # Spark < 2.3 wrote stray bytes after a row
        if size < rows.fixed:
            rows.reason = TOO_SHORT
            return False
        if rows.all_fixed and size != rows.fixed:
            rows.reason = OTHER_SIZE
            return False
        if words == 1:
            bits = load_le64(rows.data + offset)
            first |= bits
        else:
            bits = 0
            for w in range(words):
                bits = load_le64(rows.data + offset + 8 * w)
                store_le64(any_null + 8 * w, load_le64(any_null + 8 * w) | bits)
        if bits & past_end:
            rows.reason = NULL_BITS
            return False
    if words == 1:
        store_le64(any_null, first)
    return True


cdef bint fail(Rows* rows, int64_t row, int64_t field, Reason reason) noexcept nogil:
    rows.bad_row = row
    rows.bad_field = field
    rows.reason = reason
    return False


cdef bint read_dense(Rows* rows, Column* column, int64_t field, int64_t start, int64_t stop) noexcept nogil:
    """Reads a field that fits its slot and is null in no row."""
    cdef const uint8_t* slots = rows.data + bitset_bytes(rows.fields) + 8 * field
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
        row = rows.data + rows.spans[2 * r]
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
    cdef uint64_t word
    for r in range(start, stop):
        row_size = rows.spans[2 * r + 1]
        if column.has_nulls and row_size < 0:
            column.null_count += 1
            out[2 * r] = 0
            out[2 * r + 1] = -1
            continue
        row = rows.data + rows.spans[2 * r]
        word = load_le64(row + slot)
        offset = <int64_t> (word >> 32)
        size = <int64_t> <uint32_t> word
        if word and (offset < rows.fixed or offset + size > row_size):
            return fail(rows, r, field, SPAN)
        if column.has_nulls and get_bit(row, field):
            if word and column.kind == c"s" or size and not (column.kind == c"i" and size == 16):
                return fail(rows, r, field, NULL_SLOT)
            if word:
                used[r - start] += 16
            column.null_count += 1
            out[2 * r] = 0
            out[2 * r + 1] = -1
            continue
        if not word:
            return fail(rows, r, field, SPAN)
        used[r - start] += 16 if column.kind == c"D" else padded(size)
        out[2 * r] = <int32_t> (rows.spans[2 * r] + offset)
        out[2 * r + 1] = <int32_t> size
    return True


cdef bint read_columns(Rows* rows, Column* columns) noexcept nogil:
    cdef int64_t used[BLOCK]
    cdef int64_t block, start, stop, field, r
    cdef Column* column
    cdef bint good
    for block in range((rows.count + BLOCK - 1) // BLOCK):
        start = block * BLOCK
        stop = min(start + BLOCK, rows.count)
        if not rows.all_fixed:
            memset(used, 0, sizeof(used))
        for field in range(rows.fields):
            column = &columns[field]
            if is_variable(column.kind):
                good = read_spans(rows, column, field, start, stop, used)
            elif column.has_nulls:
                good = read_nullable(rows, column, field, start, stop)
            else:
                good = read_dense(rows, column, field, start, stop)
            if not good:
                return False
        if not rows.all_fixed:
            for r in range(start, stop):
                if rows.spans[2 * r + 1] >= 0 and rows.fixed + used[r - start] > (rows.spans[2 * r + 1] & ~7):
                    return fail(rows, r, -1, OVERLAP)
    return True


def read_fields(data, spans, bytes kinds, bytes digits, list paths, str path):
    """The columns of rows.

    Args:
        data, spans: pyarrow buffers: bytes, and (offset, size) as int32 pairs; size -1 is a null row.
        kinds, digits: a letter (see unsafe_layout.pxd) and the digits of a decimal, or 0, for each field.
        paths, path: the fields' and the struct's own names, for errors.

    Returns:
        (null_count, validity or None) of the rows, and for each field (null_count, validity or None, values or None):
        Arrow's values for a field that fits its slot, else spans of data as a new buffer of int32 pairs.

    Raises:
        SchemaMismatchError: the rows are not of these fields.
    """
    cdef Rows rows
    cdef Column* columns
    cdef int64_t field, r, n = spans.size // 8
    cdef uint8_t* any_null
    cdef uint8_t* row_bits
    memset(&rows, 0, sizeof(rows))
    rows.data = address(data)
    rows.data_size = data.size
    rows.spans = <const int32_t*> address(spans)
    rows.count = n
    rows.fields = len(kinds)
    rows.fixed = bitset_bytes(rows.fields) + 8 * rows.fields
    rows.all_fixed = not kinds.strip(FIXED_KINDS)
    rows.bad_field = -1

    null_bits = bytearray(bitset_bytes(rows.fields))
    any_null = null_bits
    with nogil:
        good = check_rows(&rows, any_null)
    if not good:
        raise failure(&rows, paths, path)

    row_validity = None
    if rows.null_count:
        row_validity = zeroed(pa.allocate_buffer((n + 7) // 8))
        row_bits = address(row_validity)
        with nogil:
            for r in range(n):
                if rows.spans[2 * r + 1] >= 0:
                    set_bit(row_bits, r)

    columns = <Column*> calloc(max(rows.fields, 1), sizeof(Column))
    if columns == NULL:
        raise MemoryError
    result = []
    try:
        for field in range(rows.fields):
            column = &columns[field]
            column.kind = kinds[field]
            column.bound = 10 ** min(int(digits[field]), 18)
            column.has_nulls = rows.null_count > 0 or get_bit(any_null, field)
            validity = values = None
            if column.has_nulls and not is_variable(column.kind) and column.kind != c"0":
                validity = zeroed(pa.allocate_buffer((n + 7) // 8))
                column.validity = address(validity)
            if column.kind == c"?":
                values = zeroed(pa.allocate_buffer((n + 7) // 8))
            elif is_variable(column.kind):
                values = pa.allocate_buffer(8 * n)
            elif column.kind != c"0":
                width = arrow_bytes(column.kind)
                values = zeroed(pa.allocate_buffer(width * n)) if column.has_nulls else pa.allocate_buffer(width * n)
            if values is not None:
                column.values = address(values)
            result.append((validity, values))
        with nogil:
            good = read_columns(&rows, columns)
        if not good:
            raise failure(&rows, paths, path)
        fields = [(columns[i].null_count, validity, values) for i, (validity, values) in enumerate(result)]
    finally:
        free(columns)
    return rows.null_count, row_validity, fields


cdef failure(Rows* rows, list paths, str path):
    cdef int64_t size = rows.spans[2 * rows.bad_row + 1]
    cdef int64_t offset = rows.spans[2 * rows.bad_row]
    what = f"a row of {size} bytes" if not path else f"a struct of {size} bytes in field {path!r}"
    field = f"field {paths[rows.bad_field]!r}" if rows.bad_field >= 0 else "a field"
    if rows.reason == OUTSIDE:
        why = f"lies outside of the {rows.data_size} bytes of data"
    elif rows.reason == TOO_SHORT:
        why = f"is too short: {rows.fields} fields need at least {rows.fixed} bytes"
    elif rows.reason == OTHER_SIZE:
        why = f"has another size than the {rows.fixed} bytes of its {rows.fields} fields"
    elif rows.reason == NULL_BITS:
        why = f"has null bits past its {rows.fields} fields"
    elif rows.reason == NULL_SLOT:
        why = f"has a value where {field} is null" if paths else ""
    elif rows.reason == UNUSED_BITS:
        why = f"has a value that is too wide for {field}"
    elif rows.reason == SPAN:
        why = f"has an offset and size for {field} that do not lie inside it"
    elif rows.reason == OVERLAP:
        why = "has variable-length parts that together are longer than it"
    else:
        why = f"has a value with more digits than {field} can hold"
    return SchemaMismatchError(
        f"{what} does not fit the schema: it {why}",
        offset=offset,
        remedy="Check the schema, or pass the one that the state was written with",
    )


cdef Source* sources_of(bytes kinds, bytes digits, list columns) except NULL:
    cdef Source* sources = <Source*> calloc(max(len(kinds), 1), sizeof(Source))
    if sources == NULL:
        raise MemoryError
    for i, column in enumerate(columns):
        set_source(&sources[i], kinds[i], int(digits[i]), column)
    return sources


def row_sizes(int64_t count, int64_t first, validity, bytes kinds, bytes digits, list columns):
    """The bytes of each row, -1 for a null one, as a buffer of int32.

    `columns` has (first, validity or None, values or None, sizes or None) for each field, as for `write_fields`. Errors:
    OverflowError where a row is longer than an int32 tells.
    """
    cdef int64_t r, size, field, fields = len(kinds), fixed = bitset_bytes(fields) + 8 * fields
    cdef const uint8_t* bits = address(validity)
    cdef bint good = True
    cdef int32_t* sizes
    cdef Source* sources
    columns = [column for i, column in enumerate(columns) if is_variable(kinds[i])]
    kinds = kinds.translate(None, FIXED_KINDS)
    sources = sources_of(kinds, bytes(len(kinds)), columns)
    fields = len(kinds)
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
    free(sources)
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
    cdef int64_t** children
    cdef Source* sources = sources_of(kinds, digits, columns)
    children = <int64_t**> calloc(max(fields, 1), sizeof(int64_t*))
    if children == NULL:
        free(sources)
        raise MemoryError
    result = [pa.allocate_buffer(8 * n) if is_variable(kinds[i]) else None for i in range(len(kinds))]
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
    free(sources)
    free(children)
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
