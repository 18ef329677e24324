# Spark's Murmur3 hash of Arrow columns, row by row: the 32-bit x86 variant with the running hash as the seed of the
# next value. A null leaves the running hash as it is.
#
#   kind     Arrow values                            hashed as
#   NONE     null                                    nothing
#   BOOLEAN  bit                                     int 0 or 1
#   INT8/16  int8, int16                             int, sign-extended
#   INT32    int32, date32; months of an interval    int
#   INT64    int64, timestamp, duration, time64      long: the low word, then the high one
#   FLOAT    float32                                 int: its bits; -0.0 as 0.0, every NaN as 0x7fc00000
#   DOUBLE   float64                                 long: its bits; -0.0 as 0.0, every NaN as 0x7ff8000000000000
#   DECIMAL  decimal128 of at most 18 digits         long: the unscaled value
#   BIG_DECIMAL  decimal128 of more                  bytes: the unscaled value, big-endian, as few as hold it
#   MONTHS   month_day_nano_interval                 int: its months
#   INTERVAL month_day_nano_interval                 long microseconds, int days, int months
#   BYTES    string, binary                          little-endian words, then each byte left, sign-extended, as a word
#   TRIMMED  string                                  as BYTES, without the spaces at its end
#   LIST     list                                    each element
#   STRUCT   struct                                  each field
#
# Source: Murmur3_x86_32.java (hashUnsafeBytes, whose tail differs from the published Murmur3) and HashExpression in
# hash.scala, Spark 4.3.
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.stdlib cimport free, malloc

import pyarrow

from byteorder cimport load_le32, load_le64

cpdef enum Kind:
    NONE
    BOOLEAN
    INT8
    INT16
    INT32
    INT64
    FLOAT
    DOUBLE
    DECIMAL
    BIG_DECIMAL
    MONTHS
    INTERVAL
    BYTES
    TRIMMED
    LIST
    STRUCT

cdef struct Node:
    Kind kind
    int64_t offset            # of the array's first value in its buffers, in values
    const uint8_t* validity   # NULL: no nulls
    const uint8_t* values     # LIST, BYTES, TRIMMED: int32 offsets
    const uint8_t* data       # BYTES, TRIMMED
    int num_children
    const Node** children


cdef uintptr_t address(buffer) except? 1:
    return 0 if buffer is None else buffer.address


cdef class Column:
    """One Arrow array as the hash reads it; keeps the array's buffers and its children alive."""

    cdef Node node
    cdef object buffers
    cdef object children

    def __cinit__(self, Kind kind, array, children=()):
        self.buffers = array.buffers()
        self.children = tuple(children)
        self.node.kind = kind
        self.node.offset = array.offset
        self.node.validity = <const uint8_t*> address(self.buffers[0])
        if kind != NONE and kind != STRUCT:
            self.node.values = <const uint8_t*> address(self.buffers[1])
        if kind == BYTES or kind == TRIMMED:
            self.node.data = <const uint8_t*> address(self.buffers[2])
        if kind == LIST and len(self.children) != 1:
            raise ValueError("a list has one child")
        self.node.children = <const Node**> malloc((len(self.children) + 1) * sizeof(Node*))
        if self.node.children == NULL:
            raise MemoryError()
        cdef Column child
        for child in self.children:
            self.node.children[self.node.num_children] = &child.node
            self.node.num_children += 1

    def __dealloc__(self):
        free(self.node.children)


def hash_rows(Column rows not None, int64_t length, int32_t seed):
    """The hash of each row of a STRUCT column, its fields folded from left to right: a buffer of `length` int32."""
    if rows.node.kind != STRUCT:
        raise ValueError("rows are of kind STRUCT")
    hashes = pyarrow.allocate_buffer(length * 4)
    cdef uint32_t* out = <uint32_t*> <uintptr_t> hashes.address
    cdef int64_t i
    cdef int field
    with nogil:
        for i in range(length):
            out[i] = <uint32_t> seed
        for field in range(rows.node.num_children):
            fold_column(&rows.node, rows.node.children[field], length, out)
    return hashes


def partitions(hashes, int64_t length, int32_t num_partitions):
    """pmod(hash, num_partitions) of each of `length` int32 hashes, as a buffer of int32."""
    if num_partitions < 1 or hashes.size < length * 4:
        raise ValueError("there is no partition, or a hash is missing")
    result = pyarrow.allocate_buffer(length * 4)
    cdef const int32_t* source = <const int32_t*> <uintptr_t> hashes.address
    cdef int32_t* out = <int32_t*> <uintptr_t> result.address
    cdef int32_t rest
    cdef int64_t i
    with nogil:
        for i in range(length):
            rest = source[i] % num_partitions
            out[i] = rest + num_partitions if rest < 0 else rest
    return result


cdef void fold_column(const Node* rows, const Node* column, int64_t length, uint32_t* hashes) noexcept nogil:
    cdef int64_t i
    for i in range(length):
        if is_valid(rows, i):
            hashes[i] = fold(column, i, hashes[i])


cdef inline bint is_valid(const Node* node, int64_t i) noexcept nogil:
    i += node.offset
    return node.validity == NULL or (node.validity[i >> 3] >> (i & 7)) & 1


