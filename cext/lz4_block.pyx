"""Reads and writes lz4-java's block stream (LZ4BlockOutputStream), Spark's codec lz4.

    8 bytes   "LZ4Block"
    1 byte    high nibble: 1 = raw, 2 = lz4; low nibble: log2(largest raw length) - 10
    int32 LE  length of the body
    int32 LE  length of the body once decoded (raw length)
    int32 LE  xxHash32(decoded body, seed 0x9747B28C) & 0x0FFFFFFF
    bytes     body

A block with both lengths and the check 0 ends a stream. Another stream may follow. Spark writes blocks of 32 KiB.
"""
import lz4.block

from hdfsstore.errors import CorruptFileError

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_FromStringAndSize
from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.string cimport memcmp, memcpy, memmove

from byteorder cimport load_le32, store_le32
from lz4_functions cimport (
    Compress, Decompress, compress_by_python, decompress_by_python, fastest_compress, fastest_decompress
)
from one_thread cimport begin
from xxh32 cimport xxh32, xxh32_of_each

cdef enum:
    HEADER_SIZE = 21
    RAW = 0x10
    LZ4 = 0x20
    SEED = 0x9747B28C
    CHECK_MASK = 0x0FFFFFFF
    INPUT_SIZE = 1024 * 1024
    BLOCK_SIZE = 32 * 1024
    BLOCK_SIZE_NIBBLE = 15 - 10

cdef const char* MAGIC = b"LZ4Block"

cdef Decompress decompress_safe = fastest_decompress()


cdef struct Block:
    int method
    uint32_t size
    uint32_t raw_size
    uint32_t check


cdef struct Unchecked:
    # Decoded blocks of one raw size with unchecked checksums. Hashing eight of them together is faster.
    int count
    uint32_t raw_size
    const uint8_t* targets[8]
    uint32_t[8] checks
    Py_ssize_t[8] positions


cdef enum Step:
    FULL
    INPUT_NEEDED
    SPILL_NEEDED
    BAD_MAGIC
    BAD_HEADER
    BAD_BODY
    BAD_CHECK

cdef dict PROBLEMS = {
    BAD_MAGIC: "no lz4 block begins here",
    BAD_HEADER: "the header of this lz4 block contradicts itself",
    BAD_BODY: "the body of this lz4 block does not decode to its declared length",
    BAD_CHECK: "the checksum of this lz4 block does not match its bytes",
}


