/* Stands between a program and the C library (LD_PRELOAD) and counts the calls that write or change the file system
 * below one folder. At a chosen call it kills the process, before the call or half-way through it, or lets it fail.
 * Or it only tells of them: a line for each in a file, such as "rename /state/0/0/1.delta", before the call is done.
 *
 * The caller hands over a struct control in memory of its own, which may be shared with the process that watches.
 * Layout, all little-endian as the machine has it: see shim.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum action { COUNT = 0, KILL_BEFORE = 1, KILL_HALF_WAY = 2, FAIL_ONCE = 3, FAIL_FROM = 4 };

struct control {
    atomic_long calls;       /* counted since the control was handed over */
    long at;                 /* the call that is chosen, 1 for the first */
    int action;
    int error;               /* errno of FAIL_ONCE and FAIL_FROM */
    atomic_long hits;        /* how often the action was taken */
    int trace;               /* file descriptor that the calls are told to; 0: none */
    char prefix[PATH_MAX];   /* the folder */
    char what[PATH_MAX];     /* the call that was hit first, and its path */
};

static struct control *control;

void fault_use(struct control *given) { control = given; }

/* The folder that a directory or file descriptor is, or lies in; an empty string where there is no telling. */
static void path_of(int fd, char *path) {
    char link[64];
    if (fd == AT_FDCWD) strcpy(link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = 0;
}

static int below(const char *path) {
    size_t n = strlen(control->prefix);
    return !strncmp(path, control->prefix, n) && (path[n] == '/' || path[n] == 0);
}

static _Noreturn void die(void) {
    syscall(SYS_kill, (pid_t)syscall(SYS_getpid), SIGKILL);
    for (;;) pause();
}

enum verdict { GO, HALF };

/* Counts the call if it is below the folder, and says what becomes of it; -1 with errno set where it fails. */
static int decide(const char *call, int fd, const char *path) {
    char full[2 * PATH_MAX];
    if (!control) return GO;
    int saved = errno;
    full[0] = 0;
    if (!path || path[0] != '/') {
        path_of(fd, full);
        if (path) {
            size_t n = strlen(full);
            snprintf(full + n, sizeof full - n, "/%s", path);
        }
    } else snprintf(full, sizeof full, "%s", path);
    errno = saved;
    if (!below(full)) return GO;
    if (control->trace) {
        char line[3 * PATH_MAX];
        int size = snprintf(line, sizeof line, "%s %s\n", call, full + strlen(control->prefix));
        syscall(SYS_write, control->trace, line, size);
    }
    long number = atomic_fetch_add(&control->calls, 1) + 1;
    int action = control->action;
    if (action == COUNT || number < control->at || (action != FAIL_FROM && number != control->at)) return GO;
    if (atomic_fetch_add(&control->hits, 1) == 0)
        snprintf(control->what, sizeof control->what, "%s %s", call, full + strlen(control->prefix));
    if (action == KILL_BEFORE) die();
    if (action == KILL_HALF_WAY) return HALF;
    errno = control->error;
    return -1;
}

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* A call that cannot be done by halves is done, and then the process dies. */
#define CALL(fd, path, ...) \
    do { \
        int verdict = decide(__func__, fd, path); \
        if (verdict < 0) return -1; \
        __typeof__(next(__VA_ARGS__)) result = next(__VA_ARGS__); \
        if (verdict == HALF) die(); \
        return result; \
    } while (0)

/* Of a write half of the bytes are written. */
#define WRITE(fd, size, ...) \
    do { \
        int verdict = decide(__func__, fd, NULL); \
        if (verdict < 0) return -1; \
        if (verdict == HALF) size /= 2; \
        ssize_t result = next(__VA_ARGS__); \
        if (verdict == HALF) die(); \
        return result; \
    } while (0)

#define CHANGES(flags) ((flags) & (O_CREAT | O_TRUNC))
#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(name); \
        MODE(flags) \
        if (!CHANGES(flags)) return next(path, flags, mode); \
        CALL(AT_FDCWD, path, path, flags, mode); \
    }
#define OPENAT(name) \
    int name(int fd, const char *path, int flags, ...) { \
        NEXT(name); \
        MODE(flags) \
        if (!CHANGES(flags)) return next(fd, path, flags, mode); \
        CALL(fd, path, fd, path, flags, mode); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) { NEXT(creat); CALL(AT_FDCWD, path, path, mode); }
int creat64(const char *path, mode_t mode) { NEXT(creat64); CALL(AT_FDCWD, path, path, mode); }

ssize_t write(int fd, const void *data, size_t size) { NEXT(write); WRITE(fd, size, fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { NEXT(pwrite); WRITE(fd, size, fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) {
    NEXT(pwrite64);
    WRITE(fd, size, fd, data, size, at);
}
ssize_t writev(int fd, const struct iovec *parts, int count) { NEXT(writev); WRITE(fd, count, fd, parts, count); }

int rename(const char *from, const char *to) { NEXT(rename); CALL(AT_FDCWD, to, from, to); }
int renameat(int from_fd, const char *from, int to_fd, const char *to) {
    NEXT(renameat);
    CALL(to_fd, to, from_fd, from, to_fd, to);
}
int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags) {
    NEXT(renameat2);
    CALL(to_fd, to, from_fd, from, to_fd, to, flags);
}
int link(const char *from, const char *to) { NEXT(link); CALL(AT_FDCWD, to, from, to); }
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    NEXT(linkat);
    CALL(to_fd, to, from_fd, from, to_fd, to, flags);
}
int symlink(const char *target, const char *path) { NEXT(symlink); CALL(AT_FDCWD, path, target, path); }
int symlinkat(const char *target, int fd, const char *path) { NEXT(symlinkat); CALL(fd, path, target, fd, path); }
int unlink(const char *path) { NEXT(unlink); CALL(AT_FDCWD, path, path); }
int unlinkat(int fd, const char *path, int flags) { NEXT(unlinkat); CALL(fd, path, fd, path, flags); }
int remove(const char *path) { NEXT(remove); CALL(AT_FDCWD, path, path); }
int rmdir(const char *path) { NEXT(rmdir); CALL(AT_FDCWD, path, path); }
int mkdir(const char *path, mode_t mode) { NEXT(mkdir); CALL(AT_FDCWD, path, path, mode); }
int mkdirat(int fd, const char *path, mode_t mode) { NEXT(mkdirat); CALL(fd, path, fd, path, mode); }
int ftruncate(int fd, off_t size) { NEXT(ftruncate); CALL(fd, NULL, fd, size); }
int ftruncate64(int fd, off64_t size) { NEXT(ftruncate64); CALL(fd, NULL, fd, size); }
int truncate(const char *path, off_t size) { NEXT(truncate); CALL(AT_FDCWD, path, path, size); }
int fsync(int fd) { NEXT(fsync); CALL(fd, NULL, fd); }
int fdatasync(int fd) { NEXT(fdatasync); CALL(fd, NULL, fd); }
int chmod(const char *path, mode_t mode) { NEXT(chmod); CALL(AT_FDCWD, path, path, mode); }
int fchmod(int fd, mode_t mode) { NEXT(fchmod); CALL(fd, NULL, fd, mode); }
