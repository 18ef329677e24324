"""Records of a delta or snapshot file, after decompression (HDFSBackedStateStoreProvider of Spark).

    record   int32 BE key size | key | int32 BE value size, -1 = tombstone (deltas only) | value
    end      int32 BE -1

With row checksums (StateStoreRowChecksum of Spark) a CRC-32C lies in front of the last part of each record:

    put        key as it is             value = int32 LE CRC-32C(key, value) | value
    tombstone  key = int32 LE CRC-32C(key) | key

Value sizes that are no multiple of 8 (Spark before 2.3 left 4 stray bytes behind) are left to the row codec.
"""

from libc.stdint cimport INT32_MAX, int32_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

import pyarrow as pa

from byteorder cimport load_be32, load_le32, store_be32, store_le32
from crc32c_inline cimport crc32c_update

from hdfsstore.errors import CorruptFileError


cdef enum Fault:
    OK = 0
    BAD_KEY_SIZE
    BAD_VALUE_SIZE
    TOMBSTONE_IN_SNAPSHOT
    RECORD_TOO_LARGE
    TOO_SHORT_FOR_CHECKSUM
    BAD_CHECKSUM
    OUT_OF_MEMORY


cdef class RecordParser:
    """Parses records window by window into spans: pairs of native int32 (offset in the window, size), -1 = tombstone.

    Args:
        row_checksums: whether the rows carry checksums; they are verified.
        tombstones: whether a record may be a tombstone (deltas), or not (snapshots).
        max_record_bytes: a key or value that declares more than this is refused.
        max_records: `parse` stops after so many records; 0 = no bound.
    """

    cdef int32_t* key_spans
    cdef int32_t* value_spans
    cdef Py_ssize_t capacity, max_records, count
    cdef readonly Py_ssize_t consumed
    cdef readonly bint ended
    cdef bint row_checksums, tombstones
    cdef int32_t max_record_bytes

    def __cinit__(self, *, bint row_checksums, bint tombstones, Py_ssize_t max_record_bytes, Py_ssize_t max_records=0):
        self.row_checksums = row_checksums
        self.tombstones = tombstones
        self.max_record_bytes = <int32_t> min(max_record_bytes, INT32_MAX - 16)
        self.max_records = max_records

    def __dealloc__(self):
        free(self.key_spans)
        free(self.value_spans)

    cdef bint grow(self) noexcept nogil:
        cdef Py_ssize_t capacity = max(self.capacity * 2, 1024)
        cdef int32_t* grown = <int32_t*> realloc(self.key_spans, capacity * 8)
        if grown == NULL:
            return False
        self.key_spans = grown
        grown = <int32_t*> realloc(self.value_spans, capacity * 8)
        if grown == NULL:
            return False
        self.value_spans = grown
        self.capacity = capacity
        return True

    def parse(self, const uint8_t[::1] window not None, Py_ssize_t size):
        """Parses the complete records in the first `size` bytes of `window` and returns how many there are.

        Afterwards `consumed` is where the next record starts (behind the end mark when `ended`), and `keys` and
        `values` hold the spans until the next call. A record that goes on behind `size` is left for the next window.

        Raises:
            CorruptFileError: sizes or checksums are wrong, or a record is larger than max_record_bytes; `offset` counts
                from the start of the window.
        """
        cdef Fault fault
        if size > window.shape[0] or size > INT32_MAX:
            raise ValueError(f"a window of {window.shape[0]} bytes does not hold {size}")
        self.count = 0
        self.consumed = 0
        self.ended = False
        if size == 0:
            return 0
        with nogil:
            fault = self.scan(&window[0], size)
        if fault == OUT_OF_MEMORY:
            raise MemoryError
        if fault != OK:
            self.fail(fault, &window[0])
        return self.count

    cdef Fault scan(self, const uint8_t* data, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t at = 0, value_at
        cdef int32_t key_size, value_size, key_offset, value_offset
        cdef int32_t* span
        cdef uint32_t crc
        while self.max_records == 0 or self.count < self.max_records:
            self.consumed = at
            if at + 4 > size:
                return OK
            key_size = <int32_t> load_be32(data + at)
            if key_size < 0:
                if key_size != -1:
                    return BAD_KEY_SIZE
                self.consumed = at + 4
                self.ended = True
                return OK
            if key_size > self.max_record_bytes:
                return RECORD_TOO_LARGE
            value_at = at + 4 + key_size
            if value_at + 4 > size:
                return OK
            value_size = <int32_t> load_be32(data + value_at)
            key_offset = <int32_t> (at + 4)
            value_offset = <int32_t> (value_at + 4)
            if value_size < 0:
                if value_size != -1:
                    return BAD_VALUE_SIZE
                if not self.tombstones:
                    return TOMBSTONE_IN_SNAPSHOT
                at = value_offset
                if self.row_checksums:
                    if key_size < 4:
                        return TOO_SHORT_FOR_CHECKSUM
                    key_offset += 4
                    key_size -= 4
                    if crc32c_update(0, data + key_offset, key_size) != load_le32(data + key_offset - 4):
                        return BAD_CHECKSUM
            else:
                if value_size > self.max_record_bytes:
                    return RECORD_TOO_LARGE
                at = <Py_ssize_t> value_offset + value_size
                if at > size:
                    return OK
                if self.row_checksums:
                    if value_size < 4:
                        return TOO_SHORT_FOR_CHECKSUM
                    value_offset += 4
                    value_size -= 4
                    crc = crc32c_update(0, data + key_offset, key_size)
                    if crc32c_update(crc, data + value_offset, value_size) != load_le32(data + value_offset - 4):
                        return BAD_CHECKSUM
            if self.count == self.capacity and not self.grow():
                return OUT_OF_MEMORY
            span = self.key_spans + 2 * self.count
            span[0] = key_offset
            span[1] = key_size
            span = self.value_spans + 2 * self.count
            span[0] = value_offset
            span[1] = value_size
            self.count += 1
        self.consumed = at
        return OK

    cdef object fail(self, Fault fault, const uint8_t* data):
        cdef Py_ssize_t at = self.consumed
        cdef int32_t key_size = <int32_t> load_be32(data + at), value_size
        if fault == BAD_KEY_SIZE:
            raise CorruptFileError(f"a record declares a key of {key_size} bytes", offset=at)
        if fault == RECORD_TOO_LARGE and key_size > self.max_record_bytes:
            raise CorruptFileError(
                f"a record declares a key of {key_size} bytes, more than the {self.max_record_bytes} allowed",
                offset=at, remedy="The file is damaged; only if the store really holds such a key, raise max_record_bytes",
            )
        value_size = <int32_t> load_be32(data + at + 4 + key_size)
        if fault == RECORD_TOO_LARGE:
            raise CorruptFileError(
                f"a record declares a value of {value_size} bytes, more than the {self.max_record_bytes} allowed",
                offset=at, remedy="The file is damaged; only if the store really holds such a value, raise max_record_bytes",
            )
        if fault == BAD_VALUE_SIZE:
            raise CorruptFileError(f"a record declares a value of {value_size} bytes", offset=at)
        if fault == TOMBSTONE_IN_SNAPSHOT:
            raise CorruptFileError("a snapshot holds a tombstone, which only a delta may", offset=at)
        if fault == TOO_SHORT_FOR_CHECKSUM:
            raise CorruptFileError("a record is too short for its row checksum", offset=at)
        raise CorruptFileError("a record does not match its row checksum", offset=at)

    @property
    def keys(self):
        """Spans of the keys of the last `parse` (a pyarrow.Buffer that is valid until the next one)."""
        return pa.foreign_buffer(<size_t> self.key_spans, self.count * 8, self)

    @property
    def values(self):
        """Spans of the values of the last `parse` (a pyarrow.Buffer that is valid until the next one)."""
        return pa.foreign_buffer(<size_t> self.value_spans, self.count * 8, self)


cdef const int32_t* spans_of(object buffer, Py_ssize_t* count) except? NULL:
    cdef size_t address = buffer.address
    count[0] = buffer.size // 8
    return <const int32_t*> address


def encode_records(
    key_bytes not None,
    key_spans not None,
    value_bytes not None,
    value_spans not None,
    *,
    bint row_checksums=False,
):
    """Encodes records, end mark included: the n spans of `key_bytes` and of `value_bytes` (size -1 = tombstone).

    Returns:
        A pyarrow.Buffer of the uncompressed file.

    Raises:
        ValueError: the spans do not match each other, or do not lie in their data.
    """
    cdef const uint8_t[::1] key_data = memoryview(key_bytes).cast("B")
    cdef const uint8_t[::1] value_data = memoryview(value_bytes).cast("B")
    cdef Py_ssize_t n = 0, m = 0, i, total = 4, extra = 4 if row_checksums else 0
    cdef const int32_t* keys = spans_of(key_spans, &n)
    cdef const int32_t* values = spans_of(value_spans, &m)
    cdef int32_t key_size, value_size
    cdef uint32_t crc
    cdef size_t address
    cdef uint8_t* out
    cdef const uint8_t* key
    cdef const uint8_t* value
    if n != m:
        raise ValueError(f"{n} keys and {m} values")
    for i in range(n):
        key_size, value_size = keys[2 * i + 1], values[2 * i + 1]
        if keys[2 * i] < 0 or key_size < 0 or <Py_ssize_t> keys[2 * i] + key_size > key_data.shape[0]:
            raise ValueError(f"key {i} does not lie in its data")
        if value_size < -1 or (
            value_size >= 0 and (values[2 * i] < 0 or <Py_ssize_t> values[2 * i] + value_size > value_data.shape[0])
        ):
            raise ValueError(f"value {i} does not lie in its data")
        total += 8 + extra + key_size + max(value_size, 0)
    result = pa.allocate_buffer(total)
    address = result.address
    out = <uint8_t*> address
    with nogil:
        for i in range(n):
            key_size, value_size = keys[2 * i + 1], values[2 * i + 1]
            key = &key_data[0] + keys[2 * i] if key_size else NULL
            crc = crc32c_update(0, key, key_size) if row_checksums else 0
            if value_size < 0:
                store_be32(out, <uint32_t> (key_size + extra))
                out += 4
                if row_checksums:
                    store_le32(out, crc)
                    out += 4
                if key_size:
                    memcpy(out, key, key_size)
                out += key_size
                store_be32(out, <uint32_t> -1)
                out += 4
                continue
            store_be32(out, <uint32_t> key_size)
            out += 4
            if key_size:
                memcpy(out, key, key_size)
            out += key_size
            store_be32(out, <uint32_t> (value_size + extra))
            out += 4
            value = &value_data[0] + values[2 * i] if value_size else NULL
            if row_checksums:
                store_le32(out, crc32c_update(crc, value, value_size))
                out += 4
            if value_size:
                memcpy(out, value, value_size)
            out += value_size
        store_be32(out, <uint32_t> -1)
    return result
