/* Computes CRC-32 (the one of zlib and Ethernet, reflected polynomial 0xEDB88320). Uses carry-less multiplication on
 * x86-64, the CRC instructions on AArch64 if the compiler may use them, else tables, eight bytes at a time.
 * Carry-less folding follows V. Gopal and others, "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
 * Instruction" (Intel, 2009); the constants are x^n mod P for its fold distances, bit-reflected. */
#ifndef HDFSSTORE_CRC32_H
#define HDFSSTORE_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t hs_crc32_table[8][256];

static void hs_crc32_fill_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (0xEDB88320u & (0u - (c & 1u)));
        hs_crc32_table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++) {
            uint32_t before = hs_crc32_table[k - 1][i];
            hs_crc32_table[k][i] = (before >> 8) ^ hs_crc32_table[0][before & 255];
        }
}

/* The state is the register itself: the caller inverts it before and after. */
static uint32_t hs_crc32_by_table(uint32_t state, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low = state ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        state = hs_crc32_table[7][low & 255] ^ hs_crc32_table[6][(low >> 8) & 255] ^
                hs_crc32_table[5][(low >> 16) & 255] ^ hs_crc32_table[4][low >> 24] ^ hs_crc32_table[3][p[4]] ^
                hs_crc32_table[2][p[5]] ^ hs_crc32_table[1][p[6]] ^ hs_crc32_table[0][p[7]];
    }
    for (; n > 0; p++, n--) state = (state >> 8) ^ hs_crc32_table[0][(state ^ *p) & 255];
    return state;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#include <immintrin.h>

#define HS_FOLD(x, k, next)                                                                    \
    _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), next)
#define HS_LOAD(at) _mm_loadu_si128((const __m128i *)(const void *)(at))

/* n is a multiple of 16 and at least 64. */
__attribute__((target("sse4.1,pclmul")))
static uint32_t hs_crc32_by_folding(uint32_t state, const uint8_t *p, size_t n) {
    const __m128i by512 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
    const __m128i by128 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
    const __m128i by64 = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x01f7011641, 0x01db710641);
    const __m128i low32 = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i a = _mm_xor_si128(HS_LOAD(p), _mm_cvtsi32_si128((int)state));
    __m128i b = HS_LOAD(p + 16), c = HS_LOAD(p + 32), d = HS_LOAD(p + 48);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = HS_FOLD(a, by512, HS_LOAD(p));
        b = HS_FOLD(b, by512, HS_LOAD(p + 16));
        c = HS_FOLD(c, by512, HS_LOAD(p + 32));
        d = HS_FOLD(d, by512, HS_LOAD(p + 48));
    }
    a = HS_FOLD(a, by128, b);
    a = HS_FOLD(a, by128, c);
    a = HS_FOLD(a, by128, d);
    for (; n >= 16; p += 16, n -= 16) a = HS_FOLD(a, by128, HS_LOAD(p));
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by128, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, low32), by64, 0x00));
    b = _mm_and_si128(_mm_clmulepi64_si128(_mm_and_si128(a, low32), barrett, 0x10), low32);
    a = _mm_xor_si128(a, _mm_clmulepi64_si128(b, barrett, 0x00));
    return (uint32_t)_mm_extract_epi32(a, 1);
}

static int hs_crc32_can_fold;

static void hs_crc32_init(void) {
    hs_crc32_fill_tables();
    hs_crc32_can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

static uint32_t hs_crc32(const uint8_t *p, size_t n) {
    uint32_t state = 0xFFFFFFFFu;
    if (hs_crc32_can_fold && n >= 64) {
        size_t folded = n & ~(size_t)15;
        state = hs_crc32_by_folding(state, p, folded);
        p += folded;
        n -= folded;
    }
    return ~hs_crc32_by_table(state, p, n);
}

#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

static void hs_crc32_init(void) { hs_crc32_fill_tables(); }

static uint32_t hs_crc32(const uint8_t *p, size_t n) {
    uint32_t state = 0xFFFFFFFFu;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        state = __crc32d(state, word);
    }
    return ~hs_crc32_by_table(state, p, n);
}

#else

static void hs_crc32_init(void) { hs_crc32_fill_tables(); }

static uint32_t hs_crc32(const uint8_t *p, size_t n) { return ~hs_crc32_by_table(0xFFFFFFFFu, p, n); }

#endif
#endif
