# Values that a merge has joined, cut into their elements.

cdef enum Joint:
    ROWS      # rows and their version have a size of 1 modulo 8, and a comma is 44: the next byte tells
    COMMAS
    NOTHING

cdef struct Elements:
    int32_t* offsets   # of the first element of each value, and the number of all
    int32_t* spans     # of the elements; NULL: they are only counted
    int64_t room       # elements that `spans` holds; a way to cut that turns out wrong may find more than the right one
    int64_t count
    int64_t commas     # joints of each kind
    int64_t closed


cdef bint cut(Input* source, int64_t i, Joint joint, Elements* out) noexcept nogil:
    """Cuts one value. False: its sizes do not add up."""
    cdef int64_t at = source.spans[2 * i], end = at + source.spans[2 * i + 1], size
    while at < end:
        if end - at < 4:
            return False
        size = <int32_t> load_le32(source.data + at)
        if size < 0 or size > end - at - 4:
            return False
        if out.count < out.room:
            out.spans[2 * out.count] = <int32_t> (at + 4)
            out.spans[2 * out.count + 1] = <int32_t> size
        out.count += 1
        at += 4 + size
        if at == end:
            return True
        if joint == COMMAS or (joint == ROWS and source.data[at] == COMMA):
            if source.data[at] != COMMA:
                return False
            out.commas += 1
            at += 1
            if at == end:
                return False
        else:
            out.closed += 1
    return True


cdef int64_t cut_all(Input* source, Joint joint, Elements* out) noexcept nogil:
    """Cuts all values; the number of one that is damaged, or -1."""
    cdef int64_t i, count, commas, closed
    cdef Joint other = NOTHING if joint == COMMAS else COMMAS
    for i in range(source.count):
        if out.spans != NULL:
            out.offsets[i] = <int32_t> out.count
        if source.spans[2 * i + 1] < 0:
            continue
        count, commas, closed = out.count, out.commas, out.closed
        if not cut(source, i, joint, out):
            out.count, out.commas, out.closed = count, commas, closed
            if joint == ROWS or not cut(source, i, other, out):
                return i
    if out.spans != NULL:
        out.offsets[source.count] = <int32_t> out.count
    return -1


def elements(data, spans, bint rows, bint commas):
    """Cuts list values into their elements.

    Args:
        rows: whether each element is a version and an UnsafeRow. Then the joints are found, whatever they are.
        commas: how elements of other sizes are joined. Values of which this is not true may be joined the other way.

    Returns:
        (offsets of the values' first elements as int32, spans of the elements, joints with a comma, joints without).

    Raises:
        CorruptFileError: the sizes in a value do not add up.
    """
    cdef Input source = input_of(data, spans)
    cdef Joint joint = ROWS if rows else COMMAS if commas else NOTHING
    cdef Elements out
    cdef int64_t bad
    memset(&out, 0, sizeof(out))
    with nogil:
        bad = cut_all(&source, joint, &out)
    if bad >= 0:
        raise CorruptFileError(
            f"the sizes of elements in a value of {source.spans[2 * bad + 1]} bytes do not add up",
            offset=source.spans[2 * bad],
        )
    found = out.count
    result = pa.allocate_buffer(8 * found)
    offsets = pa.allocate_buffer(4 * (source.count + 1))
    memset(&out, 0, sizeof(out))
    out.room = found
    out.spans = <int32_t*> address(result)
    out.offsets = <int32_t*> address(offsets)
    with nogil:
        cut_all(&source, joint, &out)
    return offsets, result, out.commas, out.closed


cdef bint is_checked(Input* source, int64_t at, int64_t end, uint32_t of_key) noexcept nogil:
    """Whether a checksum, a size and the bytes that they belong to lie there."""
    cdef int64_t size
    if end - at < 8:
        return False
    size = <int32_t> load_le32(source.data + at + 4)
    if size < 0 or size > end - at - 8:
        return False
    return crc32c_update(of_key, source.data + at + 8, size) == load_le32(source.data + at)


def checked(data, keys, spans, int32_t key_start):
    """Verifies the checksums of values, and cuts values that were merged.

    Args:
        key_start: so many bytes in front of the span of a key belong to it, too.

    Returns:
        (offsets of the values' first parts as int32, spans of the parts without their checksums), as of `elements`.

    Raises:
        CorruptFileError: a part does not match its checksum.
    """
    cdef Input source = input_of(data, spans)
    cdef Input key = input_of(data, keys)
    cdef int64_t i, at, end, size, count = 0, bad = -1, room = 0
    cdef uint32_t of_key
    cdef int32_t* offsets_out
    cdef int32_t* out
    if key.count != source.count:
        raise ValueError(f"{key.count} keys and {source.count} values")
    for i in range(source.count):
        room += max(0, source.spans[2 * i + 1]) // 8
    offsets = pa.allocate_buffer(4 * (source.count + 1))
    result = pa.allocate_buffer(8 * room)
    offsets_out = <int32_t*> address(offsets)
    out = <int32_t*> address(result)
    with nogil:
        for i in range(source.count):
            offsets_out[i] = <int32_t> count
            at = source.spans[2 * i]
            end = at + source.spans[2 * i + 1]
            if end < at:
                continue
            if key.spans[2 * i] < key_start or key.spans[2 * i + 1] < 0:
                bad = i
                break
            of_key = crc32c_update(
                0, key.data + key.spans[2 * i] - key_start, <int64_t> key.spans[2 * i + 1] + key_start
            )
            while True:
                if not is_checked(&source, at, end, of_key):
                    # The first part follows no comma.
                    if count == offsets_out[i] or at == end or source.data[at] != COMMA or not is_checked(
                        &source, at + 1, end, of_key
                    ):
                        bad = i
                        break
                    at += 1
                size = <int32_t> load_le32(source.data + at + 4)
                out[2 * count] = <int32_t> (at + 8)
                out[2 * count + 1] = <int32_t> size
                count += 1
                at += 8 + size
                if at == end:
                    break
            if bad >= 0:
                break
        offsets_out[source.count] = <int32_t> count
    if bad >= 0:
        raise CorruptFileError("a value does not match its row checksum", offset=source.spans[2 * bad])
    return offsets, result.slice(0, 8 * count)


def only(offsets, parts):
    """The span of the one part of each value, null where it has none; the arguments are what `checked` returns.

    Raises:
        CorruptFileError: a value has several parts.
    """
    cdef const int32_t* starts = <const int32_t*> address(offsets)
    cdef const int32_t* source = <const int32_t*> address(parts)
    cdef int64_t i, count = offsets.size // 4 - 1, bad = -1
    cdef int32_t* out
    result = pa.allocate_buffer(8 * count)
    out = <int32_t*> address(result)
    with nogil:
        for i in range(count):
            out[2 * i] = 0
            out[2 * i + 1] = -1
            if starts[i + 1] - starts[i] > 1:
                bad = i
                break
            if starts[i + 1] > starts[i]:
                out[2 * i] = source[2 * starts[i]]
                out[2 * i + 1] = source[2 * starts[i] + 1]
    if bad >= 0:
        raise CorruptFileError("a value was merged, and is no list", offset=source[2 * starts[bad]] - 8)
    return result
