"""The fixed-length part of UnsafeRows, read into columns and written from them; unsafe_layout.pxd has the layout.

Spark writes it in `UnsafeRowWriter.java`; the checks on reading are those of `UnsafeRowUtils.scala`.
"""

import pyarrow as pa

from hdfsstore.errors import SchemaMismatchError

from prefix cimport begins_with, prefix_error
from unsafe_layout cimport *
from libc.stdlib cimport calloc, free

cdef bytes FIXED_KINDS = b"0?1248md"

cdef enum:
    BLOCK = 256  # rows whose columns are read one after the other, so that the rows stay in the first-level cache

cdef enum Reason:
    GOOD
    PREFIX
    OUTSIDE
    TOO_SHORT
    OTHER_SIZE
    NULL_BITS
    NULL_SLOT
    UNUSED_BITS
    SPAN
    OVERLAP
    DIGITS
    LATE_NULL  # no error: the columns were made for rows without nulls

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
    const int32_t* spans    # with the prefixes
    const uint8_t* prefix
    int32_t prefix_size
    int64_t count
    int64_t fields
    int64_t fixed       # bytes of null bits and slots
    int64_t num_variable    # fields with a variable-length part
    int64_t checked     # so many rows, from the first one on, passed check_rows
    int64_t null_count  # of those
    uint8_t* any_null   # and their null bits, ORed
    bint has_nulls      # whether one of them is null or has a null
    int64_t bad_row     # where reading stopped, and why
    int64_t bad_field
    Reason reason


cdef bint check_rows(Rows* rows, int64_t stop) noexcept nogil:
    """Checks the sizes of the rows up to `stop`, and notes what is null in them."""
    cdef int64_t r, w, offset, size, words = bitset_bytes(rows.fields) >> 3
    cdef uint64_t bits, past_end = past_fields(rows), all_bits = 0
    if check_good_rows(rows, stop):
        return True
    for r in range(rows.checked, stop):
        size = rows.spans[2 * r + 1]
        if size < 0:
            rows.null_count += 1
            continue
        offset = rows.spans[2 * r]
        if offset < 0 or offset + size > rows.data_size:
            return fail(rows, r, -1, OUTSIDE)
        if size < rows.prefix_size or not begins_with(rows.data + offset, rows.prefix, rows.prefix_size):
            return fail(rows, r, -1, PREFIX)
        offset += rows.prefix_size
        size = (size - rows.prefix_size) & ~<int64_t> 7  # Spark < 2.3 wrote stray bytes after a row
        if size < rows.fixed:
            return fail(rows, r, -1, TOO_SHORT)
        if not rows.num_variable and size != rows.fixed:
            return fail(rows, r, -1, OTHER_SIZE)
        if words == 1:
            bits = load_le64(rows.data + offset)
            all_bits |= bits
        else:
            bits = 0
            for w in range(words):
                bits = load_le64(rows.data + offset + 8 * w)
                all_bits |= bits
                store_le64(rows.any_null + 8 * w, load_le64(rows.any_null + 8 * w) | bits)
        if bits & past_end:
            return fail(rows, r, -1, NULL_BITS)
    if words == 1:
        store_le64(rows.any_null, load_le64(rows.any_null) | all_bits)
    rows.has_nulls |= all_bits != 0 or rows.null_count > 0
    rows.checked = stop
    return True


cdef inline uint64_t past_fields(const Rows* rows) noexcept nogil:
    """The null bits of the last word that belong to no field."""
    return ~<uint64_t> 0 << (rows.fields & 63) if rows.fields & 63 else 0


cdef bint check_good_rows(Rows* rows, int64_t stop) noexcept nogil:
    """Does the same as check_rows, without a branch at each row. False: not all are good, or they are not so simple."""
    cdef const int32_t* spans = rows.spans
    cdef const uint8_t* data = rows.data
    cdef const uint8_t* row
    cdef uint32_t offset, size, end, wrong = 0, inexact = 0
    cdef uint32_t data_size = <uint32_t> rows.data_size, fixed = <uint32_t> rows.fixed, length = rows.prefix_size
    cdef uint64_t all_bits = 0, other_prefix = 0, prefix = 0, mask
    cdef int64_t r
    if bitset_bytes(rows.fields) != 8 or length > 8 or rows.fixed > INT32_MAX - 8 or rows.checked == stop:
        return False
    mask = ~<uint64_t> 0 >> (64 - 8 * length) if length else 0
    if length:
        memcpy(&prefix, rows.prefix, length)
    # The highest bit of a difference says that it is negative. Offsets and sizes are 31 bits, or have it themselves.
    for r in range(rows.checked, stop):
        offset, size = <uint32_t> spans[2 * r], <uint32_t> spans[2 * r + 1]
        end = offset + size
        wrong |= offset | size | end | (data_size - end) | (size - length - fixed)
        inexact |= (size - length) ^ fixed
    if wrong >> 31 or (inexact >> 3 and not rows.num_variable):
        return False
    for r in range(rows.checked, stop):
        row = data + <uint32_t> spans[2 * r]
        other_prefix |= load_le64(row) ^ prefix
        all_bits |= load_le64(row + length)
    if other_prefix & mask or all_bits & past_fields(rows):
        return False
    store_le64(rows.any_null, load_le64(rows.any_null) | all_bits)
    rows.has_nulls |= all_bits != 0 or rows.null_count > 0
    rows.checked = stop
    return True


cdef bint fail(Rows* rows, int64_t row, int64_t field, Reason reason) noexcept nogil:
    rows.bad_row = row
    rows.bad_field = field
    rows.reason = reason
    return False


