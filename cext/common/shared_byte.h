/* Reads and writes a byte that threads share without a lock. Its change says nothing about other memory. */
#ifndef HDFSSTORE_SHARED_BYTE_H
#define HDFSSTORE_SHARED_BYTE_H

#include <stdint.h>

#if defined(__GNUC__)
static inline uint8_t shared_byte(const uint8_t *p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
static inline void set_shared_byte(uint8_t *p, uint8_t value) { __atomic_store_n(p, value, __ATOMIC_RELAXED); }
#else
static inline uint8_t shared_byte(const uint8_t *p) { return *(const volatile uint8_t *)p; }
static inline void set_shared_byte(uint8_t *p, uint8_t value) { *(volatile uint8_t *)p = value; }
#endif

#endif
