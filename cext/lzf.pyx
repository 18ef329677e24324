"""The body of an LZF chunk (Marc Lehmann's LibLZF format): sequences of

    000lllll                     l + 1 bytes follow, to be copied
    lllooooo oooooooo            copy l + 2 bytes (l = 1 to 6) from o + 1 bytes before
    111ooooo llllllll oooooooo   copy l + 9 bytes from o + 1 bytes before

No library does it that is kept up, so here it is; hdfsstore/codecs/block_streams.py has the chunks around it.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint32_t, uint8_t
from libc.string cimport memcpy, memset

cdef enum:
    MAX_LITERALS = 32
    MAX_DISTANCE = 1 << 13
    MAX_COPY = 255 + 9
    HASH_BITS = 13


def decode(const uint8_t[::1] data, Py_ssize_t raw_size):
    cdef bytes result = PyBytes_FromStringAndSize(NULL, raw_size)
    cdef uint8_t* target = <uint8_t*> PyBytes_AS_STRING(result)
    cdef bint good = False
    if data.shape[0] > 0:
        with nogil:
            good = _decode(&data[0], data.shape[0], target, raw_size)
    if not good:
        raise ValueError("not LZF data of the declared length")
    return result


cdef bint _decode(const uint8_t* data, Py_ssize_t size, uint8_t* target, Py_ssize_t raw_size) noexcept nogil:
    cdef Py_ssize_t at = 0, filled = 0, length, distance, i
    cdef int control
    while at < size:
        control = data[at]
        at += 1
        if control < MAX_LITERALS:
            length = control + 1
            if length > size - at or length > raw_size - filled:
                return False
            memcpy(target + filled, data + at, length)
            at += length
            filled += length
            continue
        length = (control >> 5) + 2
        if length == 7 + 2:
            if at == size:
                return False
            length += data[at]
            at += 1
        if at == size:
            return False
        distance = ((control & 0x1F) << 8 | data[at]) + 1
        at += 1
        if distance > filled or length > raw_size - filled:
            return False
        # Byte by byte: source and target overlap where the distance is the shorter one.
        for i in range(filled, filled + length):
            target[i] = target[i - distance]
        filled += length
    return filled == raw_size


def encode(const uint8_t[::1] data):
    cdef Py_ssize_t size = data.shape[0]
    # The worst case is all literals: one byte more for each 32.
    cdef bytes result = PyBytes_FromStringAndSize(NULL, size + size // MAX_LITERALS + 1)
    cdef uint8_t* target = <uint8_t*> PyBytes_AS_STRING(result)
    cdef Py_ssize_t filled = 0
    if size > 0:
        with nogil:
            filled = _encode(&data[0], size, target)
    return result[:filled]


cdef Py_ssize_t _encode(const uint8_t* data, Py_ssize_t size, uint8_t* target) noexcept nogil:
    cdef int32_t[1 << HASH_BITS] newest  # by hash of three bytes: where they were seen last
    cdef Py_ssize_t at = 0, literals = 0, filled = 0, seen, length, longest
    cdef uint32_t three
    memset(newest, 0xFF, sizeof(newest))
    while at + 2 < size:
        three = (<uint32_t> data[at] << 16 | <uint32_t> data[at + 1] << 8 | data[at + 2]) * <uint32_t> 0x9E3779B1
        three >>= 32 - HASH_BITS
        seen = newest[three]
        newest[three] = <int32_t> at
        length = 0
        if seen >= 0 and at - seen <= MAX_DISTANCE:
            longest = min(size - at, MAX_COPY)
            while length < longest and data[seen + length] == data[at + length]:
                length += 1
        if length < 3:
            at += 1
            continue
        filled = _put_literals(data + literals, at - literals, target, filled)
        filled = _put_copy(length, at - seen - 1, target, filled)
        at += length
        literals = at
    return _put_literals(data + literals, size - literals, target, filled)


cdef Py_ssize_t _put_literals(const uint8_t* data, Py_ssize_t size, uint8_t* target, Py_ssize_t filled) noexcept nogil:
    cdef Py_ssize_t run
    while size > 0:
        run = min(size, MAX_LITERALS)
        target[filled] = <uint8_t> (run - 1)
        memcpy(target + filled + 1, data, run)
        filled += 1 + run
        data += run
        size -= run
    return filled


cdef Py_ssize_t _put_copy(Py_ssize_t length, Py_ssize_t back, uint8_t* target, Py_ssize_t filled) noexcept nogil:
    if length < 9:
        target[filled] = <uint8_t> ((length - 2) << 5 | back >> 8)
    else:
        target[filled] = <uint8_t> (7 << 5 | back >> 8)
        filled += 1
        target[filled] = <uint8_t> (length - 9)
    target[filled + 1] = <uint8_t> (back & 0xFF)
    return filled + 2
