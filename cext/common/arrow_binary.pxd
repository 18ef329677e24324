# Reads the values of a pyarrow (large) binary array without the GIL, while the array is alive.
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

cdef enum:
    MOST_BYTES = 0x7FFFFFFF - 8  # of a key or value, so that a record's length fields hold it and its checksum


cdef struct BinaryValues:
    Py_ssize_t length
    int64_t start               # the array's offset in its buffers
    const uint8_t* validity     # NULL: no nulls
    const int32_t* offsets      # one of the two is NULL
    const int64_t* large_offsets
    const uint8_t* data


cdef inline BinaryValues binary_values(array) except *:
    cdef BinaryValues out
    cdef uintptr_t address
    import pyarrow as pa
    if not isinstance(array, (pa.BinaryArray, pa.LargeBinaryArray)):
        given = array.type if isinstance(array, pa.Array) else type(array).__name__
        raise TypeError(f"a binary or large_binary array is needed, not {given}")
    large = isinstance(array, pa.LargeBinaryArray)
    validity, offsets, data = array.buffers()
    out.length = len(array)
    out.start = array.offset
    address = validity.address if validity is not None and array.null_count else 0
    out.validity = <const uint8_t*> address
    address = offsets.address if offsets is not None else 0
    out.offsets = NULL
    out.large_offsets = NULL
    if large:
        out.large_offsets = <const int64_t*> address
    else:
        out.offsets = <const int32_t*> address
    address = data.address if data is not None else 0
    out.data = <const uint8_t*> address
    return out


cdef inline bint is_null(const BinaryValues* values, Py_ssize_t i) noexcept nogil:
    cdef int64_t at = values.start + i
    return values.validity != NULL and not (values.validity[at >> 3] >> (at & 7)) & 1


cdef inline int64_t size_of(const BinaryValues* values, Py_ssize_t i) noexcept nogil:
    cdef int64_t at = values.start + i
    if values.offsets != NULL:
        return values.offsets[at + 1] - values.offsets[at]
    return values.large_offsets[at + 1] - values.large_offsets[at]


cdef inline const uint8_t* value_of(const BinaryValues* values, Py_ssize_t i) noexcept nogil:
    cdef int64_t at = values.start + i
    if values.offsets != NULL:
        return values.data + values.offsets[at]
    return values.data + values.large_offsets[at]


cdef inline int64_t total_size(const BinaryValues* values) noexcept nogil:
    if values.length == 0:
        return 0
    return value_of(values, values.length - 1) + size_of(values, values.length - 1) - value_of(values, 0)


cdef inline object too_large(str what):
    from hdfsstore.errors import SizeLimitError
    return SizeLimitError(f"{what} is 2 GiB or more, which is more than the length field of a record holds")


cdef inline bint check_sizes(const BinaryValues* values, str what) except False:
    """Raises SizeLimitError if one of the values is larger than MOST_BYTES."""
    cdef Py_ssize_t i
    if total_size(values) > MOST_BYTES:
        for i in range(values.length):
            if size_of(values, i) > MOST_BYTES:
                raise too_large(f"one of the {what}")
    return True
