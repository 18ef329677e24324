# Compresses and writes the blocks of a stream.

cdef extern from "Python.h":
    PyObject* PyBytes_FromStringAndSize(const char* value, Py_ssize_t size) except NULL
    char* PyBytes_AS_STRING(PyObject* string) nogil
    int _PyBytes_Resize(PyObject** string, Py_ssize_t size) except -1

cdef enum:
    # The largest body that lz4 makes of a block.
    BOUND = BLOCK_SIZE + BLOCK_SIZE // 255 + 16

cdef Compress compress_default = fastest_compress()


cdef class Lz4BlockWriter:
    cdef Compress compress
    cdef uint8_t[BLOCK_SIZE] pending  # the start of a block
    cdef Py_ssize_t pending_size
    cdef bint busy

    def __cinit__(self, *, bint portable=False):
        self.compress = compress_by_python if portable else compress_default
        self.pending_size = 0

    def write(self, data):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            begin(&self.busy)
            try:
                return self.blocks_of(<const uint8_t*> view.buf, view.len)
            finally:
                self.busy = False
        finally:
            PyBuffer_Release(&view)

    def finish(self):
        begin(&self.busy)
        try:
            return self.last_blocks()
        finally:
            self.busy = False

    cdef bytes last_blocks(self):
        cdef PyObject* out = PyBytes_FromStringAndSize(NULL, 2 * HEADER_SIZE + BOUND)
        cdef uint8_t* target = <uint8_t*> PyBytes_AS_STRING(out)
        cdef const uint8_t* block = self.pending
        cdef Py_ssize_t size = 0
        if self.pending_size:
            with nogil:
                size = self.encode(&block, 1, self.pending_size, target)
            self.pending_size = 0
        store_header(target + size, RAW, 0, 0, 0)
        return resized(out, size + HEADER_SIZE)

    cdef bytes blocks_of(self, const uint8_t* p, Py_ssize_t size):
        """Encodes the blocks that are full now."""
        cdef Py_ssize_t count = (self.pending_size + size) // BLOCK_SIZE
        cdef PyObject* out = PyBytes_FromStringAndSize(NULL, count * (HEADER_SIZE + BOUND))
        cdef uint8_t* target = <uint8_t*> PyBytes_AS_STRING(out)
        cdef const uint8_t* blocks[8]
        cdef int gathered = 0
        cdef Py_ssize_t written = 0, part
        with nogil:
            if self.pending_size:
                part = min(size, BLOCK_SIZE - self.pending_size)
                memcpy(self.pending + self.pending_size, p, part)
                self.pending_size += part
                p += part
                size -= part
                if self.pending_size == BLOCK_SIZE:
                    self.pending_size = 0
                    blocks[0] = self.pending
                    gathered = 1
            while size >= BLOCK_SIZE:
                blocks[gathered] = p
                gathered += 1
                p += BLOCK_SIZE
                size -= BLOCK_SIZE
                if gathered == 8:
                    written += self.encode(blocks, 8, BLOCK_SIZE, target + written)
                    gathered = 0
            if gathered:
                written += self.encode(blocks, gathered, BLOCK_SIZE, target + written)
            if size:
                memcpy(self.pending, p, size)
                self.pending_size = size
        return resized(out, written)

    cdef Py_ssize_t encode(
        self, const uint8_t** blocks, int count, Py_ssize_t size, uint8_t* target
    ) noexcept nogil:
        """Writes 1 to 8 blocks of one size. The target has room for the largest body of each."""
        cdef uint32_t[8] hashes
        cdef uint8_t* at = target
        cdef int i, body
        xxh32_of_each(hashes, blocks, count, size, SEED)
        for i in range(count):
            body = self.compress(<const char*> blocks[i], <char*> at + HEADER_SIZE, <int> size, BOUND)
            if body < size:
                store_header(at, LZ4, body, <uint32_t> size, hashes[i] & CHECK_MASK)
            else:
                body = <int> size
                memcpy(at + HEADER_SIZE, blocks[i], size)
                store_header(at, RAW, body, <uint32_t> size, hashes[i] & CHECK_MASK)
            at += HEADER_SIZE + body
        return at - target


cdef inline void store_header(uint8_t* p, int method, uint32_t size, uint32_t raw_size, uint32_t check) noexcept nogil:
    memcpy(p, MAGIC, 8)
    p[8] = <uint8_t> (method | BLOCK_SIZE_NIBBLE)
    store_le32(p + 9, size)
    store_le32(p + 13, raw_size)
    store_le32(p + 17, check)


cdef bytes resized(PyObject* out, Py_ssize_t size):
    _PyBytes_Resize(&out, size)
    result = <bytes> out
    Py_DECREF(result)
    return result
