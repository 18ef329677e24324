/* What test_key_hash.py asks cext/common/key_hash.h. */
#include "key_hash.h"

/* The hashes of `count` keys of `size` bytes each, one after the other. */
void hash_keys(const uint8_t *keys, int64_t count, int64_t size, const uint8_t *random, uint64_t *out);

void hash_keys(const uint8_t *keys, int64_t count, int64_t size, const uint8_t *random, uint64_t *out) {
    HashSeed seed = hash_seed_of(random);
    int64_t i;
    for (i = 0; i < count; i++) out[i] = hash_key(keys + i * size, size, &seed);
}
