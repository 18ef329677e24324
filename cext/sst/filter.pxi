# Fills a Bloom filter as RocksDB's own do (util/bloom_impl.h, FastLocalBloom; table/block_based/filter_policy.cc).
#
# The hash of a key has two halves. The lower one chooses a line: half * lines >> 32. The other one, times 0x9e3779b9
# once more for each probe, sets a bit of the line by its highest 9 bits: byte, then bit.

cdef enum:
    LINE = 64
    BITS_PER_KEY = 10           # Spark's; a look-up of a key that is not there reads a block in 1 of 100 cases
    PROBES = 6                  # the best for so many bits


cdef inline int64_t filter_lines(int64_t keys) noexcept nogil:
    return max((keys * BITS_PER_KEY + 8 * LINE - 1) // (8 * LINE), 1)


cdef void fill_filter(uint8_t* out, const uint64_t* hashes, int64_t count) noexcept nogil:
    """Writes all bytes of the filter of so many keys: filter_lines(count) * LINE + 5."""
    cdef int64_t lines = filter_lines(count), i
    cdef uint32_t half
    cdef uint64_t lower
    cdef uint8_t* line
    cdef int left
    memset(out, 0, lines * LINE + 5)
    for i in range(count):
        lower = <uint32_t> hashes[i]
        line = out + LINE * <int64_t> (lower * <uint64_t> lines >> 32)
        half = <uint32_t> (hashes[i] >> 32)
        left = PROBES
        while left:
            line[half >> 26] |= <uint8_t> (1 << (half >> 23 & 7))
            half *= <uint32_t> 0x9E3779B9
            left -= 1
    out[lines * LINE] = 0xFF
    out[lines * LINE + 2] = PROBES
