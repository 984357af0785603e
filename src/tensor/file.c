/* Files: mapped whole for reading; for writing made without a name, synced and put in place. */
#define _GNU_SOURCE /* O_TMPFILE */
#include "packed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what, const char *path, const char *why) {
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "cannot %s '%s': %s", what, path, why);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void mapping_free(void *p) {
    cfx__file_mapping *m = p;
    if (m->copied)
        cfx__free(m->data);
    else if (m->size)
        munmap(m->data, m->size);
}

static const cfx__obj_type mapping_type = {.name = "mapping", .free = mapping_free};

/* Reads size bytes; NULL, with the error recorded, when they are not there. */
static char *read_whole(const char *path, int fd, size_t size) {
    char *data = cfx__alloc_aligned(size);
    if (!data) {
        fail("read", path, strerror(ENOMEM));
        return NULL;
    }
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, data + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            fail("read", path, n ? strerror(errno) : "it became shorter while it was read");
            cfx__free(data);
            return NULL;
        }
        at += (size_t)n;
    }
    return data;
}

static char *map_whole(const char *path, int fd, size_t size) {
    /* without reserve: a file may be larger than memory, of which only writes need any */
    char *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (data != MAP_FAILED)
        return data;
    fail("map", path, strerror(errno));
    return NULL;
}

/* What keeps a file from being read, or NULL. */
static const char *hindrance(const struct stat *st, bool own) {
    if (!S_ISREG(st->st_mode))
        return S_ISDIR(st->st_mode) ? "Is a directory" : "not a regular file";
    if (own && ((st->st_uid != geteuid() && st->st_uid != 0) || st->st_mode & (S_IWGRP | S_IWOTH)))
        return "others could have written it";
    return NULL;
}

/* Opens a file for reading and tells its size; `own`: see cfx__file_map_own. -1, with an error. */
static int open_file(const char *path, bool own, size_t *size) {
    if (!path) {
        fail("read", "(null)", "no path was given");
        return -1;
    }
    /* not to wait for somebody at the other end of a pipe */
    int fd = open(path,
                  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (own ? O_NOFOLLOW : 0));
    struct stat st;
    const char *why = fd < 0 || fstat(fd, &st) < 0 ? strerror(errno) : hindrance(&st, own);
    if (!why) {
        *size = (size_t)st.st_size;
        return fd;
    }
    fail("read", path, why);
    if (fd >= 0)
        close(fd);
    return -1;
}

int cfx__file_open(const char *path, size_t *size) { return open_file(path, false, size); }

static cfx__file_mapping *map_file(const char *path, bool own) {
    size_t size = 0;
    int fd = open_file(path, own, &size);
    if (fd < 0)
        return NULL;
    bool copy = cfx__ctx()->copy_files;
    char *data = size ? (copy ? read_whole : map_whole)(path, fd, size) : NULL;
    close(fd);
    if (size && !data)
        return NULL;
    cfx__file_mapping *m = cfx__obj_make(&mapping_type, sizeof *m);
    m->data = data;
    m->size = size;
    m->copied = copy;
    return m;
}

cfx__file_mapping *cfx__file_map(const char *path) { return map_file(path, false); }

cfx__file_mapping *cfx__file_map_own(const char *path) { return map_file(path, true); }

void cfx__file_unload(const cfx__storage *s) {
    const cfx_obj *owner = s->release == cfx_drop ? s->owner : NULL;
    if (!owner || owner->type != &mapping_type || s->version || s->foreign ||
        ((const cfx__file_mapping *)owner)->copied)
        return;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)s->data;
    const uintptr_t first = (from + page - 1) / page * page, end = (from + s->size) / page * page;
    if (first < end) /* whole pages of its own: what lies beside it stays */
        madvise((void *)first, end - first, MADV_DONTNEED);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The folder of a path, in `room`, and the name in it. */
static const char *split_path(const char *path, char *room) {
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 1;
    snprintf(room, PATH_MAX, "%.*s", len ? (int)len : 1, slash ? path : ".");
    return slash ? slash + 1 : path;
}