cdef class Lz4BlockReader:
    cdef object raw
    cdef str path
    cdef Decompress decompress
    # Compressed bytes. input[position:end] is not decoded yet; input[0] is at this offset in the file.
    cdef bytearray input
    cdef uint8_t* compressed  # input's bytes, for use without the GIL
    cdef Py_ssize_t position, end
    cdef int64_t offset
    # A decoded block that did not fit into the caller's buffer. spill[spilled:] is not handed out yet.
    cdef bytearray spill
    cdef Py_ssize_t spilled
    cdef bint ended  # the last block read was an end mark
    cdef bint busy

    def __cinit__(self, raw, str path, *, bint portable=False):
        self.raw = raw
        self.path = path
        self.decompress = decompress_by_python if portable else decompress_safe
        self.input = PyByteArray_FromStringAndSize(NULL, INPUT_SIZE)  # without zeros, which would take memory
        self.compressed = <uint8_t*> <char*> self.input
        self.position = self.end = self.offset = self.spilled = 0
        self.spill = bytearray()
        self.ended = False

    def readinto(self, buffer):
        cdef Py_buffer view
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            begin(&self.busy)
            try:
                return self.fill(<uint8_t*> view.buf, view.len)
            finally:
                self.busy = False
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t fill(self, uint8_t* target, Py_ssize_t room) except -1:
        cdef Py_ssize_t filled = self.unspill(target, room)
        cdef Step step
        cdef Block block
        cdef Unchecked unchecked
        cdef uint8_t* spill
        while filled < room:
            with nogil:
                step = self.decode(target, room, &filled)
            if step == SPILL_NEEDED:
                self.parse_header(&block)
                self.spill = bytearray(block.raw_size)
                self.spilled = block.raw_size
                spill = <uint8_t*> <char*> self.spill
                unchecked.count = 0
                with nogil:
                    step = self.decode_block(&block, spill, &unchecked)
                    if step == FULL:
                        step = self.check(&unchecked)
                if step == FULL:
                    self.spilled = 0
                    filled += self.unspill(target + filled, room - filled)
            if step == INPUT_NEEDED and not self.read_input():
                if self.ended and self.position == self.end:
                    break
                raise CorruptFileError("the lz4 stream is cut off", self.path, self.offset + self.end)
            if step in PROBLEMS:
                raise CorruptFileError(PROBLEMS[step], self.path, self.offset + self.position)
        return filled

    cdef Step decode(self, uint8_t* target, Py_ssize_t room, Py_ssize_t* filled) noexcept nogil:
        cdef Block block
        cdef Unchecked unchecked
        cdef Step step = FULL
        unchecked.count = 0
        while step == FULL and filled[0] < room:
            step = self.parse_header(&block)
            if step != FULL:
                break
            if block.raw_size == 0:
                self.position += HEADER_SIZE
                self.ended = True
                continue
            if block.raw_size > room - filled[0]:
                step = SPILL_NEEDED
                break
            if unchecked.count == 8 or (unchecked.count and block.raw_size != unchecked.raw_size):
                step = self.check(&unchecked)
                if step != FULL:
                    return step
            step = self.decode_block(&block, target + filled[0], &unchecked)
            if step == FULL:
                filled[0] += block.raw_size
        # A wrong checksum of an earlier block is reported first.
        return step if self.check(&unchecked) == FULL else BAD_CHECK

    cdef Step check(self, Unchecked* unchecked) noexcept nogil:
        """Compares the checksums. The position goes back to a block whose checksum is wrong."""
        cdef uint32_t[8] hashes
        cdef int i
        xxh32_of_each(hashes, unchecked.targets, unchecked.count, unchecked.raw_size, SEED)
        for i in range(unchecked.count):
            if hashes[i] & CHECK_MASK != unchecked.checks[i]:
                self.position = unchecked.positions[i]
                return BAD_CHECK
        unchecked.count = 0
        return FULL

    cdef Step parse_header(self, Block* block) noexcept nogil:
        """Parses the next header. FULL: its lengths are plausible, and the whole block is in self.input."""
        cdef Py_ssize_t there = self.end - self.position
        cdef const uint8_t* p = self.compressed + self.position
        if there < HEADER_SIZE:
            return INPUT_NEEDED
        if memcmp(p, MAGIC, 8) != 0:
            return BAD_MAGIC
        block.method = p[8] & 0xF0
        block.size = load_le32(p + 9)
        block.raw_size = load_le32(p + 13)
        block.check = load_le32(p + 17)
        if (
            (block.method != RAW and block.method != LZ4)
            or block.raw_size > <uint32_t> 1 << ((p[8] & 0x0F) + 10)
            or (block.raw_size == 0 and (block.size != 0 or block.check != 0))
            or (block.method == RAW and block.size != block.raw_size)
            # lz4 adds at most 1/255 to bytes that it cannot compress, and no byte of a body decodes to more than 255.
            or block.size > block.raw_size + block.raw_size // 255 + 16
            or block.raw_size // 255 > block.size
        ):
            return BAD_HEADER
        return INPUT_NEEDED if there - HEADER_SIZE < block.size else FULL

    cdef Step decode_block(self, const Block* block, uint8_t* target, Unchecked* unchecked) noexcept nogil:
        cdef const uint8_t* body = self.compressed + self.position + HEADER_SIZE
        if block.method == RAW:
            memcpy(target, body, block.size)
        elif self.decompress(<const char*> body, <char*> target, block.size, block.raw_size) != <int> block.raw_size:
            return BAD_BODY
        unchecked.raw_size = block.raw_size
        unchecked.targets[unchecked.count] = target
        unchecked.checks[unchecked.count] = block.check
        unchecked.positions[unchecked.count] = self.position
        unchecked.count += 1
        self.position += HEADER_SIZE + block.size
        self.ended = False
        return FULL

    cdef bint read_input(self) except -1:
        """Appends compressed bytes to the input. False at the end of the file."""
        cdef Py_ssize_t left = self.end - self.position
        memmove(self.compressed, self.compressed + self.position, left)
        self.offset += self.position
        self.position = 0
        self.end = left
        if left == len(self.input):  # the block is larger than the buffer, which the file has filled
            self.input = self.input + bytearray(left)
            self.compressed = <uint8_t*> <char*> self.input
        cdef Py_ssize_t size = self.raw.readinto(memoryview(self.input)[left:])
        if not 0 <= size <= len(self.input) - left:
            raise ValueError(f"readinto of {self.raw!r} returned {size}")
        self.end += size
        return size > 0

    cdef Py_ssize_t unspill(self, uint8_t* target, Py_ssize_t room) noexcept:
        cdef Py_ssize_t size = min(room, len(self.spill) - self.spilled)
        if size > 0:
            memcpy(target, <char*> self.spill + self.spilled, size)
            self.spilled += size
        return size


# Lz4BlockWriter compresses and writes the blocks of a stream.
include "lz4_block/writer.pxi"


def xxhash32(data, uint32_t seed=0):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return xxh32(<const uint8_t*> view.buf, view.len, seed)
    finally:
        PyBuffer_Release(&view)
