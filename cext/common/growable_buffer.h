/* Memory that grows and shrinks in place as far as the system can. Large buffers are mappings of their own. Linux moves
 * these without copying (mremap) and may back them with huge pages, so that random reads do not miss the TLB each time.
 * Their start is aligned to a huge page. Their length is not rounded up to one, so that no memory is unused.
 * On other systems, for small buffers, and under the sanitizers, which watch malloc only, realloc does this.
 */
#ifndef HDFSSTORE_GROWABLE_BUFFER_H
#define HDFSSTORE_GROWABLE_BUFFER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#ifndef _GNU_SOURCE
#error "mremap needs _GNU_SOURCE, which Python.h defines: include it first"
#endif
#include <sys/mman.h>
#include <unistd.h>
#define BUFFER_MAPS 1
#endif

#define BUFFER_MAX_SIZE ((int64_t)1 << 56) /* more than any system has; sums of sizes cannot overflow */
#define BUFFER_MIN_MAPPED ((int64_t)4 << 20)
#define BUFFER_HUGE_PAGE ((int64_t)2 << 20)
/* Bytes whose pages are made in one step of background work, and bytes that are freed in one. */
#define BUFFER_STEP_MADE ((int64_t)256 << 10)
#define BUFFER_STEP_FREED ((int64_t)2 << 20)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14 */
#endif

#if defined(__GNUC__)
#define buffer_prefetch(p) __builtin_prefetch(p)
#else
#define buffer_prefetch(p) ((void)(p))
#endif

typedef struct {
    uint8_t *data; /* NULL: nothing yet */
    int64_t capacity;
    int mapped;
} GrowableBuffer;

#ifdef BUFFER_MAPS
static uint8_t *buffer_reserve(int64_t size, int protection) {
    int64_t slack = BUFFER_HUGE_PAGE - sysconf(_SC_PAGESIZE), before;
    uint8_t *all = mmap(NULL, size + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    before = -(int64_t)(uintptr_t)all & (BUFFER_HUGE_PAGE - 1);
    if (before) munmap(all, before);
    if (slack > before) munmap(all + before + size, slack - before);
    return all + before;
}

/* Huge pages are for speed. The system makes the whole of one at once. This takes five milliseconds if the host of a
 * virtual machine has to find the memory first. So buffers that are filled in steps have small ones. Both are hints. */
static int buffer_map(GrowableBuffer *buffer, int64_t size, int pages) {
    uint8_t *data = buffer_reserve(size, PROT_READ | PROT_WRITE);
    if (data == NULL) return 0;
    madvise(data, size, pages);
    if (buffer->capacity) memcpy(data, buffer->data, buffer->capacity < size ? buffer->capacity : size);
    free(buffer->data);
    *buffer = (GrowableBuffer){data, size, 1};
    return 1;
}

static int buffer_remap(GrowableBuffer *buffer, int64_t size) {
    uint8_t *data = mremap(buffer->data, buffer->capacity, size, 0);
    if (data == MAP_FAILED) {
        uint8_t *place = buffer_reserve(size, PROT_NONE);
        if (place == NULL) return 0;
        data = mremap(buffer->data, buffer->capacity, size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (data == MAP_FAILED) {
            munmap(place, size);
            return 0;
        }
    }
    buffer->data = data;
    buffer->capacity = size;
    return 1;
}
#endif

static void buffer_free(GrowableBuffer *buffer) {
#ifdef BUFFER_MAPS
    if (buffer->mapped) munmap(buffer->data, buffer->capacity);
    else
#endif
    free(buffer->data);
    *buffer = (GrowableBuffer){NULL, 0, 0};
}

/* Makes the capacity at least `size` and keeps the bytes up to there. New bytes are undefined. 0: no memory. */
static int buffer_resize(GrowableBuffer *buffer, int64_t size) {
    uint8_t *data;
    if (size < 0 || size > BUFFER_MAX_SIZE) return 0;
#ifdef BUFFER_MAPS
    if (buffer->mapped || size >= BUFFER_MIN_MAPPED) {
        int64_t page = sysconf(_SC_PAGESIZE);
        size = size > 0 ? (size + page - 1) & -page : page;
        if (size == buffer->capacity) return 1;
        return buffer->mapped ? buffer_remap(buffer, size) : buffer_map(buffer, size, MADV_HUGEPAGE);
    }
#endif
    data = realloc(buffer->data, size > 0 ? size : 1);
    if (data == NULL) return 0;
    *buffer = (GrowableBuffer){data, size, 0};
    return 1;
}

/* Makes room for `size` bytes. Grows by at least half, so that many small steps stay cheap. */
static inline int buffer_need(GrowableBuffer *buffer, int64_t size) {
    int64_t grown = buffer->capacity + (buffer->capacity >> 1);
    if (size <= buffer->capacity) return 1;
    if (grown < 4096) grown = 4096;
    return buffer_resize(buffer, size > grown ? size : grown);
}

/* Makes a new buffer of zeros. */
static int buffer_zeroed(GrowableBuffer *buffer, int64_t size) {
    *buffer = (GrowableBuffer){NULL, 0, 0};
    if (size < 0 || size > BUFFER_MAX_SIZE) return 0;
#ifdef BUFFER_MAPS
    if (size >= BUFFER_MIN_MAPPED) return buffer_resize(buffer, size);
#endif
    buffer->data = calloc(size > 0 ? size : 1, 1);
    buffer->capacity = buffer->data == NULL ? 0 : size;
    return buffer->data != NULL;
}

/* Makes a new buffer of zeros to fill in steps. It is mapped from the start, so that it never moves by copying. */
static int buffer_in_steps(GrowableBuffer *buffer, int64_t size) {
#ifdef BUFFER_MAPS
    int64_t page = sysconf(_SC_PAGESIZE);
    *buffer = (GrowableBuffer){NULL, 0, 0};
    if (size < 0 || size > BUFFER_MAX_SIZE) return 0;
    return buffer_map(buffer, size > 0 ? (size + page - 1) & -page : page, MADV_NOHUGEPAGE);
#else
    return buffer_zeroed(buffer, size);
#endif
}

/* Has the system make some pages of a new buffer, and returns where the rest begins. Random writes need all pages. */
static int64_t buffer_make_pages(GrowableBuffer *buffer, int64_t at, int64_t end) {
    int64_t stop = end - at > BUFFER_STEP_MADE ? at + BUFFER_STEP_MADE : end;
#ifdef BUFFER_MAPS
    if (buffer->mapped && madvise(buffer->data + at, stop - at, MADV_POPULATE_WRITE) == 0) return stop;
#endif
    for (; at < stop; at += 4096) buffer->data[at] = 0;
    return stop;
}

/* Lets a thread of the system turn small pages into huge ones from now on. */
static void buffer_filled(GrowableBuffer *buffer) {
#ifdef BUFFER_MAPS
    if (buffer->mapped) madvise(buffer->data, buffer->capacity, MADV_HUGEPAGE);
#endif
    (void)buffer;
}

/* Frees some of the buffer at its end. Returns whether there is more. */
static int buffer_free_some(GrowableBuffer *buffer) {
#ifdef BUFFER_MAPS
    if (buffer->mapped && buffer->capacity > BUFFER_STEP_FREED) {
        int64_t rest = buffer->capacity - BUFFER_STEP_FREED;
        if (munmap(buffer->data + rest, BUFFER_STEP_FREED) == 0) {
            buffer->capacity = rest;
            return 1;
        }
    }
#endif
    buffer_free(buffer);
    return 0;
}

#endif
