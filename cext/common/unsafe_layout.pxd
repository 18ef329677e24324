# Describes the layout of Spark's UnsafeRow, UnsafeArrayData and UnsafeMapData. All numbers are little-endian.
#
#   struct   null bits: ceil(n/64) words | one 8-byte slot a field | variable-length part
#   array    int64 count | null bits: ceil(count/64) words | elements of 1, 2, 4 or 8 bytes, padded to 8 | variable part
#   map      int64 size of the key array in bytes | array of keys | array of values
#
# A value that does not fit its slot is in the variable part, at a multiple of 8 and padded with zeros. Its slot is
# `offset << 32 | size`. The offset counts from the first byte of the struct or array that the slot belongs to.
#
# One letter, the kind, says how a value is stored:
#
#   kind  slot of a struct (array: its first bytes)              Arrow value           Spark types
#   0     null bit set, slot zero (array: 8 bytes)               none                  void
#   ?     1 byte, 0 or 1                                         bit                   boolean
#   1 2   1 or 2 bytes                                           the same              byte; short
#   4     4 bytes                                                the same              int, float, date
#   8     8 bytes                                                the same              long, double, timestamp, ...
#   m     int32 months                                           month_day_nano        year-month interval
#   d     int64 unscaled                                         decimal128            decimal of at most 18 digits
#   D     offset, size: big-endian two's complement, 1-16 bytes  decimal128            decimal of 19 to 38 digits
#   i     offset, size: int32 months, int32 days, int64 us       month_day_nano        calendar interval
#   s     offset, size                                           (a span of the data)  all others
#
# Unused bytes of a slot are zero. A null has its bit set and its slot zero, except D and i in a struct: Spark keeps 16
# bytes for them in the variable part, null or not, so that it can update them in place. The slot of a null D is
# `offset << 32`; that of a null i is `offset << 32 | 16`, or zero from an old Spark. Spark 2.1 also left an offset in
# the slot of a null s (GenerateUnsafeRowJoiner moved it along): there only the size is zero.
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

from byteorder cimport load_le32, load_le64, store_le32, store_le64


cdef inline int64_t padded(int64_t size) noexcept nogil:
    return (size + 7) & ~<int64_t> 7


cdef inline int64_t bitset_bytes(int64_t bits) noexcept nogil:
    return ((bits + 63) >> 6) << 3


cdef inline bint get_bit(const uint8_t* bits, int64_t i) noexcept nogil:
    return (bits[i >> 3] >> (i & 7)) & 1


cdef inline void set_bit(uint8_t* bits, int64_t i) noexcept nogil:
    bits[i >> 3] |= <uint8_t> (1 << (i & 7))


cdef inline uint8_t* address(object buffer):
    """Returns the address of a pyarrow buffer; NULL for None."""
    return NULL if buffer is None else <uint8_t*> <uintptr_t> buffer.address


cdef inline object zeroed(object buffer):
    if buffer.size:
        memset(address(buffer), 0, buffer.size)
    return buffer


cdef inline int element_width(char kind) noexcept nogil:
    """Returns the bytes of an array's element, without its variable-length part."""
    if kind == c"?" or kind == c"1":
        return 1
    if kind == c"2":
        return 2
    if kind == c"4" or kind == c"m":
        return 4
    return 8


cdef inline uint64_t unused_bits(char kind) noexcept nogil:
    """Returns the bits of a struct's slot that are always zero."""
    if kind == c"?":
        return ~<uint64_t> 1
    if kind == c"8" or kind == c"d":
        return 0
    return ~<uint64_t> 0 << (8 * element_width(kind)) if element_width(kind) < 8 else 0


cdef inline int arrow_bytes(char kind) noexcept nogil:
    """Returns the bytes of an Arrow value, or of the span of a variable-length one; 0 for a bit or void."""
    if kind == c"?" or kind == c"0":
        return 0
    if kind == c"m" or kind == c"d":
        return 16
    return element_width(kind)


cdef inline bint is_plain(char kind) noexcept nogil:
    """Returns whether an array stores its elements as Arrow does."""
    return kind == c"1" or kind == c"2" or kind == c"4" or kind == c"8"


cdef inline bint is_variable(char kind) noexcept nogil:
    return kind == c"s" or kind == c"D" or kind == c"i"


cdef inline bint put_decimal(uint8_t* out, uint64_t unscaled, uint64_t bound) noexcept nogil:
    """Widens an int64 to decimal128. False: it has more digits than its type; `bound` is 10 ** digits."""
    cdef uint64_t sign = 0 - (unscaled >> 63)
    (<uint64_t*> out)[0] = unscaled
    (<uint64_t*> out)[1] = sign
    return ((unscaled ^ sign) - sign) < bound


# Arrow values that are written into slots.
cdef struct Source:
    char kind
    uint64_t bound            # 10 ** digits of a decimal
    const uint8_t* values     # from the first value on; of bits the whole buffer
    const uint8_t* validity   # NULL: no nulls
    int64_t first             # the first value's bit in validity, and in boolean values
    const int32_t* sizes      # of a variable-length value in bytes, -1 = null; NULL for the other kinds


cdef inline bint is_null(const Source* source, int64_t i) noexcept nogil:
    if source.sizes != NULL:
        return source.sizes[i] < 0
    if source.kind == c"0":
        return True
    return source.validity != NULL and not get_bit(source.validity, source.first + i)


cdef inline bint take_value(const Source* source, int64_t i, uint64_t* word) noexcept nogil:
    """Makes the slot of a value that fits one. False: the type cannot hold the value."""
    cdef const uint8_t* values = source.values
    cdef uint64_t sign
    if source.kind == c"8":
        word[0] = load_le64(values + 8 * i)
    elif source.kind == c"4":
        word[0] = load_le32(values + 4 * i)
    elif source.kind == c"2":
        word[0] = values[2 * i] | <uint64_t> values[2 * i + 1] << 8
    elif source.kind == c"1":
        word[0] = values[i]
    elif source.kind == c"?":
        word[0] = get_bit(values, source.first + i)
    elif source.kind == c"m":  # months only: no days, no nanoseconds
        word[0] = load_le64(values + 16 * i)
        return word[0] >> 32 == 0 and load_le64(values + 16 * i + 8) == 0
    else:
        word[0] = load_le64(values + 16 * i)
        sign = 0 - (word[0] >> 63)
        return load_le64(values + 16 * i + 8) == sign and (word[0] ^ sign) - sign < source.bound
    return True


cdef inline void set_source(Source* source, char kind, object digits, tuple column):
    """Fills a Source from (first, validity or None, values or None, sizes or None), Arrow's buffers."""
    first, validity, values, sizes = column
    source.kind = kind
    source.bound = 10 ** min(digits, 18)
    source.first = first
    source.validity = address(validity)
    source.values = address(values)
    if values is not None and kind != c"?":
        source.values += arrow_bytes(kind) * source.first
    source.sizes = <const int32_t*> address(sizes)