# Reads the slots of rows into Arrow columns.
include "unsafe/row_reader.pxi"
# Writes Arrow columns as the null bits and slots of rows.
include "unsafe/row_writer.pxi"


def read_fields(data, spans, bytes kinds, bytes digits, list paths, str path, bytes prefix not None=b""):
    """The columns of rows.

    Args:
        data, spans: pyarrow buffers: bytes, and (offset, size) as int32 pairs; size -1 is a null row.
        kinds, digits: a letter (see unsafe_layout.pxd) and the digits of a decimal, or 0, for each field.
        paths, path: the fields' and the struct's own names, for errors.
        prefix: the bytes in front of each row, which are part of its span.

    Returns:
        (null_count, validity or None) of the rows, and for each field (null_count, validity or None, values or None):
        Arrow's values for a field that fits its slot, else spans of data as a new buffer of int32 pairs.

    Raises:
        SchemaMismatchError: the rows are not of these fields.
        CorruptFileError, UnsupportedVersionError: one has another prefix.
    """
    cdef Rows rows
    cdef Column* columns
    cdef int64_t r, n = spans.size // 8
    cdef uint8_t* row_bits
    cdef bint good
    memset(&rows, 0, sizeof(rows))
    rows.data = address(data)
    rows.data_size = min(<int64_t> data.size, INT32_MAX)  # spans of nested values tell no more
    rows.spans = <const int32_t*> address(spans)
    rows.count = n
    rows.prefix = prefix
    rows.prefix_size = <int32_t> len(prefix)
    rows.fields = len(kinds)
    rows.fixed = bitset_bytes(rows.fields) + 8 * rows.fields
    rows.num_variable = len(kinds.translate(None, FIXED_KINDS))
    null_bits = bytearray(bitset_bytes(rows.fields))
    rows.any_null = null_bits

    buffers = []
    columns = <Column*> calloc(max(rows.fields, 1), sizeof(Column))
    if columns == NULL:
        raise MemoryError
    try:
        # Where the first rows have no null, the others seldom have one: they are checked while they are read.
        good = check_rows(&rows, min(n, <int64_t> BLOCK))
        while good:
            if rows.has_nulls:
                with nogil:
                    good = check_rows(&rows, n)
                if not good:
                    break
            buffers = new_columns(&rows, columns, kinds, digits)
            with nogil:
                good = read_columns(&rows, columns)
            if good or rows.reason != LATE_NULL:
                break
            good = True
        if not good:
            if rows.reason == PREFIX:
                raise prefix_error(
                    rows.data, rows.spans[2 * rows.bad_row], rows.spans[2 * rows.bad_row + 1], prefix
                )
            raise failure(&rows, paths, path)
        fields = [(columns[i].null_count, validity, values) for i, (validity, values) in enumerate(buffers)]
    finally:
        free(columns)

    row_validity = None
    if rows.null_count:
        row_validity = zeroed(pa.allocate_buffer((n + 7) // 8))
        row_bits = address(row_validity)
        with nogil:
            for r in range(n):
                if rows.spans[2 * r + 1] >= 0:
                    set_bit(row_bits, r)
    return rows.null_count, row_validity, fields


cdef list new_columns(const Rows* rows, Column* columns, bytes kinds, bytes digits):
    """Makes (validity or None, values or None) for each field, with room for all rows; nulls as in checked rows."""
    cdef int64_t field, n = rows.count
    cdef Column* column
    buffers = []
    for field in range(rows.fields):
        column = &columns[field]
        column.kind = <char> kinds[field]
        column.bound = 10 ** min(int(digits[field]), 18)
        column.has_nulls = rows.null_count > 0 or get_bit(rows.any_null, field)
        validity = values = None
        if column.has_nulls and not is_variable(column.kind) and column.kind != c"0":
            validity = zeroed(pa.allocate_buffer((n + 7) // 8))
        if column.kind == c"?":
            values = zeroed(pa.allocate_buffer((n + 7) // 8))
        elif is_variable(column.kind):
            values = pa.allocate_buffer(8 * n)
        elif column.kind != c"0":
            width = arrow_bytes(column.kind)
            values = zeroed(pa.allocate_buffer(width * n)) if column.has_nulls else pa.allocate_buffer(width * n)
        column.validity = address(validity)
        column.values = address(values)
        column.null_count = 0
        buffers.append((validity, values))
    return buffers


cdef failure(Rows* rows, list paths, str path):
    cdef int64_t before = 0 if rows.reason == OUTSIDE else rows.prefix_size
    cdef int64_t size = rows.spans[2 * rows.bad_row + 1] - before
    cdef int64_t offset = rows.spans[2 * rows.bad_row] + before
    what = f"a row of {size} bytes" if not path else f"a struct of {size} bytes in field {path!r}"
    field = f"field {paths[rows.bad_field]!r}" if rows.bad_field >= 0 else "a field"
    if rows.reason == OUTSIDE:
        why = f"lies outside of the first {rows.data_size} bytes of data"
    elif rows.reason == TOO_SHORT:
        why = f"is too short: {rows.fields} fields need at least {rows.fixed} bytes"
    elif rows.reason == OTHER_SIZE:
        why = f"has another size than the {rows.fixed} bytes of its {rows.fields} fields"
    elif rows.reason == NULL_BITS:
        why = f"has null bits past its {rows.fields} fields"
    elif rows.reason == NULL_SLOT:
        why = f"has a value where {field} is null"
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
