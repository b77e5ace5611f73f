/* Faults at system calls that touch files in one folder, and at large allocations.
 *
 * Loaded with LD_PRELOAD. Does nothing until `torture_arm` has read the environment, which also
 * happens at the start of a process that has these variables:
 *   TORTURE_ROOT     absolute path of the folder
 *   TORTURE_COUNTS   file of 16 numbers of 64 bits: calls of each class, and in the last whether
 *                    the fault has happened
 *   TORTURE_CLASS    index of the class of calls, see `enum`
 *   TORTURE_NTH      number of the call, from 1; 0 only counts
 *   TORTURE_ACTION   index of the fault, see `enum`
 *   TORTURE_ERRNO    error of the fault ERROR
 *   TORTURE_STICKY   1: all later calls of the class fail as well, as on a full disk
 *   TORTURE_JOURNAL  1: record writes and renames, to undo those that are not synced
 *   TORTURE_SPARE    folder on the same file system for files that a rename replaces
 *   TORTURE_SEED     of the writes that a reordered power cut keeps
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN, READ, WRITE, SYNC, RENAME, UNLINK, TRUNCATE, MKDIR, LOCK, MAP, ALLOCATE, FIRED = 15 };
enum { NONE, KILL, AFTER, TORN, SHORT, ERROR, LOST, REORDERED };
enum { LARGE = 1 << 16 }; /* bytes of an allocation that counts */

static uint64_t *counts;
static char root[PATH_MAX], spare[PATH_MAX];
static size_t root_length;
static int armed, class, action, code, sticky, journal;
static uint64_t nth, draw = 88172645463325252ull;
static __thread int inside; /* calls of the shim itself */

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static const char *setting(const char *name) {
    const char *value = getenv(name);
    return value ? value : "";
}

void torture_disarm(void) { armed = 0; }

int torture_arm(void) {
    armed = 0;
    const char *file = setting("TORTURE_COUNTS");
    if (!*file) return 0;
    int fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) return -1;
    counts = mmap(0, 16 * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (counts == MAP_FAILED) return -1;
    snprintf(root, sizeof root, "%s", setting("TORTURE_ROOT"));
    snprintf(spare, sizeof spare, "%s", setting("TORTURE_SPARE"));
    root_length = strlen(root);
    class = atoi(setting("TORTURE_CLASS"));
    nth = strtoull(setting("TORTURE_NTH"), 0, 10);
    action = atoi(setting("TORTURE_ACTION"));
    code = atoi(setting("TORTURE_ERRNO"));
    sticky = atoi(setting("TORTURE_STICKY"));
    journal = atoi(setting("TORTURE_JOURNAL"));
    draw ^= strtoull(setting("TORTURE_SEED"), 0, 10) * 0x9e3779b97f4a7c15ull;
    armed = 1;
    return 1;
}

__attribute__((constructor)) static void start(void) { torture_arm(); }

/* ---- which calls ---------------------------------------------------------------------------- */

static int in_root(const char *path) {
    return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static void absolute(int folder, const char *path, char *found) {
    char base[PATH_MAX] = "";
    if (path[0] == '/') {
        snprintf(found, PATH_MAX, "%s", path);
        return;
    }
    if (folder == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) base[0] = 0;
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, base, sizeof base - 1);
        base[length > 0 ? length : 0] = 0;
    }
    size_t used = strlen(base);
    if (used + 1 + strlen(path) >= PATH_MAX) {
        found[0] = 0;
        return;
    }
    memcpy(found, base, used);
    found[used] = '/';
    strcpy(found + used + 1, path);
}

static int path_counts(int folder, const char *path) {
    char found[PATH_MAX];
    if (!armed || inside || !path) return 0;
    absolute(folder, path, found);
    return in_root(found);
}

static int file_counts(int fd) {
    char link[64], path[PATH_MAX];
    if (!armed || inside) return 0;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length <= 0) return 0;
    path[length] = 0;
    return in_root(path);
}

static void undo_unsynced(int reordered);

