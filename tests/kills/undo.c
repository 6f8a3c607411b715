/* What a power loss takes: a preload library that logs how to undo every write that was not yet synced.
 *
 * QUORATE_UNDO_LOG    file that receives the records (one per process life)
 * QUORATE_UNDO_MATCH  only files whose path begins with this
 * QUORATE_UNDO_LIE    while this file exists, syncs return success without syncing or being recorded: a disk that lies
 *
 * Records (host byte order): type u8, path length u32, path, then
 *   W  offset u64, size before u64, old length u32, old bytes      (written before the write is done)
 *   S  number of records before the sync began u64                 (written after the sync succeeded)
 *   T  size before u64, old length u32, old bytes                  (a truncation)
 *   R  new path length u32, new path
 * Reader: tests/kills/power.py.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FDS = 65536, PATH = 1024 };
static char *paths[FDS];
static int log_fd = -1;
static const char *match, *lie;
static uint64_t records;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int), (*real_fsync)(int), (*real_fdatasync)(int), (*real_ftruncate)(int, off_t);
static int (*real_rename)(const char *, const char *);

__attribute__((constructor)) static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write"); real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_open = dlsym(RTLD_NEXT, "open64"); real_openat = dlsym(RTLD_NEXT, "openat64");
    real_close = dlsym(RTLD_NEXT, "close"); real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync"); real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_rename = dlsym(RTLD_NEXT, "rename");
    match = getenv("QUORATE_UNDO_MATCH"); lie = getenv("QUORATE_UNDO_LIE");
    const char *file = getenv("QUORATE_UNDO_LOG");
    if (file && match) log_fd = real_open(file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
}

static void emit(char type, const char *path, const void *a, size_t an, const void *b, size_t bn) {
    uint32_t size = (uint32_t)strlen(path);
    struct iovec parts[] = {{&type, 1}, {&size, 4}, {(void *)path, size}, {(void *)a, an}, {(void *)b, bn}};
    if (writev(log_fd, parts, 5) < 0) { perror("undo log"); _exit(99); }
    records++;
}

static const char *path_of(int fd) { return fd >= 0 && fd < FDS && log_fd >= 0 ? paths[fd] : NULL; }

static void track(int fd, int dir, const char *path) {
    char full[PATH * 2];
    if (fd < 0 || fd >= FDS || log_fd < 0) return;
    if (path[0] == '/' || dir != AT_FDCWD) snprintf(full, sizeof full, "%s", path);
    else { char here[PATH]; if (!getcwd(here, sizeof here)) return; snprintf(full, sizeof full, "%s/%s", here, path); }
    if (strncmp(full, match, strlen(match))) return;
    pthread_mutex_lock(&lock); free(paths[fd]); paths[fd] = strdup(full); pthread_mutex_unlock(&lock);
}

#define OPEN(name, params, call, dir) \
    int name params { mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list v; va_start(v, flags); mode = va_arg(v, mode_t); va_end(v); } \
        if (log_fd >= 0 && (flags & O_TRUNC)) { struct stat st; if (!strncmp(path, match, strlen(match)) && !stat(path, &st) && st.st_size) truncated(path, st.st_size); } \
        int fd = call; track(fd, dir, path); return fd; }

static void truncated(const char *path, off_t size) {
    int fd = real_open(path, O_RDONLY);
    if (fd < 0) return;
    char *old = malloc((size_t)size);
    ssize_t n = pread(fd, old, (size_t)size, 0);
    real_close(fd);
    struct { uint64_t size; uint32_t old; } __attribute__((packed)) head = {(uint64_t)size, n < 0 ? 0 : (uint32_t)n};
    pthread_mutex_lock(&lock); emit('T', path, &head, sizeof head, old, head.old); pthread_mutex_unlock(&lock);
    free(old);
}

OPEN(open, (const char *path, int flags, ...), real_open(path, flags, mode), AT_FDCWD)
OPEN(open64, (const char *path, int flags, ...), real_open(path, flags, mode), AT_FDCWD)
OPEN(openat, (int dir, const char *path, int flags, ...), real_openat(dir, path, flags, mode), dir)
OPEN(openat64, (int dir, const char *path, int flags, ...), real_openat(dir, path, flags, mode), dir)

int close(int fd) {
    if (fd >= 0 && fd < FDS && paths[fd]) { pthread_mutex_lock(&lock); free(paths[fd]); paths[fd] = NULL; pthread_mutex_unlock(&lock); }
    return real_close(fd);
}

static void before_write(int fd, const char *path, off_t at, size_t size) {
    struct stat st;
    if (fstat(fd, &st)) return;
    size_t old = at >= st.st_size ? 0 : (size_t)(st.st_size - at) < size ? (size_t)(st.st_size - at) : size;
    char *bytes = old ? malloc(old) : NULL;
    if (old) {
        int reader = real_open(path, O_RDONLY);
        ssize_t n = reader < 0 ? -1 : pread(reader, bytes, old, at);
        if (reader >= 0) real_close(reader);
        if (n != (ssize_t)old) { fprintf(stderr, "undo: cannot read %s\n", path); _exit(99); }
    }
    struct { uint64_t at, size; uint32_t old; } __attribute__((packed)) head = {(uint64_t)at, (uint64_t)st.st_size, (uint32_t)old};
    emit('W', path, &head, sizeof head, bytes, old);
    free(bytes);
}

ssize_t write(int fd, const void *data, size_t size) {
    const char *path = path_of(fd);
    if (!path) return real_write(fd, data, size);
    pthread_mutex_lock(&lock);
    off_t at = (fcntl(fd, F_GETFL) & O_APPEND) ? lseek(fd, 0, SEEK_END) : lseek(fd, 0, SEEK_CUR);
    before_write(fd, path, at, size);
    ssize_t n = real_write(fd, data, size);
    pthread_mutex_unlock(&lock);
    return n;
}

static ssize_t positioned(int fd, const void *data, size_t size, off_t at) {
    const char *path = path_of(fd);
    if (!path) return real_pwrite(fd, data, size, at);
    pthread_mutex_lock(&lock);
    before_write(fd, path, at, size);
    ssize_t n = real_pwrite(fd, data, size, at);
    pthread_mutex_unlock(&lock);
    return n;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return positioned(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return positioned(fd, data, size, at); }

static ssize_t gather(int fd, const struct iovec *parts, int count, off_t at, int has_at) {
    ssize_t total = 0;
    for (int i = 0; i < count; i++) {
        ssize_t n = has_at ? positioned(fd, parts[i].iov_base, parts[i].iov_len, at + total) : write(fd, parts[i].iov_base, parts[i].iov_len);
        if (n < 0) return total ? total : n;
        total += n;
    }
    return total;
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    static ssize_t (*real)(int, const struct iovec *, int, off_t);
    if (!real) real = dlsym(RTLD_NEXT, "pwritev64");
    return path_of(fd) ? gather(fd, parts, count, at, 1) : real(fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t at) { return pwritev(fd, parts, count, at); }

static int synced(int fd, int (*real)(int)) {
    const char *path = path_of(fd);
    if (!path) return real(fd);
    if (lie && access(lie, F_OK) == 0) return 0;
    pthread_mutex_lock(&lock);
    char name[PATH]; snprintf(name, sizeof name, "%s", path);
    uint64_t before = records;
    pthread_mutex_unlock(&lock);
    int result = real(fd);
    if (!result) { pthread_mutex_lock(&lock); emit('S', name, &before, sizeof before, NULL, 0); pthread_mutex_unlock(&lock); }
    return result;
}
int fsync(int fd) { return synced(fd, real_fsync); }
int fdatasync(int fd) { return synced(fd, real_fdatasync); }

/* Syncs by Linux AIO: one at a time, begun by io_submit and ended by io_getevents. */
static int aio_fd = -1;
static uint64_t aio_before;

