/* Computes XXPH3, the hash of the keys in RocksDB's Bloom filters: an early XXH3 with 64 bits and the seed 0
 * (RocksDB: util/xxph3.h, util/hash.cc). Most of it is XXH3's.
 */
#ifndef HDFSSTORE_XXPH3_H
#define HDFSSTORE_XXPH3_H

#include "xxh64.h"

static inline uint64_t xxph3_to_16(const uint8_t *p, size_t size) {
    uint64_t first = xxh_word(XXH3_SECRET), low, high;
    if (size > 8) {
        low = xxh_word(p) ^ first;
        high = xxh_word(p + size - 8) ^ xxh_word(XXH3_SECRET + 8);
        return xxh3_end(size + low + high + xxh_fold(low, high), XXH_64_3);
    }
    if (size >= 4) {
        low = (xxh_half(p) | (uint64_t)xxh_half(p + size - 4) << 32) ^ first;
        low = size + (low ^ low >> 51) * XXH_32_1;
        return xxh3_end((low ^ low >> 47) * XXH_64_2, XXH_64_3);
    }
    if (size) {
        low = p[0] | (uint64_t)p[size >> 1] << 8 | (uint64_t)p[size - 1] << 16 | (uint64_t)size << 24;
        return xxh3_end((low ^ xxh_half(XXH3_SECRET)) * XXH_64_1, XXH_64_3);
    }
    return xxh_fold(first, XXH_64_2);
}

static inline void xxph3_add(uint64_t lanes[8], const uint8_t *p, size_t stripes, const uint8_t *secret) {
    for (size_t n = 0; n < stripes; n++) {
        for (int i = 0; i < 8; i++) {
            uint64_t data = xxh_word(p + 64 * n + 8 * i), key = data ^ xxh_word(secret + 8 * n + 8 * i);
            lanes[i] += data + (key & 0xFFFFFFFFu) * (key >> 32);
        }
    }
}

static inline uint64_t xxph3_of_more(const uint8_t *p, size_t size) {
    uint64_t lanes[8] = XXH3_LANES;
    const uint8_t *end = p + size;
    for (; end - p >= 1024; p += 1024) {
        xxph3_add(lanes, p, 16, XXH3_SECRET);
        xxh3_scramble(lanes);
    }
    xxph3_add(lanes, p, (size_t)(end - p) / 64, XXH3_SECRET);
    if (size % 64) xxph3_add(lanes, end - 64, 1, XXH3_SECRET + 121);
    return xxh3_end(xxh3_sum(lanes, size), XXH_64_3);
}

static inline uint64_t xxph3(const uint8_t *p, size_t size) {
    if (size > 240) return xxph3_of_more(p, size);
    return size > 16 ? xxh3_to_240(p, size, XXH_64_3) : xxph3_to_16(p, size);
}

#endif
