/* Computes CRC-32C (Castagnoli, RFC 3720 appendix B.4), reflected polynomial 0x82F63B78.
 *
 * Uses the CPU's instruction if it has one (x86-64 with SSE4.2, AArch64 with the CRC extension; checked at run time),
 * else slicing-by-8 (Kounavis and Berry, "A systematic approach to building high performance software-based CRC
 * generators", 2005). The instruction has a latency of three cycles and a throughput of one per cycle, so long input
 * goes through it in three streams. Between these functions a crc is the raw register; only crc32c_update inverts it.
 */
#ifndef HDFSSTORE_CRC32C_H
#define HDFSSTORE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define CRC32C_WORD(crc, word) __asm__("crc32q %1, %q0" : "+r"(crc) : "rm"(word))
#define CRC32C_BYTE(crc, byte) __asm__("crc32b %1, %k0" : "+r"(crc) : "rm"(byte))

static int crc32c_has_instruction(void) {
    return __builtin_cpu_supports("sse4.2");
}
#elif defined(__GNUC__) && defined(__aarch64__) && (defined(__linux__) || defined(__APPLE__))
#define CRC32C_WORD(crc, word) __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word))
#define CRC32C_BYTE(crc, byte) __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte))
#if defined(__linux__)
#include <sys/auxv.h>
#endif

static int crc32c_has_instruction(void) {
#if defined(__linux__)
    static int known = -1;
    int answer = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (answer < 0) {
        answer = (getauxval(AT_HWCAP) >> 7) & 1; /* HWCAP_CRC32 */
        __atomic_store_n(&known, answer, __ATOMIC_RELAXED);
    }
    return answer;
#else
    return 1; /* all of Apple's own processors have it */
#endif
}
#endif

/* A CRC is linear, so a table follows from its entries for the eight single bits. CRC32C_TABLES[k][b] is the CRC of the
 * byte b with k zero bytes after it. */
#define CRC32C_1(i, a, b, c, d, e, f, g, h)                                                           \
    (((i) & 1 ? a : 0u) ^ ((i) & 2 ? b : 0u) ^ ((i) & 4 ? c : 0u) ^ ((i) & 8 ? d : 0u) ^ \
     ((i) & 16 ? e : 0u) ^ ((i) & 32 ? f : 0u) ^ ((i) & 64 ? g : 0u) ^ ((i) & 128 ? h : 0u))
#define CRC32C_4(i, ...) \
    CRC32C_1(i, __VA_ARGS__), CRC32C_1(i + 1, __VA_ARGS__), CRC32C_1(i + 2, __VA_ARGS__), CRC32C_1(i + 3, __VA_ARGS__)
#define CRC32C_16(i, ...)                                                                     \
    CRC32C_4(i, __VA_ARGS__), CRC32C_4(i + 4, __VA_ARGS__), CRC32C_4(i + 8, __VA_ARGS__), \
        CRC32C_4(i + 12, __VA_ARGS__)
#define CRC32C_64(i, ...)                                                                         \
    CRC32C_16(i, __VA_ARGS__), CRC32C_16(i + 16, __VA_ARGS__), CRC32C_16(i + 32, __VA_ARGS__), \
        CRC32C_16(i + 48, __VA_ARGS__)
#define CRC32C_256(...) \
    {CRC32C_64(0, __VA_ARGS__), CRC32C_64(64, __VA_ARGS__), CRC32C_64(128, __VA_ARGS__), CRC32C_64(192, __VA_ARGS__)}