/* Where a path leads, through links, also to where there is nothing yet; in `room`, or the path. */
static const char *followed(const char *path, char *room) {
    enum { MOST = 40 };
    char now[PATH_MAX], to[PATH_MAX];
    if (realpath(path, room))
        return room;
    snprintf(now, sizeof now, "%s", path);
    for (int hop = 0; hop < MOST; hop++) {
        ssize_t n = readlink(now, to, sizeof to - 1);
        if (n < 0)
            return hop ? memcpy(room, now, sizeof now) : path;
        to[n] = 0;
        split_path(now, room);
        size_t len = *to == '/' ? 0 : strlen(room);
        if (len + (size_t)n + 2 > sizeof now)
            return path;
        snprintf(now, sizeof now, "%.*s%s%.*s", (int)len, room, len ? "/" : "", (int)n, to);
    }
    return path;
}

/* Temporary names are ".NAME.NUMBER.cfx": whoever writes such a file holds a lock on it, so that
 * one without a lock was left by a process that is no more. Gives the number, or NULL. */
static const char *number_in(const char *name, const char *target, char number[64]) {
    size_t n = strlen(target), len = strlen(name);
    if (name[0] != '.' || len < n + 7 || len > n + 64 || strncmp(name + 1, target, n) ||
        name[n + 1] != '.' || strcmp(name + len - 4, ".cfx") ||
        strspn(name + n + 2, "0123456789-") != len - n - 6)
        return NULL;
    snprintf(number, 64, "%.*s", (int)(len - n - 6), name + n + 2);
    return number;
}

static void sweep(const char *target) {
    char folder[PATH_MAX], number[64];
    const char *name = split_path(target, folder);
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!number_in(e->d_name, name, number))
            continue;
        int fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlinkat(dirfd(dir), e->d_name, 0);
        if (fd >= 0)
            close(fd);
    }
    if (dir)
        closedir(dir);
}

static char *temporary_name(const char *target, const char *number) {
    char folder[PATH_MAX];
    const char *name = split_path(target, folder);
    size_t room = strlen(target) + strlen(number) + 8;
    char *temp = cfx__alloc(room);
    snprintf(temp, room, "%.*s.%s.%s.cfx", (int)(name - target), target, name, number);
    return temp;
}

/* A new file without a name in the folder of the target, or with a temporary one where the file
 * system knows no such files; with the rights that an ordinary new file would get, or the owner's
 * alone, where those of the file that it replaces are to follow. */
static int create(cfx__file_save *s, bool replaces) {
    char folder[PATH_MAX];
    split_path(s->target, folder);
    s->temp = temporary_name(s->target, s->number);
    const mode_t mode = replaces ? 0600 : 0666;
    int fd = access("/proc/self/fd", X_OK) == 0
                 ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode)
                 : -1;
    if (fd >= 0 || errno == EACCES)
        return fd;
    fd = open(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    s->named = fd >= 0;
    if (fd >= 0)
        flock(fd, LOCK_EX | LOCK_NB);
    return fd;
}

/* Opens what is no file; a pipe that nobody reads is an error, not a wait. */
static int open_device(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static void release(cfx__file_save *s) {
    cfx__free(s->temp);
    cfx__free(s->target);
    *s = (cfx__file_save){0};
}

bool cfx__file_save_open(cfx__file_save *s, const char *path) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    cfx__file_save number = {0}; /* no two threads have the same */
    snprintf(number.number, sizeof number.number, "%ld-%lld-%ld", (long)gettid(),
             (long long)t.tv_sec, t.tv_nsec);
    return cfx__file_save_open_with(s, path, &number);
}

