# Calendar intervals.
#
#   Spark   int32 months | int32 days | int64 microseconds
#   Arrow   int32 months | int32 days | int64 nanoseconds


def read_intervals(data, spans, str path):
    """month_day_nano values (int32 months, int32 days, int64 nanoseconds); a null is zero."""
    cdef const uint8_t* base = address(data)
    cdef const int32_t* s = <const int32_t*> address(spans)
    cdef int64_t r, micros, n = spans.size // 8, bad = -1
    cdef uint64_t* out
    values = pa.allocate_buffer(16 * n)
    out = <uint64_t*> address(values)
    with nogil:
        for r in range(n):
            out[2 * r] = out[2 * r + 1] = 0
            if s[2 * r + 1] < 0:
                continue
            if s[2 * r + 1] != 16:
                bad = r
                break
            micros = <int64_t> load_le64(base + s[2 * r] + 8)
            if not -MAX_MICROS <= micros <= MAX_MICROS:
                bad = r
                break
            out[2 * r] = load_le64(base + s[2 * r])  # months and days have the same places in Arrow
            out[2 * r + 1] = <uint64_t> (micros * 1000)
    if bad >= 0 and s[2 * bad + 1] != 16:
        raise mismatch(f"{s[2 * bad + 1]} bytes are not a calendar interval", path, s[2 * bad])
    if bad >= 0:
        raise mismatch("an interval's microseconds are more than Arrow's nanoseconds hold", path, s[2 * bad])
    return values


def write_intervals(out, places, int64_t first, values):
    """Writes month_day_nano values; False where one has a fraction of a microsecond."""
    cdef uint8_t* to = address(out)
    cdef const int64_t* at = <const int64_t*> address(places)
    cdef const uint64_t* words = <const uint64_t*> address(values) + 2 * first
    cdef int64_t r, nanos, n = places.size // 8
    cdef bint good = True
    with nogil:
        for r in range(n):
            if at[r] < 0:
                continue
            nanos = <int64_t> words[2 * r + 1]
            if nanos % 1000:
                good = False
                break
            store_le64(to + at[r], words[2 * r])
            store_le64(to + at[r] + 8, <uint64_t> (nanos // 1000))
    return good