cdef uint32_t fold(const Node* node, int64_t i, uint32_t hash) noexcept nogil:
    """Folds value i of a column into a running hash."""
    if not is_valid(node, i):
        return hash
    i += node.offset
    cdef const uint8_t* values = node.values
    cdef int64_t start, end, j
    if node.kind == INT64:
        return hash_long(load_le64(values + 8 * i), hash)
    elif node.kind == BYTES or node.kind == TRIMMED:
        start = <int32_t> load_le32(values + 4 * i)
        end = <int32_t> load_le32(values + 4 * i + 4)
        if node.kind == TRIMMED:
            while end > start and node.data[end - 1] == 0x20:
                end -= 1
        return hash_bytes(node.data + start, end - start, hash) if end > start else finish(hash, 0)
    elif node.kind == INT32:
        return hash_int(load_le32(values + 4 * i), hash)
    elif node.kind == DOUBLE:
        return hash_long(double_bits(load_le64(values + 8 * i)), hash)
    elif node.kind == FLOAT:
        return hash_int(float_bits(load_le32(values + 4 * i)), hash)
    elif node.kind == BOOLEAN:
        return hash_int((values[i >> 3] >> (i & 7)) & 1, hash)
    elif node.kind == INT8:
        return hash_int(<uint32_t> <int32_t> <int8_t> values[i], hash)
    elif node.kind == INT16:
        return hash_int(<uint32_t> <int32_t> <int16_t> (values[2 * i] | (<uint32_t> values[2 * i + 1] << 8)), hash)
    elif node.kind == DECIMAL:
        return hash_long(load_le64(values + 16 * i), hash)
    elif node.kind == BIG_DECIMAL:
        return hash_big_decimal(values + 16 * i, hash)
    elif node.kind == MONTHS:
        return hash_int(load_le32(values + 16 * i), hash)
    elif node.kind == INTERVAL:
        hash = hash_long(<uint64_t> (<int64_t> load_le64(values + 16 * i + 8) // 1000), hash)
        return hash_int(load_le32(values + 16 * i), hash_int(load_le32(values + 16 * i + 4), hash))
    elif node.kind == LIST:
        start = <int32_t> load_le32(values + 4 * i)
        end = <int32_t> load_le32(values + 4 * i + 4)
        for j in range(start, end):
            hash = fold(node.children[0], j, hash)
        return hash
    elif node.kind == STRUCT:
        for j in range(node.num_children):
            hash = fold(node.children[j], i - node.offset, hash)
        return hash
    else:
        return hash


cdef inline uint32_t rotate(uint32_t x, int bits) noexcept nogil:
    return (x << bits) | (x >> (32 - bits))


cdef inline uint32_t mix(uint32_t hash, uint32_t word) noexcept nogil:
    word = rotate(word * <uint32_t> 0xCC9E2D51, 15) * <uint32_t> 0x1B873593
    return rotate(hash ^ word, 13) * 5 + <uint32_t> 0xE6546B64


cdef inline uint32_t finish(uint32_t hash, uint32_t size) noexcept nogil:
    hash ^= size
    hash = (hash ^ (hash >> 16)) * <uint32_t> 0x85EBCA6B
    hash = (hash ^ (hash >> 13)) * <uint32_t> 0xC2B2AE35
    return hash ^ (hash >> 16)


cdef inline uint32_t hash_int(uint32_t x, uint32_t seed) noexcept nogil:
    return finish(mix(seed, x), 4)


cdef inline uint32_t hash_long(uint64_t x, uint32_t seed) noexcept nogil:
    return finish(mix(mix(seed, <uint32_t> x), <uint32_t> (x >> 32)), 8)


cdef inline uint32_t hash_bytes(const uint8_t* data, int64_t size, uint32_t seed) noexcept nogil:
    cdef int64_t i = 0
    while i + 4 <= size:
        seed = mix(seed, load_le32(data + i))
        i += 4
    while i < size:
        seed = mix(seed, <uint32_t> <int32_t> <int8_t> data[i])
        i += 1
    return finish(seed, <uint32_t> size)


cdef uint32_t hash_big_decimal(const uint8_t* value, uint32_t seed) noexcept nogil:
    cdef uint8_t big_endian[16]
    cdef uint8_t sign = 0xFF if value[15] & 0x80 else 0
    cdef int i, first = 0
    for i in range(16):
        big_endian[i] = value[15 - i]
    while first < 15 and big_endian[first] == sign and (big_endian[first + 1] ^ sign) < 0x80:
        first += 1
    return hash_bytes(&big_endian[first], 16 - first, seed)


cdef inline uint32_t float_bits(uint32_t bits) noexcept nogil:
    if bits == <uint32_t> 0x80000000:
        return 0
    return <uint32_t> 0x7FC00000 if (bits & <uint32_t> 0x7FFFFFFF) > <uint32_t> 0x7F800000 else bits


cdef inline uint64_t double_bits(uint64_t bits) noexcept nogil:
    if bits == <uint64_t> 1 << 63:
        return 0
    if (bits & ~(<uint64_t> 1 << 63)) > <uint64_t> 0x7FF0000000000000:
        return <uint64_t> 0x7FF8000000000000
    return bits
