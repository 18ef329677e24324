/* Memory that grows and shrinks in place as far as the system can: large areas are mappings of their own, which Linux
 * moves without copying (mremap) and may back with huge pages, so that random reads do not miss the TLB each time.
 * Their start is aligned to a huge page and their length is not rounded up to one: nothing is held that is not used.
 * Elsewhere, for small areas, and under the sanitizers, which watch malloc only, it is realloc.
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
#define AREA_MAPS 1
#endif

#define AREA_MOST ((int64_t)1 << 56) /* no system has more: the sums below, and those of callers, do not overflow */
#define AREA_MAPPED_FROM ((int64_t)4 << 20)
#define AREA_HUGE_PAGE ((int64_t)2 << 20)
/* Bytes that get their pages in one step of background work, and that are freed in one. */
#define AREA_MADE ((int64_t)256 << 10)
#define AREA_FREED ((int64_t)2 << 20)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* of Linux 5.14 */
#endif

#if defined(__GNUC__)
#define area_prefetch(p) __builtin_prefetch(p)
#else
#define area_prefetch(p) ((void)(p))
#endif

typedef struct {
    uint8_t *data; /* NULL: nothing yet */
    int64_t capacity;
    int mapped;
} Area;

#ifdef AREA_MAPS
static uint8_t *area_reserve(int64_t size, int protection) {
    int64_t slack = AREA_HUGE_PAGE - sysconf(_SC_PAGESIZE), before;
    uint8_t *all = mmap(NULL, size + slack, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return NULL;
    before = -(int64_t)(uintptr_t)all & (AREA_HUGE_PAGE - 1);
    if (before) munmap(all, before);
    if (slack > before) munmap(all + before + size, slack - before);
    return all + before;
}

/* Huge pages are for speed. The system makes one at a time, at once: where the host of a virtual machine has to find the
 * memory first that takes five milliseconds. So areas that are filled in steps have small ones. Both are hints. */
static int area_map(Area *area, int64_t size, int pages) {
    uint8_t *data = area_reserve(size, PROT_READ | PROT_WRITE);
    if (data == NULL) return 0;
    madvise(data, size, pages);
    if (area->capacity) memcpy(data, area->data, area->capacity < size ? area->capacity : size);
    free(area->data);
    *area = (Area){data, size, 1};
    return 1;
}

static int area_remap(Area *area, int64_t size) {
    uint8_t *data = mremap(area->data, area->capacity, size, 0);
    if (data == MAP_FAILED) {
        uint8_t *place = area_reserve(size, PROT_NONE);
        if (place == NULL) return 0;
        data = mremap(area->data, area->capacity, size, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (data == MAP_FAILED) {
            munmap(place, size);
            return 0;
        }
    }
    area->data = data;
    area->capacity = size;
    return 1;
}
#endif

static void area_free(Area *area) {
#ifdef AREA_MAPS
    if (area->mapped) munmap(area->data, area->capacity);
    else
#endif
    free(area->data);
    *area = (Area){NULL, 0, 0};
}

/* Gives the area a capacity of at least `size` and keeps its bytes up to there; new bytes are anything. 0: no memory. */
static int area_resize(Area *area, int64_t size) {
    uint8_t *data;
    if (size < 0 || size > AREA_MOST) return 0;
#ifdef AREA_MAPS
    if (area->mapped || size >= AREA_MAPPED_FROM) {
        int64_t page = sysconf(_SC_PAGESIZE);
        size = size > 0 ? (size + page - 1) & -page : page;
        if (size == area->capacity) return 1;
        return area->mapped ? area_remap(area, size) : area_map(area, size, MADV_HUGEPAGE);
    }
#endif
    data = realloc(area->data, size > 0 ? size : 1);
    if (data == NULL) return 0;
    *area = (Area){data, size, 0};
    return 1;
}

/* Makes room for `size` bytes; grows by half at least, so that many small steps cost no more than one. */
static inline int area_need(Area *area, int64_t size) {
    int64_t grown = area->capacity + (area->capacity >> 1);
    if (size <= area->capacity) return 1;
    if (grown < 4096) grown = 4096;
    return area_resize(area, size > grown ? size : grown);
}

/* A new area of zeros. */
static int area_zeroed(Area *area, int64_t size) {
    *area = (Area){NULL, 0, 0};
    if (size < 0 || size > AREA_MOST) return 0;
#ifdef AREA_MAPS
    if (size >= AREA_MAPPED_FROM) return area_resize(area, size);
#endif
    area->data = calloc(size > 0 ? size : 1, 1);
    area->capacity = area->data == NULL ? 0 : size;
    return area->data != NULL;
}

/* A new area of zeros that is filled in steps: with pages of its own from the start, so that it never moves by copying. */
static int area_in_steps(Area *area, int64_t size) {
#ifdef AREA_MAPS
    int64_t page = sysconf(_SC_PAGESIZE);
    *area = (Area){NULL, 0, 0};
    if (size < 0 || size > AREA_MOST) return 0;
    return area_map(area, size > 0 ? (size + page - 1) & -page : page, MADV_NOHUGEPAGE);
#else
    return area_zeroed(area, size);
#endif
}

/* Has the system make some pages of a new area and returns where the rest begins: writes here and there need all. */
static int64_t area_make_pages(Area *area, int64_t at, int64_t end) {
    int64_t stop = end - at > AREA_MADE ? at + AREA_MADE : end;
#ifdef AREA_MAPS
    if (area->mapped && madvise(area->data + at, stop - at, MADV_POPULATE_WRITE) == 0) return stop;
#endif
    for (; at < stop; at += 4096) area->data[at] = 0;
    return stop;
}

/* Small pages may become huge ones from now on: by and by, by a thread of the system's. */
static void area_filled(Area *area) {
#ifdef AREA_MAPS
    if (area->mapped) madvise(area->data, area->capacity, MADV_HUGEPAGE);
#endif
    (void)area;
}

/* Frees some of the area, from its end. Returns whether there is more. */
static int area_free_some(Area *area) {
#ifdef AREA_MAPS
    if (area->mapped && area->capacity > AREA_FREED) {
        int64_t rest = area->capacity - AREA_FREED;
        if (munmap(area->data + rest, AREA_FREED) == 0) {
            area->capacity = rest;
            return 1;
        }
    }
#endif
    area_free(area);
    return 0;
}

#endif
