# Decimals of more than 18 digits: the shortest big-endian two's complement of the unscaled value, 1 to 16 bytes.


cdef bint below(uint64_t high, uint64_t low, uint64_t bound_high, uint64_t bound_low) noexcept nogil:
    """Whether the magnitude of a two's complement number of 128 bits is below a bound."""
    if high >> 63:
        low = 0 - low
        high = ~high + (low == 0)
    return high < bound_high or high == bound_high and low < bound_low


def read_decimals(data, spans, object digits, str path):
    """decimal128 values; a null is zero."""
    cdef const uint8_t* base = address(data)
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, i, size, n = spans.size // 8, bad = -1
    cdef object bound = 10**digits
    cdef uint64_t high, low, bound_high = bound >> 64, bound_low = bound & 0xFFFFFFFFFFFFFFFF
    cdef uint64_t* out
    values = pa.allocate_buffer(16 * n)
    out = <uint64_t*> address(values)
    with nogil:
        for r in range(n):
            size = s[2 * r + 1]
            high = low = 0
            if size >= 0:
                if size < 1 or size > 16:
                    bad = r
                    break
                if base[s[2 * r]] >> 7:
                    high = low = ~<uint64_t> 0
                for i in range(size):
                    high = high << 8 | low >> 56
                    low = low << 8 | base[s[2 * r] + i]
                if not below(high, low, bound_high, bound_low):
                    bad = r
                    break
            out[2 * r] = low
            out[2 * r + 1] = high
    if bad >= 0:
        raise mismatch(f"{s[2 * bad + 1]} bytes are not a decimal of {digits} digits", path, s[2 * bad])
    return values


cdef inline int decimal_bytes(uint64_t high, uint64_t low) noexcept nogil:
    """Bytes of the shortest two's complement of a number."""
    cdef uint64_t sign = 0 - (high >> 63)
    cdef int size = 1
    high ^= sign
    low ^= sign
    while high or low > 0x7F:
        low = low >> 8 | high << 56
        high >>= 8
        size += 1
    return size


def decimal_sizes(int64_t count, int64_t first, validity, values):
    """The bytes of each decimal128, -1 for a null, as a buffer of int32."""
    cdef const uint8_t* bits = address(validity)
    cdef const uint64_t* words = <const uint64_t*> address(values) + 2 * first
    cdef int64_t r
    cdef int32_t* out
    result = pa.allocate_buffer(4 * count)
    out = <int32_t*> address(result)
    with nogil:
        for r in range(count):
            if bits == NULL or get_bit(bits, first + r):
                out[r] = decimal_bytes(words[2 * r + 1], words[2 * r])
            else:
                out[r] = -1
    return result


def write_decimals(out, places, int64_t first, values, sizes, object digits):
    """Writes decimal128 values, big-endian; False where one has too many digits."""
    cdef uint8_t* to = address(out)
    cdef const int64_t* at = <const int64_t*> address(places)
    cdef const int32_t* size = <const int32_t*> address(sizes)
    cdef const uint64_t* words = <const uint64_t*> address(values) + 2 * first
    cdef object bound = 10**digits
    cdef uint64_t high, low, bound_high = bound >> 64, bound_low = bound & 0xFFFFFFFFFFFFFFFF
    cdef int64_t r, i, n = places.size // 8
    cdef bint good = True
    with nogil:
        for r in range(n):
            if at[r] < 0:
                continue
            low = words[2 * r]
            high = words[2 * r + 1]
            if not below(high, low, bound_high, bound_low):
                good = False
                break
            for i in range(size[r] - 1, -1, -1):
                to[at[r] + i] = <uint8_t> low
                low = low >> 8 | high << 56
                high >>= 8
    return good