long syscall(long number, ...) {
    static long (*real)(long, ...);
    va_list v;
    long a[6];
    va_start(v, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(v, long);
    va_end(v);
    if (!real) real = dlsym(RTLD_NEXT, "syscall");
    const struct iocb *asked = number == SYS_io_submit && a[1] == 1 ? *(struct iocb **)a[2] : NULL;
    if (asked && path_of((int)asked->aio_fildes)) {
        aio_fd = (int)asked->aio_fildes;
        pthread_mutex_lock(&lock); aio_before = records; pthread_mutex_unlock(&lock);
        if (lie && access(lie, F_OK) == 0) { /* It ended, and nothing was synced. */
            uint64_t one = 1;
            aio_fd = -2;
            return real_write((int)asked->aio_resfd, &one, sizeof one) == sizeof one ? 1 : -1;
        }
    }
    if (number == SYS_io_getevents && aio_fd == -2) {
        memset((void *)a[3], 0, sizeof(struct io_event));
        aio_fd = -1;
        return 1;
    }
    long result = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_io_getevents && result == 1 && aio_fd >= 0) {
        const char *path = path_of(aio_fd);
        if (path && ((struct io_event *)a[3])->res == 0) {
            pthread_mutex_lock(&lock); emit('S', path, &aio_before, sizeof aio_before, NULL, 0); pthread_mutex_unlock(&lock);
        }
        aio_fd = -1;
    }
    return result;
}

static int cut(int fd, off_t size) {
    const char *path = path_of(fd);
    struct stat st;
    if (path && !fstat(fd, &st) && st.st_size > 0) truncated(path, st.st_size);
    return real_ftruncate(fd, size);
}
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off_t size) { return cut(fd, size); }

int rename(const char *from, const char *to) {
    int result = real_rename(from, to);
    if (!result && log_fd >= 0 && !strncmp(from, match, strlen(match))) {
        uint32_t size = (uint32_t)strlen(to);
        pthread_mutex_lock(&lock);
        emit('R', from, &size, sizeof size, to, size);
        for (int fd = 0; fd < FDS; fd++) if (paths[fd] && !strcmp(paths[fd], from)) { free(paths[fd]); paths[fd] = strdup(to); }
        pthread_mutex_unlock(&lock);
    }
    return result;
}
