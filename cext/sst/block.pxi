# Checks and decompresses blocks.

cdef enum:
    NO_COMPRESSION = 0
    LZ4 = 4
    LZ4HC = 5

    CHECK_NOTHING = 0
    CHECK_CRC32C = 1
    CHECK_XXH32 = 2
    CHECK_XXH64 = 3
    CHECK_XXH3 = 4

cdef Decompress decompress_safe = fastest_decompress()


cdef uint32_t checksum_of(int kind, const uint8_t* p, size_t size) noexcept nogil:
    """The checksum of 1 byte or more, the last of which is the byte that names the compression."""
    cdef uint32_t crc
    if kind == CHECK_XXH3:
        return <uint32_t> xxh3(p, size - 1) ^ (p[size - 1] * <uint32_t> 0x6B9083D9)
    if kind == CHECK_CRC32C:
        crc = crc32c_update(0, p, size)
        return ((crc >> 15) | (crc << 17)) + <uint32_t> 0xA282EAD8
    if kind == CHECK_XXH32:
        return xxh32(p, size, 0)
    return <uint32_t> xxh64(p, size)


cdef uint32_t context_at(uint32_t context, uint64_t offset) noexcept nogil:
    """What format 6 adds to the checksum of a block at this offset, so that no block passes in another's place."""
    return context ^ (<uint32_t> offset + <uint32_t> (offset >> 32)) if context else 0


cdef bint is_whole(const uint8_t* p, size_t size, int kind, uint32_t context, uint64_t offset) noexcept nogil:
    """Compares the checksum of a block of `size` bytes of contents."""
    if kind == CHECK_NOTHING:
        return True
    return checksum_of(kind, p, size + 1) + context_at(context, offset) == load_le32(p + size + 1)


cdef Py_ssize_t read_varint(const uint8_t* p, Py_ssize_t size, uint64_t* number) noexcept nogil:
    """Reads a number of at most 64 bits, and returns its bytes; 0: there is none."""
    cdef Py_ssize_t at = 0
    cdef uint64_t found = 0
    while at < size and at < 10:
        found |= <uint64_t> (p[at] & 0x7F) << (7 * at)
        if p[at] < 0x80:
            if at == 9 and p[at] > 1:
                return 0
            number[0] = found
            return at + 1
        at += 1
    return 0


cdef Py_ssize_t plain_size(const uint8_t* p, Py_ssize_t size, uint64_t* plain) noexcept nogil:
    """Reads the declared size in front of a compressed body. Returns where the body begins; 0: there is no size."""
    cdef Py_ssize_t at = read_varint(p, size, plain)
    return at if plain[0] <= INT32_MAX - SLACK else 0


def check_block(block, int checksum, uint32_t context, uint64_t offset):
    """Whether a block's checksum matches.

    Args:
        block: contents, compression and checksum.
        checksum: the kind, from the footer.
        context: base context checksum of the footer of format 6, otherwise 0.
        offset: of the block in the file.
    """
    cdef Py_buffer view
    PyObject_GetBuffer(block, &view, PyBUF_SIMPLE)
    try:
        return view.len >= TRAILER and is_whole(
            <const uint8_t*> view.buf, view.len - TRAILER, checksum, context, offset
        )
    finally:
        PyBuffer_Release(&view)


def footer_checksum(footer, int checksum, uint32_t context, uint64_t offset):
    """The checksum of a footer of format 6, in which the bytes of the checksum are 0."""
    cdef Py_buffer view
    cdef uint32_t found = 0
    PyObject_GetBuffer(footer, &view, PyBUF_SIMPLE)
    try:
        if view.len and checksum != CHECK_NOTHING:
            found = checksum_of(checksum, <const uint8_t*> view.buf, view.len)
        return <uint32_t> (found + context_at(context, offset))
    finally:
        PyBuffer_Release(&view)
