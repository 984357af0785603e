/* Files: mapped whole for reading, written beside and renamed for writing. */
#include "tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void fail(const char *what, const char *path, const char *why) {
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "cannot %s '%s': %s", what, path, why);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void mapping_free(void *p) {
    cfx__file_mapping *m = p;
    if (m->size)
        munmap(m->data, m->size);
}

static const cfx__obj_type mapping_type = {.name = "mapping", .free = mapping_free};

cfx__file_mapping *cfx__file_map(const char *path) {
    if (!path) {
        fail("read", "(null)", "no path was given");
        return NULL;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        fail("read", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    if (!S_ISREG(st.st_mode)) {
        fail("read", path, S_ISDIR(st.st_mode) ? "Is a directory" : "not a regular file");
        close(fd);
        return NULL;
    }
    void *data = NULL;
    if (st.st_size) {
        /* without reserve: a file may be larger than memory, of which only writes need any */
        data = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
                    fd, 0);
        if (data == MAP_FAILED) {
            fail("map", path, strerror(errno));
            close(fd);
            return NULL;
        }
    }
    close(fd);
    cfx__file_mapping *m = cfx__obj_make(&mapping_type, sizeof *m);
    m->data = data;
    m->size = (size_t)st.st_size;
    return m;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A new file beside the target, with the rights that an ordinary new file would get. */
static int create_beside(cfx__file_save *s) {
    size_t room = strlen(s->target) + 48;
    s->temp = cfx__alloc(room);
    for (int i = 0; i < 1000; i++) {
        snprintf(s->temp, room, "%s.%ld-%d.tmp", s->target, (long)getpid(), i);
        int fd = open(s->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
    }
    return -1;
}

static void release(cfx__file_save *s) {
    cfx__free(s->temp);
    cfx__free(s->target);
    *s = (cfx__file_save){0};
}

bool cfx__file_save_open(cfx__file_save *s, const char *path) {
    *s = (cfx__file_save){0};
    if (!path) {
        fail("write", "(null)", "no path was given");
        return false;
    }
    char real[PATH_MAX]; /* a link stays a link: what it points to is replaced */
    const char *target = realpath(path, real) ? real : path;
    s->target = cfx__text_copy(target, strlen(target));
    struct stat st;
    bool in_place = stat(s->target, &st) == 0 && !S_ISREG(st.st_mode);
    int fd = in_place ? open(s->target, O_WRONLY | O_CLOEXEC) : create_beside(s);
    if (fd >= 0)
        s->file = fdopen(fd, "wb");
    if (!s->file) {
        fail("write", path, strerror(errno));
        if (fd >= 0) {
            close(fd);
            if (s->temp)
                unlink(s->temp);
        }
        release(s);
        return false;
    }
    return true;
}

bool cfx__file_save_close(cfx__file_save *s, bool ok) {
    errno = 0;
    bool wrote = !ferror(s->file);
    wrote = fclose(s->file) == 0 && wrote;
    if (ok && wrote && s->temp)
        wrote = rename(s->temp, s->target) == 0;
    if (ok && !wrote)
        fail("write", s->target, errno ? strerror(errno) : "the disk may be full");
    if (s->temp && !(ok && wrote))
        unlink(s->temp);
    release(s);
    return ok && wrote;
}
