"""Records of a delta or snapshot file, after decompression (HDFSBackedStateStoreProvider of Spark).

    record   int32 BE key size | key | int32 BE value size, -1 = tombstone (deltas only) | value
    end      int32 BE -1

With row checksums (StateStoreRowChecksum of Spark) a CRC-32C lies in front of the last part of each record:

    put        key as it is             value = int32 LE CRC-32C(key, value) | value
    tombstone  key = int32 LE CRC-32C(key) | key

Value sizes that are no multiple of 8 (Spark before 2.3 left 4 stray bytes behind) are left to the row codec.

records/typed.pxi has the records with types, of a RocksDB's changelogs.
"""

from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, realloc

import pyarrow as pa

from arrow_binary cimport BinaryValues, binary_values, is_null, size_of, too_large, value_of
from byteorder cimport load_be32, load_le32
from crc32c_inline cimport crc32c_update
from one_thread cimport begin
from record_writer cimport write_put, write_size, write_tombstone
from xxh64 cimport xxh3

from hdfsstore.errors import CorruptFileError, SizeLimitError


cdef enum Fault:
    OK = 0
    BAD_TYPE
    BAD_KEY_SIZE
    BAD_VALUE_SIZE
    TOMBSTONE_IN_SNAPSHOT
    RECORD_TOO_LARGE
    TOO_SHORT_FOR_CHECKSUM
    BAD_CHECKSUM
    OUT_OF_MEMORY


