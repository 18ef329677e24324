# Writes single records; records.pyx has their layout. Each function returns where the next record goes.
from libc.stdint cimport int64_t, uint32_t, uint8_t

from byteorder cimport store_be32, store_le32
from copy_bytes cimport copy_bytes
from crc32c_inline cimport crc32c_update


cdef inline uint8_t* write_put(
    uint8_t* out, const uint8_t* key, int64_t key_size, const uint8_t* value, int64_t value_size, bint row_checksums
) noexcept nogil:
    out = write_bytes(write_size(out, key_size), key, key_size)
    if row_checksums:
        out = write_size(out, value_size + 4)
        store_le32(out, crc32c_update(crc32c_update(0, key, key_size), value, value_size))
        out += 4
    else:
        out = write_size(out, value_size)
    return write_bytes(out, value, value_size)


cdef inline uint8_t* write_tombstone(
    uint8_t* out, const uint8_t* key, int64_t key_size, bint row_checksums
) noexcept nogil:
    if row_checksums:
        out = write_size(out, key_size + 4)
        store_le32(out, crc32c_update(0, key, key_size))
        out += 4
    else:
        out = write_size(out, key_size)
    return write_size(write_bytes(out, key, key_size), -1)


cdef inline uint8_t* write_size(uint8_t* out, int64_t size) noexcept nogil:
    store_be32(out, <uint32_t> size)
    return out + 4


cdef inline uint8_t* write_bytes(uint8_t* out, const uint8_t* data, int64_t size) noexcept nogil:
    copy_bytes(out, data, size)
    return out + size
