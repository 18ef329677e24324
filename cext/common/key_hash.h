/* Hashes a key's bytes, for tables. Whoever chooses the keys must not be able to flood a table with collisions.
 *
 * A word is eight bytes. A pair of words is multiplied, and the halves of the 128-bit product are folded into one. (A
 * product spreads each bit of its factors over all bits, the low ones over its upper half and the high ones over its
 * lower half.) Before that each factor is combined with a secret word of its own, or with one of three sums. The sums
 * begin as secret words and carry what came before:
 *
 *     sum i = fold((word ^ seed i + 3) * (next word ^ sum i))       16 bytes; three sums take turns, each with its seed
 *     the last 16 bytes: p = (word ^ seed 6) * (last word ^ sum 0 ^ sum 1 ^ sum 2)
 *     the hash: fold((lower half of p ^ seed 7 ^ size) * (upper half of p ^ seed 8))
 *
 * The last 16 bytes overlap those before them unless the size is a multiple of 16. So nothing beyond a key is read. The
 * two words of a key of less than 16 bytes overlap each other.
 *
 * How could keys be chosen to collide? A product forgets one factor if the other is 0. A word that makes a factor 0
 * would give one hash to any number of keys, but this word equals a secret seed: one of 2^64. If one of the two seeds
 * were a constant, everybody would know such a word. For the same reason an attacker does not know the difference
 * between the products of two pairs: it depends on the other factors, which are secret too. Blocks that change places
 * meet other seeds or another sum. Words that are shifted, repeated or cancel in a sum gain nothing. At least two
 * multiplications follow each bit, so that the highest, the middle and the lowest bits of the hash are equally good.
 * Tables use all three.
 *
 * This is no proof. A hash with one, such as SipHash, takes several times as long. The argument holds as long as the
 * seed is secret. The seed comes from the system's generator and is another one for each key set, grouping of rows and
 * image. It is kept only in memory and in images, whose files only their user can read.
 */
#ifndef HDFSSTORE_KEY_HASH_H
#define HDFSSTORE_KEY_HASH_H

#include <stdint.h>
#include <string.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

#define HASH_SEED_WORDS 9
#define HASH_SEED_BYTES (8 * HASH_SEED_WORDS)

typedef struct {
    uint64_t words[HASH_SEED_WORDS];
} HashSeed;

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HASH_LITTLE_32(x) __builtin_bswap32(x)
#define HASH_LITTLE_64(x) __builtin_bswap64(x)
#else
#define HASH_LITTLE_32(x) (x)
#define HASH_LITTLE_64(x) (x)
#endif

static inline uint64_t hash_word(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return HASH_LITTLE_64(x);
}

static inline uint64_t hash_half_word(const uint8_t *p) {
    uint32_t x;
    memcpy(&x, p, 4);
    return HASH_LITTLE_32(x);
}

/* Makes a seed of HASH_SEED_BYTES random bytes. */
static inline HashSeed hash_seed_of(const uint8_t *random) {
    HashSeed seed;
    int i;
    for (i = 0; i < HASH_SEED_WORDS; i++) seed.words[i] = hash_word(random + 8 * i);
    return seed;
}

static inline void hash_seed_store(const HashSeed *seed, uint8_t *out) {
    int i;
    for (i = 0; i < HASH_SEED_WORDS; i++) {
        uint64_t x = HASH_LITTLE_64(seed->words[i]);
        memcpy(out + 8 * i, &x, 8);
    }
}

/* Returns the lower half of a product, and the upper one in `high`. */
static inline uint64_t hash_multiply(uint64_t a, uint64_t b, uint64_t *high) {
#if defined(__SIZEOF_INT128__)
    __extension__ typedef unsigned __int128 Wide;
    Wide product = (Wide)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
#elif defined(_MSC_VER) && defined(_M_X64)
    return _umul128(a, b, high);
#else
    uint64_t low = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF), left = (a >> 32) * (b & 0xFFFFFFFF);
    uint64_t right = (a & 0xFFFFFFFF) * (b >> 32), middle = (low >> 32) + (left & 0xFFFFFFFF) + (right & 0xFFFFFFFF);
    *high = (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (middle >> 32);
    return (middle << 32) | (low & 0xFFFFFFFF);
#endif
}

/* Returns the place of a hash among `places`, by its highest bits. */
static inline uint64_t hash_place(uint64_t hash, uint64_t places) {
    uint64_t high;
    hash_multiply(hash, places, &high);
    return high;
}

static inline uint64_t hash_fold(uint64_t a, uint64_t b) {
    uint64_t high, low = hash_multiply(a, b, &high);
    return low ^ high;
}

static inline uint64_t hash_key(const uint8_t *key, int64_t size, const HashSeed *seed) {
    const uint64_t *s = seed->words;
    uint64_t sum0 = s[0], sum1 = s[1], sum2 = s[2], a = 0, b = 0, low, high;
    int64_t left = size;
    for (; left > 48; key += 48, left -= 48) {
        sum0 = hash_fold(hash_word(key) ^ s[3], hash_word(key + 8) ^ sum0);
        sum1 = hash_fold(hash_word(key + 16) ^ s[4], hash_word(key + 24) ^ sum1);
        sum2 = hash_fold(hash_word(key + 32) ^ s[5], hash_word(key + 40) ^ sum2);
    }
    if (left > 16) sum0 = hash_fold(hash_word(key) ^ s[3], hash_word(key + 8) ^ sum0);
    if (left > 32) sum1 = hash_fold(hash_word(key + 16) ^ s[4], hash_word(key + 24) ^ sum1);
    if (size >= 16) {
        a = hash_word(key + left - 16);
        b = hash_word(key + left - 8);
    } else if (size >= 8) {
        a = hash_word(key);
        b = hash_word(key + size - 8);
    } else if (size >= 4) {
        a = hash_half_word(key);
        b = hash_half_word(key + size - 4);
    } else if (size > 0) {
        a = (uint64_t)key[0] << 16 | (uint64_t)key[size >> 1] << 8 | key[size - 1];
    }
    low = hash_multiply(a ^ s[6], b ^ sum0 ^ sum1 ^ sum2, &high);
    return hash_fold(low ^ s[7] ^ (uint64_t)size, high ^ s[8]);
}

#endif