static const uint32_t CRC32C_TABLES[8][256] = {
    CRC32C_256(0xF26B8303, 0xE13B70F7, 0xC79A971F, 0x8AD958CF, 0x105EC76F, 0x20BD8EDE, 0x417B1DBC, 0x82F63B78),
    CRC32C_256(0x13A29877, 0x274530EE, 0x4E8A61DC, 0x9D14C3B8, 0x3FC5F181, 0x7F8BE302, 0xFF17C604, 0xFBC3FAF9),
    CRC32C_256(0xA541927E, 0x4F6F520D, 0x9EDEA41A, 0x38513EC5, 0x70A27D8A, 0xE144FB14, 0xC76580D9, 0x8B277743),
    CRC32C_256(0xDD45AAB8, 0xBF672381, 0x7B2231F3, 0xF64463E6, 0xE964B13D, 0xD725148B, 0xABA65FE7, 0x52A0C93F),
    CRC32C_256(0x38116FAC, 0x7022DF58, 0xE045BEB0, 0xC5670B91, 0x8F2261D3, 0x1BA8B557, 0x37516AAE, 0x6EA2D55C),
    CRC32C_256(0xEF306B19, 0xDB8CA0C3, 0xB2F53777, 0x6006181F, 0xC00C303E, 0x85F4168D, 0x0E045BEB, 0x1C08B7D6),
    CRC32C_256(0x68032CC8, 0xD0065990, 0xA5E0C5D1, 0x4E2DFD53, 0x9C5BFAA6, 0x3D5B83BD, 0x7AB7077A, 0xF56E0EF4),
    CRC32C_256(0x493C7D27, 0x9278FA4E, 0x211D826D, 0x423B04DA, 0x847609B4, 0x0D006599, 0x1A00CB32, 0x34019664),
};

static inline uint64_t crc32c_load(const uint8_t *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
           (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word = crc32c_load(p) ^ crc;
        crc = 0;
        for (int k = 0; k < 8; k++) crc ^= CRC32C_TABLES[7 - k][word >> 8 * k & 255];
    }
    for (; n; p++, n--) crc = crc >> 8 ^ CRC32C_TABLES[0][(crc ^ *p) & 255];
    return crc;
}

#ifdef CRC32C_WORD
static inline uint32_t crc32c_by_instruction(uint32_t start, const uint8_t *p, size_t n) {
    uint64_t crc = start;
    for (; n >= 8; p += 8, n -= 8) CRC32C_WORD(crc, crc32c_load(p));
    for (; n; p++, n--) CRC32C_BYTE(crc, *p);
    return (uint32_t)crc;
}

/* Adds three adjacent streams of n bytes each (n a multiple of 8), beginning at p. */
static inline void crc32c_three(uint32_t crcs[3], const uint8_t *p, size_t n) {
    uint64_t a = crcs[0], b = crcs[1], c = crcs[2];
    for (const uint8_t *end = p + n; p < end; p += 8) {
        CRC32C_WORD(a, crc32c_load(p));
        CRC32C_WORD(b, crc32c_load(p + n));
        CRC32C_WORD(c, crc32c_load(p + 2 * n));
    }
    crcs[0] = (uint32_t)a, crcs[1] = (uint32_t)b, crcs[2] = (uint32_t)c;
}

/* Multiplying a crc with such a power of x, modulo the polynomial, adds so many zero bytes. */
#define CRC32C_AFTER_4096_ZEROS 0x35D73A62u /* x^(8 * 4096) */
#define CRC32C_AFTER_1360_ZEROS 0xD6A79573u /* x^(8 * 1360) */

static inline uint32_t crc32c_times(uint32_t crc, uint32_t factor) {
    uint32_t product = 0;
    for (; factor; factor <<= 1) {
        product ^= crc & (0u - (factor >> 31));
        crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
    }
    return product;
}

static inline uint32_t crc32c_in_three(uint32_t crc, const uint8_t *p, size_t n, uint32_t after_n_zeros) {
    uint32_t crcs[3] = {crc, 0, 0};
    crc32c_three(crcs, p, n);
    return crc32c_times(crc32c_times(crcs[0], after_n_zeros) ^ crcs[1], after_n_zeros) ^ crcs[2];
}
#endif

/* Adds n more bytes to a finished crc (0 at the start). */
static inline uint32_t crc32c_update(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
#ifdef CRC32C_WORD
    if (crc32c_has_instruction()) {
        for (; n >= 3 * 4096; p += 3 * 4096, n -= 3 * 4096)
            crc = crc32c_in_three(crc, p, 4096, CRC32C_AFTER_4096_ZEROS);
        /* For blocks of 4,096 bytes, which images have. */
        if (n >= 3 * 1360) crc = crc32c_in_three(crc, p, 1360, CRC32C_AFTER_1360_ZEROS), p += 3 * 1360, n -= 3 * 1360;
        return ~crc32c_by_instruction(crc, p, n);
    }
#endif
    return ~crc32c_by_tables(crc, p, n);
}

#endif