bool cfx__file_save_open_with(cfx__file_save *s, const char *path, const cfx__file_save *first) {
    *s = (cfx__file_save){0};
    memcpy(s->number, first->number, sizeof s->number);
    if (!path) {
        fail("write", "(null)", "no path was given");
        return false;
    }
    char real[PATH_MAX]; /* a link stays a link: what it points to is replaced */
    const char *target = followed(path, real);
    s->target = cfx__text_copy(target, strlen(target));
    struct stat st; /* of the path as given: the system may forbid to follow a link of others */
    bool there = stat(path, &st) == 0, device = there && !S_ISREG(st.st_mode);
    int fd = !there && errno != ENOENT ? -1 : device ? open_device(target) : create(s, there);
    if (fd >= 0 && there && !device) {
        (void)!fchown(fd, st.st_uid, st.st_gid);
        fchmod(fd, st.st_mode & 0777);
    }
    if (fd >= 0)
        s->file = fdopen(fd, "wb");
    if (!s->file) {
        fail("write", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        if (s->named)
            unlink(s->temp);
        release(s);
        return false;
    }
    return true;
}

/* Gives the file a name beside the target; devices need none. Whoever is interrupted from here to
 * the rename leaves it behind, for `sweep` to find, so nothing slow is done in between. */
static bool link_temporary(cfx__file_save *s) {
    char self[32];
    if (!s->temp)
        return true;
    int fd = fileno(s->file);
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    flock(fd, LOCK_EX | LOCK_NB);
    s->named = s->named || linkat(AT_FDCWD, self, AT_FDCWD, s->temp, AT_SYMLINK_FOLLOW) == 0;
    return s->named;
}

/* What was renamed is there after a crash once its folder is on the disk too. */
static void sync_folder(const char *target) {
    char folder[PATH_MAX];
    split_path(target, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

/* Whether all is written, and on the disk. */
static bool is_whole(cfx__file_save *s) {
    return !ferror(s->file) && fflush(s->file) == 0 && (!s->temp || fsync(fileno(s->file)) == 0);
}

static bool put_in_place(cfx__file_save *s) {
    if (!s->temp)
        return true;
    if (rename(s->temp, s->target) != 0)
        return false;
    s->named = false;
    sync_folder(s->target);
    return true;
}

/* Ends a save. `why` is the errno of what failed before, or 0. */
static bool finish(cfx__file_save *s, bool wanted, bool placed, int why) {
    if (fclose(s->file) != 0 && placed) {
        placed = false;
        why = errno;
    }
    if (wanted && !placed)
        fail("write", s->target, why ? strerror(why) : "the disk may be full");
    if (s->named)
        unlink(s->temp);
    if (s->temp)
        sweep(s->target);
    release(s);
    return wanted && placed;
}

/* What ran out of memory on the way is not whole. */
static bool ran_out(void) {
    const cfx_error *e = cfx_error_last();
    return e && e->kind == CFX_MEMORY_ERROR;
}

bool cfx__file_save_close(cfx__file_save *s, bool ok) {
    ok = ok && !ran_out();
    errno = 0;
    bool placed = ok && is_whole(s) && link_temporary(s) && put_in_place(s);
    return finish(s, ok, placed, errno);
}

/* Both get temporary names, the first one first. The rename of the first decides: the second alone
 * under a temporary name was decided for. */
bool cfx__file_save_close_pair(cfx__file_save *first, cfx__file_save *second, bool ok) {
    ok = ok && !ran_out();
    errno = 0;
    bool placed = ok && is_whole(first) && is_whole(second) && link_temporary(first) &&
                  link_temporary(second) && put_in_place(first) && put_in_place(second);
    int why = errno;
    bool done = finish(second, ok, placed, why);
    return finish(first, ok, placed, why) && done;
}

/* Whether a file under a temporary name is one that a save left for `second`: no link, of somebody
 * who may be trusted with `first`, and not older than what lies in its place. Anybody may make such
 * a name in a folder that all write to. */
static bool is_left(int folder, const char *name, const char *first, const char *second) {
    struct stat left, owner, now;
    if (fstatat(folder, name, &left, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(left.st_mode) ||
        stat(first, &owner) != 0)
        return false;
    if (left.st_uid != owner.st_uid && left.st_uid != geteuid() && left.st_uid != 0)
        return false;
    if (stat(second, &now) != 0)
        return true;
    const struct timespec a = left.st_mtim, b = now.st_mtim;
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec >= b.tv_nsec);
}

char *cfx__file_pending(const char *first, const char *second) {
    char folder[PATH_MAX], number[64], real[2][PATH_MAX];
    first = followed(first, real[0]);
    second = followed(second, real[1]);
    const char *name = split_path(second, folder);
    char *found = NULL;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        if (!number_in(e->d_name, name, number) || !is_left(dirfd(dir), e->d_name, first, second))
            continue;
        char *text = temporary_name(first, number);
        if (access(text, F_OK) != 0)
            found = temporary_name(second, number);
        cfx__free(text);
    }
    if (dir)
        closedir(dir);
    return found ? found : cfx__text_copy(second, strlen(second));
}

bool cfx__file_write(const char *path, const char *bytes, size_t len) {
    cfx__file_save s;
    if (!cfx__file_save_open(&s, path))
        return false;
    fwrite(bytes, 1, len, s.file);
    return cfx__file_save_close(&s, true);
}
