/* Computes XXH64 and XXH3 with 64 bits, both with the seed 0 (the xxHash specification, doc/xxhash_spec.md of xxHash).
 *
 * XXH3 mixes 64 bytes a step in eight lanes. SSE2, which every x86-64 has, and NEON take two lanes at once.
 */
#ifndef HDFSSTORE_XXH64_H
#define HDFSSTORE_XXH64_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <emmintrin.h>
#endif

#define XXH_32_1 0x9E3779B1u
#define XXH_32_2 0x85EBCA77u
#define XXH_32_3 0xC2B2AE3Du
#define XXH_64_1 0x9E3779B185EBCA87ull
#define XXH_64_2 0xC2B2AE3D27D4EB4Full
#define XXH_64_3 0x165667B19E3779F9ull
#define XXH_64_4 0x85EBCA77C2B2AE63ull
#define XXH_64_5 0x27D4EB2F165667C5ull
#define XXH_MIX_1 0x165667919E3779F9ull
#define XXH_MIX_2 0x9FB21C651E98DF25ull

/* clang-format off */
static const uint8_t XXH3_SECRET[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};
/* clang-format on */

static inline uint64_t xxh_word(const uint8_t *p) {
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
           (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static inline uint32_t xxh_half(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t xxh_left(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline uint64_t xxh_reversed(uint64_t x) {
    x = (x & 0x00FF00FF00FF00FFull) << 8 | (x >> 8 & 0x00FF00FF00FF00FFull);
    x = (x & 0x0000FFFF0000FFFFull) << 16 | (x >> 16 & 0x0000FFFF0000FFFFull);
    return x << 32 | x >> 32;
}

/* The halves of a product of 128 bits, xored. */
static inline uint64_t xxh_fold(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t low = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu), one = (a >> 32) * (b & 0xFFFFFFFFu);
    uint64_t other = (a & 0xFFFFFFFFu) * (b >> 32), high = (a >> 32) * (b >> 32);
    uint64_t middle = (low >> 32) + (one & 0xFFFFFFFFu) + other;
    return (middle << 32 | (low & 0xFFFFFFFFu)) ^ (high + (one >> 32) + (middle >> 32));
#endif
}

static inline uint64_t xxh64_end(uint64_t hash) {
    hash = (hash ^ hash >> 33) * XXH_64_2;
    hash = (hash ^ hash >> 29) * XXH_64_3;
    return hash ^ hash >> 32;
}

static inline uint64_t xxh64_round(uint64_t lane, uint64_t word) {
    return xxh_left(lane + word * XXH_64_2, 31) * XXH_64_1;
}

static inline uint64_t xxh64(const uint8_t *p, size_t size) {
    const uint8_t *end = p + size;
    uint64_t hash = XXH_64_5;
    if (size >= 32) {
        uint64_t lanes[4] = {XXH_64_1 + XXH_64_2, XXH_64_2, 0, 0 - XXH_64_1};
        for (; end - p >= 32; p += 32)
            for (int i = 0; i < 4; i++) lanes[i] = xxh64_round(lanes[i], xxh_word(p + 8 * i));
        hash = xxh_left(lanes[0], 1) + xxh_left(lanes[1], 7) + xxh_left(lanes[2], 12) + xxh_left(lanes[3], 18);
        for (int i = 0; i < 4; i++) hash = (hash ^ xxh64_round(0, lanes[i])) * XXH_64_1 + XXH_64_4;
    }
    hash += size;
    for (; end - p >= 8; p += 8) hash = xxh_left(hash ^ xxh64_round(0, xxh_word(p)), 27) * XXH_64_1 + XXH_64_4;
    if (end - p >= 4) hash = xxh_left(hash ^ xxh_half(p) * XXH_64_1, 23) * XXH_64_2 + XXH_64_3, p += 4;
    for (; p < end; p++) hash = xxh_left(hash ^ *p * XXH_64_5, 11) * XXH_64_1;
    return xxh64_end(hash);
}

static inline uint64_t xxh3_end(uint64_t hash, uint64_t factor) {
    hash = (hash ^ hash >> 37) * factor;
    return hash ^ hash >> 32;
}

static inline uint64_t xxh3_mix(const uint8_t *p, const uint8_t *secret) {
    return xxh_fold(xxh_word(p) ^ xxh_word(secret), xxh_word(p + 8) ^ xxh_word(secret + 8));
}

static inline uint64_t xxh3_to_16(const uint8_t *p, size_t size) {
    const uint8_t *s = XXH3_SECRET;
    if (size > 8) {
        uint64_t low = xxh_word(p) ^ xxh_word(s + 24) ^ xxh_word(s + 32);
        uint64_t high = xxh_word(p + size - 8) ^ xxh_word(s + 40) ^ xxh_word(s + 48);
        return xxh3_end(size + xxh_reversed(low) + high + xxh_fold(low, high), XXH_MIX_1);
    }
    if (size >= 4) {
        uint64_t hash = xxh_half(p + size - 4) + ((uint64_t)xxh_half(p) << 32);
        hash ^= xxh_word(s + 8) ^ xxh_word(s + 16);
        hash ^= xxh_left(hash, 49) ^ xxh_left(hash, 24);
        hash *= XXH_MIX_2;
        hash = (hash ^ ((hash >> 35) + size)) * XXH_MIX_2;
        return hash ^ hash >> 28;
    }
    if (size) {
        uint32_t all = (uint32_t)p[0] << 16 | (uint32_t)p[size >> 1] << 24 | p[size - 1] | (uint32_t)size << 8;
        return xxh64_end(all ^ (uint64_t)(xxh_half(s) ^ xxh_half(s + 4)));
    }
    return xxh64_end(xxh_word(s + 56) ^ xxh_word(s + 64));
}

static inline uint64_t xxh3_to_240(const uint8_t *p, size_t size, uint64_t factor) {
    const uint8_t *s = XXH3_SECRET;
    uint64_t hash = size * XXH_64_1;
    if (size <= 128) {
        for (size_t i = (size - 1) / 32 + 1; i-- > 0;)
            hash += xxh3_mix(p + 16 * i, s + 32 * i) + xxh3_mix(p + size - 16 * (i + 1), s + 32 * i + 16);
        return xxh3_end(hash, factor);
    }
    for (size_t i = 0; i < 8; i++) hash += xxh3_mix(p + 16 * i, s + 16 * i);
    hash = xxh3_end(hash, factor);
    for (size_t i = 8; i < size / 16; i++) hash += xxh3_mix(p + 16 * i, s + 16 * (i - 8) + 3);
    return xxh3_end(hash + xxh3_mix(p + size - 16, s + 136 - 17), factor);
}

#if defined(__x86_64__) && defined(__GNUC__)
static inline void xxh3_add(uint64_t lanes[8], const uint8_t *p, size_t stripes, const uint8_t *secret) {
    __m128i all[4];
    memcpy(all, lanes, sizeof(all));
    for (size_t n = 0; n < stripes; n++) {
        for (int i = 0; i < 4; i++) {
            __m128i data = _mm_loadu_si128((const __m128i *)(p + 64 * n + 16 * i));
            __m128i key = _mm_xor_si128(data, _mm_loadu_si128((const __m128i *)(secret + 8 * n + 16 * i)));
            __m128i product = _mm_mul_epu32(key, _mm_shuffle_epi32(key, _MM_SHUFFLE(0, 3, 0, 1)));
            __m128i swapped = _mm_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2));
            all[i] = _mm_add_epi64(_mm_add_epi64(all[i], swapped), product);
        }
    }
    memcpy(lanes, all, sizeof(all));
}
#else
static inline void xxh3_add(uint64_t lanes[8], const uint8_t *p, size_t stripes, const uint8_t *secret) {
    for (size_t n = 0; n < stripes; n++) {
        for (int i = 0; i < 8; i++) {
            uint64_t data = xxh_word(p + 64 * n + 8 * i), key = data ^ xxh_word(secret + 8 * n + 8 * i);
            lanes[i ^ 1] += data;
            lanes[i] += (key & 0xFFFFFFFFu) * (key >> 32);
        }
    }
}
#endif

#define XXH3_LANES {XXH_32_3, XXH_64_1, XXH_64_2, XXH_64_3, XXH_64_4, XXH_32_2, XXH_64_5, XXH_32_1}

static inline void xxh3_scramble(uint64_t lanes[8]) {
    for (int i = 0; i < 8; i++)
        lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ xxh_word(XXH3_SECRET + 128 + 8 * i)) * XXH_32_1;
}