static void die(void) {
    if (action == LOST || action == REORDERED) undo_unsynced(action == REORDERED);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Count a call; return the fault that it gets. Faults before the call end the process here. */
static int strike(int kind) {
    uint64_t count = __atomic_add_fetch(&counts[kind], 1, __ATOMIC_RELAXED);
    if (kind != class || !nth || (count != nth && !(sticky && count > nth))) return NONE;
    counts[FIRED] = 1;
    if (action == KILL || action == LOST || action == REORDERED) die();
    return action;
}

#define FAIL(kind) \
    int fault = strike(kind); \
    if (fault == ERROR) { \
        errno = code; \
        return -1; \
    }
#define END() \
    if (fault == AFTER) die()

/* ---- journal: what a power cut loses -------------------------------------------------------- */

struct entry {
    struct entry *earlier, *later;
    dev_t device;
    ino_t inode; /* of the file, or of the folder of a rename */
    int fd;      /* reopened for reading and writing; -1 for a rename */
    off_t at, size;
    size_t old_length, new_length;
    char *old_bytes, *new_bytes, *from, *to, *replaced;
};
static struct entry *first, *last;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void drop(struct entry *one) {
    if (one->earlier) one->earlier->later = one->later; else first = one->later;
    if (one->later) one->later->earlier = one->earlier; else last = one->earlier;
    if (one->fd >= 0) close(one->fd);
    if (one->replaced) unlink(one->replaced);
    free(one->old_bytes), free(one->new_bytes), free(one->from), free(one->to), free(one->replaced);
    free(one);
}

static void append(struct entry *one) {
    one->earlier = last;
    if (last) last->later = one; else first = one;
    last = one;
}

/* Record a change of `length` bytes at `at` (-1: the position of the file) before it is made. */
static void record(int fd, off_t at, const void *bytes, size_t length) {
    char link[64];
    struct stat about;
    if (!journal) return;
    inside++;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int again = fstat(fd, &about) ? -1 : open(link, O_RDWR | O_CLOEXEC);
    struct entry *one = again < 0 ? 0 : calloc(1, sizeof *one);
    if (one) {
        int appends = (fcntl(fd, F_GETFL) & O_APPEND) != 0;
        one->device = about.st_dev, one->inode = about.st_ino, one->fd = again;
        one->size = about.st_size;
        one->at = appends ? about.st_size : at >= 0 ? at : lseek(fd, 0, SEEK_CUR);
        one->new_length = bytes ? length : 0;
        one->new_bytes = malloc(length + 1);
        if (bytes) memcpy(one->new_bytes, bytes, length);
        size_t kept = bytes ? length : one->size > one->at ? (size_t)(one->size - one->at) : 0;
        one->old_bytes = malloc(kept + 1);
        ssize_t got = pread(again, one->old_bytes, kept, one->at);
        one->old_length = got > 0 ? (size_t)got : 0;
        pthread_mutex_lock(&guard);
        append(one);
        pthread_mutex_unlock(&guard);
    }
    inside--;
}

static void synced(int fd) {
    struct stat about;
    if (!journal || fstat(fd, &about)) return;
    inside++;
    pthread_mutex_lock(&guard);
    for (struct entry *one = first, *next; one; one = next) {
        next = one->later;
        if (one->device == about.st_dev && one->inode == about.st_ino) drop(one);
    }
    pthread_mutex_unlock(&guard);
    inside--;
}

static struct entry *record_rename(int from_folder, const char *from, int to_folder, const char *to) {
    static unsigned number;
    char path[PATH_MAX], folder[PATH_MAX];
    struct stat about;
    if (!journal) return 0;
    inside++;
    struct entry *one = calloc(1, sizeof *one);
    one->fd = -1;
    absolute(from_folder, from, path);
    one->from = strdup(path);
    absolute(to_folder, to, path);
    one->to = strdup(path);
    if (snprintf(folder, sizeof folder, "%s/%d-%u", spare, getpid(), number++) > 0 && *spare &&
        !link(path, folder))
        one->replaced = strdup(folder);
    *strrchr(path, '/') = 0;
    if (!stat(*path ? path : "/", &about)) one->device = about.st_dev, one->inode = about.st_ino;
    pthread_mutex_lock(&guard);
    append(one);
    pthread_mutex_unlock(&guard);
    inside--;
    return one;
}

static void put(int fd, const char *bytes, size_t length, off_t at) {
    while (length) {
        ssize_t done = pwrite(fd, bytes, length, at);
        if (done <= 0) return;
        bytes += done, at += done, length -= (size_t)done;
    }
}

/* Undo all changes that are not synced. reordered : keep half of the writes, and all renames */
static void undo_unsynced(int reordered) {
    inside++;
    pthread_mutex_lock(&guard);
    for (struct entry *one = last; one; one = one->earlier) {
        if (one->fd >= 0) {
            put(one->fd, one->old_bytes, one->old_length, one->at);
            if (ftruncate(one->fd, one->size)) continue;
        } else if (!reordered && !rename(one->to, one->from) && one->replaced) {
            if (rename(one->replaced, one->to)) continue;
        }
    }
    for (struct entry *one = first; reordered && one; one = one->later) {
        draw ^= draw << 13, draw ^= draw >> 7, draw ^= draw << 17;
        if (one->fd >= 0 && draw >> 63) put(one->fd, one->new_bytes, one->new_length, one->at);
    }
    pthread_mutex_unlock(&guard);
    inside--;
}

/* Lose everything that is not synced, as a power cut after the end of the command. */
void torture_power_cut(void) {
    if (armed && journal) undo_unsynced(action == REORDERED);
    armed = 0;
}

/* ---- calls ---------------------------------------------------------------------------------- */

#define OPENS(name, folder, ...) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | __O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    } \
    REAL(name); \
    if (!path_counts(folder, path)) return real(__VA_ARGS__, mode); \
    FAIL(OPEN) \
    int fd = real(__VA_ARGS__, mode); \
    END(); \
    return fd

int open(const char *path, int flags, ...) { OPENS(open, AT_FDCWD, path, flags); }
int open64(const char *path, int flags, ...) { OPENS(open64, AT_FDCWD, path, flags); }
int openat(int folder, const char *path, int flags, ...) { OPENS(openat, folder, folder, path, flags); }
int openat64(int folder, const char *path, int flags, ...) {
    OPENS(openat64, folder, folder, path, flags);
}

#define READS(name, ...) \
    REAL(name); \
    if (!file_counts(fd)) return real(fd, __VA_ARGS__); \
    FAIL(READ) \
    if (fault == SHORT && length > 1) length /= 2; \
    ssize_t got = real(fd, __VA_ARGS__); \
    END(); \
    return got

ssize_t read(int fd, void *bytes, size_t length) { READS(read, bytes, length); }
ssize_t pread(int fd, void *bytes, size_t length, off_t at) { READS(pread, bytes, length, at); }
ssize_t pread64(int fd, void *bytes, size_t length, off64_t at) { READS(pread64, bytes, length, at); }

#define WRITES(name, position, ...) \
    REAL(name); \
    if (!file_counts(fd)) return real(fd, __VA_ARGS__); \
    FAIL(WRITE) \
    if ((fault == SHORT || fault == TORN) && length > 1) length /= 2; \
    record(fd, position, bytes, length); \
    ssize_t done = real(fd, __VA_ARGS__); \
    if (fault == TORN) die(); \
    END(); \
    return done

ssize_t write(int fd, const void *bytes, size_t length) { WRITES(write, -1, bytes, length); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    WRITES(pwrite, at, bytes, length, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    WRITES(pwrite64, at, bytes, length, at);
}

/* Write the parts as one call, as a fault would otherwise fall between them. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t at) {
    size_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    inside++; /* not an allocation of the command */
    char *bytes = malloc(length + 1), *end = bytes;
    inside--;
    for (int i = 0; i < count; end += parts[i++].iov_len)
        memcpy(end, parts[i].iov_base, parts[i].iov_len);
    ssize_t done = at < 0 ? write(fd, bytes, length) : pwrite(fd, bytes, length, at);
    free(bytes);
    return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(writev);
    return file_counts(fd) ? write_parts(fd, parts, count, -1) : real(fd, parts, count);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    REAL(pwritev);
    return file_counts(fd) ? write_parts(fd, parts, count, at) : real(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    REAL(pwritev64);
    return file_counts(fd) ? write_parts(fd, parts, count, at) : real(fd, parts, count, at);
}

#define SYNCS(name) \
    REAL(name); \
    if (!file_counts(fd)) return real(fd); \
    FAIL(SYNC) \
    int done = real(fd); \
    if (!done) synced(fd); \
    END(); \
    return done

int fsync(int fd) { SYNCS(fsync); }
int fdatasync(int fd) { SYNCS(fdatasync); }

#define TRUNCATES(name) \
    REAL(name); \
    if (!file_counts(fd)) return real(fd, length); \
    FAIL(TRUNCATE) \
    record(fd, length, 0, 0); \
    int done = real(fd, length); \
    END(); \
    return done

int ftruncate(int fd, off_t length) { TRUNCATES(ftruncate); }
int ftruncate64(int fd, off64_t length) { TRUNCATES(ftruncate64); }

int posix_fallocate(int fd, off_t at, off_t length) {
    REAL(posix_fallocate);
    if (!file_counts(fd)) return real(fd, at, length);
    int fault = strike(TRUNCATE);
    if (fault == ERROR) return code;
    int done = real(fd, at, length);
    END();
    return done;
}

#define RENAMES(name, from_folder, to_folder, ...) \
    REAL(name); \
    if (!path_counts(to_folder, to)) return real(__VA_ARGS__); \
    FAIL(RENAME) \
    struct entry *recorded = record_rename(from_folder, from, to_folder, to); \
    int done = real(__VA_ARGS__); \
    if (done && recorded) { \
        inside++; \
        pthread_mutex_lock(&guard); \
        drop(recorded); \
        pthread_mutex_unlock(&guard); \
        inside--; \
    } \
    END(); \
    return done

int rename(const char *from, const char *to) { RENAMES(rename, AT_FDCWD, AT_FDCWD, from, to); }
int renameat(int folder, const char *from, int other, const char *to) {
    RENAMES(renameat, folder, other, folder, from, other, to);
}

#define CHANGES(name, kind, folder, ...) \
    REAL(name); \
    if (!path_counts(folder, path)) return real(__VA_ARGS__); \
    FAIL(kind) \
    int done = real(__VA_ARGS__); \
    END(); \
    return done

int unlink(const char *path) { CHANGES(unlink, UNLINK, AT_FDCWD, path); }
int unlinkat(int folder, const char *path, int flags) {
    CHANGES(unlinkat, UNLINK, folder, folder, path, flags);
}
int rmdir(const char *path) { CHANGES(rmdir, UNLINK, AT_FDCWD, path); }
int mkdir(const char *path, mode_t mode) { CHANGES(mkdir, MKDIR, AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) {
    CHANGES(mkdirat, MKDIR, folder, folder, path, mode);
}
int link(const char *from, const char *path) { CHANGES(link, MKDIR, AT_FDCWD, from, path); }

int flock(int fd, int how) {
    REAL(flock);
    if (!file_counts(fd)) return real(fd, how);
    FAIL(LOCK)
    int done = real(fd, how);
    END();
    return done;
}

/* ---- memory --------------------------------------------------------------------------------- */

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int short_of_memory(size_t size) {
    if (size < LARGE || !armed || inside) return 0;
    int fault = strike(ALLOCATE);
    if (fault == AFTER) die();
    if (fault != ERROR) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return short_of_memory(size) ? 0 : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return short_of_memory(count * size) ? 0 : __libc_calloc(count, size);
}
void *realloc(void *block, size_t size) {
    return short_of_memory(size) ? 0 : __libc_realloc(block, size);
}
int posix_memalign(void **block, size_t alignment, size_t size) {
    if (short_of_memory(size)) return ENOMEM;
    return (*block = __libc_memalign(alignment, size)) ? 0 : ENOMEM;
}
void *aligned_alloc(size_t alignment, size_t size) {
    return short_of_memory(size) ? 0 : __libc_memalign(alignment, size);
}

#define MAPS(name) \
    REAL(name); \
    if (!armed || inside) return real(start, length, protection, flags, fd, at); \
    int kind = flags & MAP_ANONYMOUS ? ALLOCATE : MAP; \
    if (kind == MAP ? !file_counts(fd) : length < LARGE) \
        return real(start, length, protection, flags, fd, at); \
    int fault = strike(kind); \
    if (fault == ERROR) { \
        errno = code; \
        return MAP_FAILED; \
    } \
    void *found = real(start, length, protection, flags, fd, at); \
    END(); \
    return found

void *mmap(void *start, size_t length, int protection, int flags, int fd, off_t at) { MAPS(mmap); }
void *mmap64(void *start, size_t length, int protection, int flags, int fd, off64_t at) {
    MAPS(mmap64);
}
