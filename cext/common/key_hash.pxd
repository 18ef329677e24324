# Declares the hash of a key's bytes; key_hash.h says what it withstands. The index of an image file uses it, so a
# change of it needs a new format version of image files.
from libc.stdint cimport int64_t, uint64_t, uint8_t


cdef extern from "key_hash.h" nogil:
    enum:
        HASH_SEED_WORDS
        HASH_SEED_BYTES

    ctypedef struct HashSeed:
        uint64_t[HASH_SEED_WORDS] words

    HashSeed hash_seed_of(const uint8_t* random) noexcept
    void hash_seed_store(const HashSeed* seed, uint8_t* out) noexcept
    uint64_t hash_place(uint64_t hash, uint64_t places) noexcept
    uint64_t hash_key(const uint8_t* key, int64_t size, const HashSeed* seed) noexcept


cdef inline HashSeed new_hash_seed() except *:
    """Makes a seed that nobody else knows."""
    import os
    cdef bytes random = os.urandom(HASH_SEED_BYTES)
    return hash_seed_of(<const uint8_t*> <const char*> random)
