# Builds the blocks of one SST file.

cdef enum:
    BLOCK_BYTES = 4096
    RESTART_INTERVAL = 16
    NUMBERS = 30                # bytes of three varints, and more than those of two
    KIND_BYTES = 8

cdef Compress compress_default = fastest_compress()


cdef inline int64_t put_varint(uint8_t* out, uint64_t number) noexcept nogil:
    cdef int64_t at = 0
    while number > 0x7F:
        out[at] = <uint8_t> (number | 0x80)
        number >>= 7
        at += 1
    out[at] = <uint8_t> number
    return at + 1


cdef class Restarts:
    """The restart points of a block that grows."""
    cdef GrowableBuffer offsets
    cdef int64_t count

    def __dealloc__(self):
        buffer_free(&self.offsets)

    cdef bint add(self, int64_t offset) noexcept nogil:
        if not buffer_need(&self.offsets, 4 * (self.count + 2)):
            return False
        store_le32(self.offsets.data + 4 * self.count, <uint32_t> offset)
        self.count += 1
        return True

    cdef int64_t close(self, GrowableBuffer* block, int64_t size) noexcept nogil:
        """Puts them behind the entries, and begins anew. Returns the size of the block; -1: no memory."""
        if not buffer_need(block, size + 4 * self.count + 4 + SLACK):
            return -1
        memcpy(block.data + size, self.offsets.data, 4 * self.count)
        store_le32(block.data + size + 4 * self.count, <uint32_t> self.count)
        size += 4 * self.count + 4
        self.count = 0
        return size


