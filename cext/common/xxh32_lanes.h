/* Computes the lanes of xxHash32 of eight blocks at once. A single block's lanes have to wait for each multiplication.
 * In vector registers eight blocks fill the gaps, at three times the speed of one after the other. Needs GCC's vector
 * types and a vector multiplication: x86-64 with SSE4.1 (checked at run time) or AArch64.
 */
#ifndef HDFSSTORE_XXH32_LANES_H
#define HDFSSTORE_XXH32_LANES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && defined(__x86_64__)
#define XXH32_TARGET __attribute__((target("sse4.1")))
#define XXH32_CAN_VECTORS __builtin_cpu_supports("sse4.1")
#elif defined(__GNUC__) && defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define XXH32_TARGET
#define XXH32_CAN_VECTORS 1
#endif

#ifdef XXH32_TARGET
typedef uint32_t xxh32_vector __attribute__((vector_size(16)));

static inline int xxh32_can_eight(void) { return XXH32_CAN_VECTORS; }

/* Adds `size` bytes of each block to its lanes; `size` is a multiple of 16. */
XXH32_TARGET static void xxh32_eight(uint32_t lanes[8][4], const uint8_t *const blocks[8], size_t size) {
    xxh32_vector all[8];
    memcpy(all, lanes, sizeof(all));
    for (size_t at = 0; at < size; at += 16) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            xxh32_vector words;
            memcpy(&words, blocks[i] + at, sizeof(words));
            all[i] += words * 0x85EBCA77u;
            all[i] = (all[i] << 13 | all[i] >> 19) * 0x9E3779B1u;
        }
    }
    memcpy(lanes, all, sizeof(all));
}
#else
static inline int xxh32_can_eight(void) { return 0; }

static inline void xxh32_eight(uint32_t lanes[8][4], const uint8_t *const blocks[8], size_t size) {
    (void)lanes, (void)blocks, (void)size;
}
#endif

#endif