static inline uint64_t xxh3_sum(const uint64_t lanes[8], size_t size) {
    uint64_t hash = size * XXH_64_1;
    for (int i = 0; i < 8; i += 2) {
        const uint8_t *secret = XXH3_SECRET + 11 + 8 * i;
        hash += xxh_fold(lanes[i] ^ xxh_word(secret), lanes[i + 1] ^ xxh_word(secret + 8));
    }
    return hash;
}

static inline uint64_t xxh3_of_more(const uint8_t *p, size_t size) {
    uint64_t lanes[8] = XXH3_LANES;
    const uint8_t *last = p + size - 64;
    size_t left = size;
    for (; left > 1024; p += 1024, left -= 1024) {
        xxh3_add(lanes, p, 16, XXH3_SECRET);
        xxh3_scramble(lanes);
    }
    xxh3_add(lanes, p, (left - 1) / 64, XXH3_SECRET);
    xxh3_add(lanes, last, 1, XXH3_SECRET + 121);
    return xxh3_end(xxh3_sum(lanes, size), XXH_MIX_1);
}

static inline uint64_t xxh3(const uint8_t *p, size_t size) {
    if (size > 240) return xxh3_of_more(p, size);
    return size > 16 ? xxh3_to_240(p, size, XXH_MIX_1) : xxh3_to_16(p, size);
}

#endif