cdef class RecordParser:
    """Parses records chunk by chunk into spans: pairs of native int32 (offset in the chunk, size), -1 = tombstone.

    Args:
        row_checksums: whether the rows carry checksums; they are verified and left out of the spans.
        value_checksums: False: values keep theirs, unverified, and only those of tombstones and ranges are looked at.
        typed: whether each record begins with its type.
        tombstones: whether a record may be a tombstone (deltas), or not (snapshots).
        max_record_bytes: a key or value that declares more than this is refused.
    """

    cdef int32_t* key_spans
    cdef int32_t* value_spans
    cdef uint8_t* record_kinds  # NULL without types
    cdef Py_ssize_t capacity, count
    cdef readonly Py_ssize_t consumed
    cdef readonly bint ended
    cdef bint row_checksums, value_checksums, typed, tombstones, busy
    cdef int32_t max_record_bytes

    def __cinit__(
        self,
        *,
        bint row_checksums,
        bint tombstones,
        Py_ssize_t max_record_bytes,
        bint value_checksums=True,
        bint typed=False,
    ):
        self.row_checksums = row_checksums
        self.value_checksums = value_checksums
        self.typed = typed
        self.tombstones = tombstones
        self.max_record_bytes = <int32_t> min(max_record_bytes, INT32_MAX - 16)

    def __dealloc__(self):
        free(self.key_spans)
        free(self.value_spans)
        free(self.record_kinds)

    cdef bint grow(self) noexcept nogil:
        cdef Py_ssize_t capacity = max(self.capacity * 2, 1024)
        cdef int32_t* grown = <int32_t*> realloc(self.key_spans, capacity * 8)
        cdef uint8_t* kinds
        if grown == NULL:
            return False
        self.key_spans = grown
        grown = <int32_t*> realloc(self.value_spans, capacity * 8)
        if grown == NULL:
            return False
        self.value_spans = grown
        if self.typed:
            kinds = <uint8_t*> realloc(self.record_kinds, capacity)
            if kinds == NULL:
                return False
            self.record_kinds = kinds
        self.capacity = capacity
        return True

    def parse(self, const uint8_t[::1] chunk not None, Py_ssize_t size):
        """Parses the complete records in the first `size` bytes of `chunk` and returns how many there are.

        Afterwards `consumed` is where the next record starts (behind the end mark when `ended`), and `keys`, `values`
        and `kinds` tell of the records until the next call. A record that goes on behind `size` is left for the next
        chunk.

        Raises:
            CorruptFileError: sizes or checksums are wrong, or a record is larger than max_record_bytes; `offset` counts
                from the start of the chunk.
            SizeLimitError: `size` is 2 GiB or more.
        """
        cdef Fault fault
        if not 0 <= size <= chunk.shape[0]:
            raise ValueError(f"a chunk of {chunk.shape[0]} bytes does not hold {size}")
        if size > INT32_MAX:
            raise SizeLimitError(f"a chunk of {size} bytes is 2 GiB or more, which is more than spans of int32 tell")
        begin(&self.busy)
        self.count = 0
        self.consumed = 0
        self.ended = False
        fault = OK
        if size:
            with nogil:
                fault = scan_typed(self, &chunk[0], size) if self.typed else self.scan(&chunk[0], size)
        self.busy = False
        if fault == OUT_OF_MEMORY:
            raise MemoryError
        if fault != OK:
            self.fail(fault, &chunk[0])
        return self.count

    cdef Fault scan(self, const uint8_t* data, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t at = 0, value_at
        cdef int32_t key_size = -1, value_size = -1, key_offset, value_offset
        cdef int32_t* span
        cdef uint32_t crc
        while True:
            if not self.row_checksums and key_size >= 0 and value_size >= 0:
                at = self.scan_alike(data, size, at, key_size, value_size)
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
                if self.row_checksums and self.value_checksums:
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

    cdef Py_ssize_t scan_alike(
        self, const uint8_t* data, Py_ssize_t size, Py_ssize_t at, int32_t key_size, int32_t value_size
    ) noexcept nogil:
        """Takes the records that have the sizes of the one before them, and returns where they end.

        Most stores have rows of one size. Comparing with known sizes lets the processor go on to the next record
        before it has loaded this one's sizes; adding loaded sizes up would make it wait for each.
        """
        cdef Py_ssize_t step = 8 + <Py_ssize_t> key_size + value_size
        cdef Py_ssize_t count = self.count
        cdef int32_t* keys = self.key_spans
        cdef int32_t* values = self.value_spans
        while (
            count < self.capacity
            and at + step <= size
            and <int32_t> load_be32(data + at) == key_size
            and <int32_t> load_be32(data + at + 4 + key_size) == value_size
        ):
            keys[2 * count] = <int32_t> (at + 4)
            keys[2 * count + 1] = key_size
            values[2 * count] = <int32_t> (at + 8 + key_size)
            values[2 * count + 1] = value_size
            count += 1
            at += step
        self.count = count
        return at

    cdef object fail(self, Fault fault, const uint8_t* data):
        cdef Py_ssize_t at = self.consumed
        cdef Py_ssize_t key_at = at + self.typed
        cdef int32_t key_size, value_size
        if fault == BAD_TYPE:
            raise CorruptFileError(f"a record is of the unknown type 0x{data[at]:02x}", offset=at)
        key_size = <int32_t> load_be32(data + key_at)
        if fault == BAD_KEY_SIZE:
            raise CorruptFileError(f"a record declares a key of {key_size} bytes", offset=at)
        if fault == RECORD_TOO_LARGE and key_size > self.max_record_bytes:
            raise CorruptFileError(
                f"a record declares a key of {key_size} bytes, more than the {self.max_record_bytes} allowed",
                offset=at,
                remedy="The file is damaged; only if the store really holds such a key, raise max_record_bytes",
            )
        value_size = <int32_t> load_be32(data + key_at + 4 + key_size)
        if fault == RECORD_TOO_LARGE:
            raise CorruptFileError(
                f"a record declares a value of {value_size} bytes, more than the {self.max_record_bytes} allowed",
                offset=at,
                remedy="The file is damaged; only if the store really holds such a value, raise max_record_bytes",
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

    @property
    def kinds(self):
        """The records' types as RocksDB numbers them, one byte each, likewise; None without types.

        0 deletion, 1 value, 2 merge, 15 deletion of the keys from the record's key to its value.
        """
        return pa.foreign_buffer(<size_t> self.record_kinds, self.count, self) if self.typed else None


include "records/typed.pxi"
include "records/spans.pxi"


def encode_records(keys not None, values not None, *, bint row_checksums=False):
    """Encodes records, end mark included.

    Args:
        keys: pyarrow (large) binary array of n keys, without nulls.
        values: pyarrow (large) binary array of n values; null = tombstone.
        row_checksums: whether each record carries its CRC-32C.

    Returns:
        A pyarrow.Buffer of the uncompressed file.

    Raises:
        ValueError: there are not as many keys as values, or a key is null.
        SizeLimitError: a key or value is 2 GiB or more.
    """
    cdef BinaryValues k = binary_values(keys), v = binary_values(values)
    cdef Py_ssize_t i
    cdef int64_t total = 4, extra = 4 if row_checksums else 0, value_size
    cdef uint8_t* out
    if k.length != v.length:
        raise ValueError(f"{k.length} keys and {v.length} values")
    for i in range(k.length):
        if is_null(&k, i):
            raise ValueError(f"key {i} is null")
        value_size = 0 if is_null(&v, i) else size_of(&v, i)
        if max(size_of(&k, i), value_size) > INT32_MAX - extra:
            raise too_large(f"the key or value of record {i}")
        total += 8 + extra + size_of(&k, i) + value_size
    result = pa.allocate_buffer(total)
    out = <uint8_t*> <uintptr_t> result.address
    with nogil:
        for i in range(k.length):
            if is_null(&v, i):
                out = write_tombstone(out, value_of(&k, i), size_of(&k, i), row_checksums)
            else:
                out = write_put(out, value_of(&k, i), size_of(&k, i), value_of(&v, i), size_of(&v, i), row_checksums)
        write_size(out, -1)
    return result