cdef class SstBuilder:
    """An SST file that grows. Its bytes leave with take(); hashes of the keys, the index and one block stay.

    Args:
        file_bytes: no more rows are added when the file has so many bytes.
        after: the last key of the file before.
    """

    cdef GrowableBuffer block, out, index, hashes, last
    cdef Restarts restarts, index_restarts
    cdef int64_t file_bytes, block_size, in_run, out_size, index_size, last_size, waiting_offset, waiting_size
    cdef bint busy
    cdef readonly int64_t size, count, key_bytes, value_bytes, num_blocks
    cdef readonly bytes smallest

    def __cinit__(self, *, int64_t file_bytes, bytes after=None):
        self.restarts = Restarts()
        self.index_restarts = Restarts()
        self.file_bytes = file_bytes
        self.waiting_size = -1
        self.last_size = -1
        if after is not None:
            if not buffer_need(&self.last, len(after) + 1):
                raise MemoryError
            memcpy(self.last.data, <const char*> after, len(after))
            self.last_size = len(after)

    def __dealloc__(self):
        buffer_free(&self.block)
        buffer_free(&self.out)
        buffer_free(&self.index)
        buffer_free(&self.hashes)
        buffer_free(&self.last)

    @property
    def largest(self):
        """The last key."""
        return <bytes> (<const char*> self.last.data)[: self.last_size] if self.last_size >= 0 else None

    @property
    def is_full(self):
        return self.full()

    cdef bint full(self) noexcept nogil:
        # What stays in memory is bounded too, if keys are long or compress well.
        return max(self.size, 4 * self.index_size, 16 * self.count) >= self.file_bytes

    def add(self, data not None, keys not None, values not None, int64_t first=0):
        """Adds rows in the order of their keys, from row `first` on, until all are there or the file is full.

        Args:
            data: bytes of keys and values.
            keys, values: spans in `data`, pairs of int32: offset, size.

        Returns:
            The row after the last one that was added.

        Raises:
            StateStoreError: a key is not behind the one before.
            SizeLimitError: a row has 1 GiB or more.
            ValueError: the spans do not fit.
        """
        cdef const uint8_t[::1] p = memoryview(data).cast("B")
        cdef const int32_t[::1] k = memoryview(keys).cast("B").cast("i")
        cdef const int32_t[::1] v = memoryview(values).cast("B").cast("i")
        cdef int64_t count = k.shape[0] // 2, at = first
        cdef Fault fault = NO_FAULT
        if v.shape[0] != k.shape[0] or k.shape[0] % 2 or first < 0:
            raise ValueError(f"{k.shape[0]} and {v.shape[0]} numbers are no spans of the same rows")
        if at >= count:
            return at
        begin(&self.busy)
        try:
            with nogil:
                if not spans_fit(&k[0], &v[0], at, count, p.shape[0]):
                    with gil:
                        raise ValueError("a span of a row makes no sense")
                if self.count == 0:
                    with gil:
                        self.smallest = bytes(p[k[2 * at] : k[2 * at] + k[2 * at + 1]])
                while fault == NO_FAULT and at < count and not self.full():
                    fault = self.row(&p[0] + k[2 * at], k[2 * at + 1], &p[0] + v[2 * at], v[2 * at + 1])
                    at += fault == NO_FAULT
        finally:
            self.busy = False
        raise_of_build(fault, at)
        return at

    def finish(self):
        """Writes the last data block and its entry of the index."""
        cdef Fault fault
        begin(&self.busy)
        with nogil:
            fault = self.close_block() if self.block_size else NO_FAULT
            if fault == NO_FAULT and self.waiting_size >= 0:
                fault = self.index_entry(self.last.data, self.last_size)
        self.busy = False
        raise_of_build(fault, self.count)

    def add_filter(self):
        """Writes the filter of all keys, and returns its offset and size."""
        cdef int64_t offset = self.size, size = filter_lines(self.count) * LINE + 5
        begin(&self.busy)
        try:
            with nogil:
                if not buffer_need(&self.out, self.out_size + size + TRAILER):
                    with gil:
                        raise MemoryError
                fill_filter(self.out.data + self.out_size, <const uint64_t*> self.hashes.data, self.count)
                self.trail(size, NO_COMPRESSION)
        finally:
            self.busy = False
        return offset, size

    def add_index(self):
        """Writes the index, and returns its offset and size."""
        cdef int64_t offset = self.size
        cdef Fault fault = NO_MEMORY
        begin(&self.busy)
        with nogil:
            self.index_size = self.index_restarts.close(&self.index, self.index_size)
            if self.index_size >= 0:
                fault = self.add_bytes(self.index.data, self.index_size)
        self.busy = False
        raise_of_build(fault, self.count)
        return offset, self.size - TRAILER - offset

    def add_block(self, const uint8_t[::1] block not None):
        """Writes a block without compression, and returns its offset and size. RocksDB wants properties like this."""
        cdef int64_t offset = self.size, size = block.shape[0]
        begin(&self.busy)
        try:
            if not buffer_need(&self.out, self.out_size + size + TRAILER):
                raise MemoryError
            memcpy(self.out.data + self.out_size, &block[0], size)
            self.trail(size, NO_COMPRESSION)
        finally:
            self.busy = False
        return offset, size

    def take(self):
        """The bytes of the file since the last call."""
        begin(&self.busy)
        taken = <bytes> (<const char*> self.out.data)[: self.out_size] if self.out_size else b""
        self.out_size = 0
        self.busy = False
        return taken

    cdef Fault row(self, const uint8_t* key, int64_t key_size, const uint8_t* value, int64_t value_size) noexcept nogil:
        cdef int64_t shared = 0, at = self.block_size
        cdef uint8_t* out
        if key_size + value_size >= MAX_RECORD:
            return TOO_LARGE
        if self.last_size >= 0 and compare_keys(self.last.data, self.last_size, key, key_size) >= 0:
            return BAD_ORDER
        if self.waiting_size >= 0 and self.index_entry(key, key_size) != NO_FAULT:
            return NO_MEMORY
        if at and self.in_run < RESTART_INTERVAL:
            shared = shared_bytes(self.last.data, self.last_size, key, key_size)
        else:
            self.in_run = 0
            if not self.restarts.add(at):
                return NO_MEMORY
        if (
            not buffer_need(&self.block, at + NUMBERS + key_size + KIND_BYTES + value_size)
            or not buffer_need(&self.hashes, 8 * (self.count + 1))
            or not buffer_need(&self.last, key_size + 1)
        ):
            return NO_MEMORY
        out = self.block.data
        at += put_varint(out + at, shared)
        at += put_varint(out + at, key_size - shared + KIND_BYTES)
        at += put_varint(out + at, value_size)
        copy_bytes(out + at, key + shared, key_size - shared)
        at += key_size - shared
        store_le64(out + at, VALUE)     # the sequence number 0, as the rows of RocksDB's last level have
        at += KIND_BYTES
        copy_bytes(out + at, value, value_size)
        self.block_size = at + value_size
        (<uint64_t*> self.hashes.data)[self.count] = xxph3(key, key_size)
        copy_bytes(self.last.data + shared, key + shared, key_size - shared)
        self.last_size = key_size
        self.in_run += 1
        self.count += 1
        self.key_bytes += key_size + KIND_BYTES
        self.value_bytes += value_size
        return self.close_block() if self.block_size + 4 * self.restarts.count + 4 >= BLOCK_BYTES else NO_FAULT

    cdef Fault close_block(self) noexcept nogil:
        cdef int64_t offset = self.size, size = self.restarts.close(&self.block, self.block_size)
        cdef Fault fault
        if size < 0:
            return NO_MEMORY
        fault = self.add_bytes(self.block.data, size)
        if fault == NO_FAULT:
            self.waiting_offset, self.waiting_size = offset, self.size - TRAILER - offset
            self.block_size = 0
            self.in_run = 0
            self.num_blocks += 1
        return fault

    cdef Fault index_entry(self, const uint8_t* next_key, int64_t next_size) noexcept nogil:
        """Adds the entry of the last block: a short key that is not before its last one, and before the next one."""
        cdef int64_t size = self.last_size, at = self.index_size
        cdef int64_t shared = shared_bytes(self.last.data, size, next_key, next_size)
        cdef bint shorter = shared < size and shared < next_size and self.last.data[shared] + 1 < next_key[shared]
        cdef uint8_t* out
        if shorter:
            size = shared + 1
        if not buffer_need(&self.index, at + 2 * NUMBERS + size) or not self.index_restarts.add(at):
            return NO_MEMORY
        out = self.index.data
        out[at] = 0
        at += 1
        at += put_varint(out + at, size)
        copy_bytes(out + at, self.last.data, size)
        at += size
        if shorter:
            out[at - 1] += 1
        at += put_varint(out + at, self.waiting_offset)
        self.index_size = at + put_varint(out + at, self.waiting_size)
        self.waiting_size = -1
        return NO_FAULT

    cdef Fault add_bytes(self, const uint8_t* block, int64_t size) noexcept nogil:
        """Writes a block, compressed if that saves an eighth."""
        cdef int64_t bound = size + size // 255 + 16, start, made
        cdef uint8_t* out
        if bound > INT32_MAX - SLACK:
            return TOO_LARGE
        if not buffer_need(&self.out, self.out_size + bound + NUMBERS):
            return NO_MEMORY
        out = self.out.data + self.out_size
        start = put_varint(out, size)
        made = compress_default(<const char*> block, <char*> out + start, <int> size, <int> bound)
        if 0 < made and made + start < size - size // 8:
            self.trail(start + made, LZ4)
        else:
            memcpy(out, block, size)
            self.trail(size, NO_COMPRESSION)
        return NO_FAULT

    cdef void trail(self, int64_t size, int compression) noexcept nogil:
        """Puts compression and checksum behind the contents of a block."""
        cdef uint8_t* contents = self.out.data + self.out_size
        contents[size] = <uint8_t> compression
        store_le32(contents + size + 1, checksum_of(CHECK_XXH3, contents, size + 1))
        self.out_size += size + TRAILER
        self.size += size + TRAILER


cdef bint spans_fit(
    const int32_t* keys, const int32_t* values, int64_t first, int64_t end, int64_t size
) noexcept nogil:
    cdef int64_t i
    for i in range(2 * first, 2 * end, 2):
        if (
            keys[i] < 0 or keys[i + 1] < 0 or <int64_t> keys[i] + keys[i + 1] > size
            or values[i] < 0 or values[i + 1] < 0 or <int64_t> values[i] + values[i + 1] > size
        ):
            return False
    return True


cdef int raise_of_build(Fault fault, int64_t row) except -1:
    if fault == NO_FAULT:
        return 0
    if fault == BAD_ORDER:
        raise StateStoreError(
            f"the key of row {row} is not behind the key before it", remedy="Sort the rows by the bytes of their keys"
        )
    if fault == TOO_LARGE:
        raise SizeLimitError(f"row {row} has {MAX_RECORD} bytes or more, which no SST file of this release has")
    raise MemoryError
