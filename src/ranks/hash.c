/* File hashes, by which ranks detect that they have opened different files. Large archives are
 * not read completely, because each rank reads only the weights of its stage; the end of an
 * archive has the checksums of its contents. */
#define _GNU_SOURCE
#include <cfx/ranks.h>

#include <errno.h>
#include <unistd.h>

#include "../tensor/tensor.h"
#include "hash.h"

enum { PIECE = 1 << 20, WHOLE = 64 << 20, ENDS = 8 << 20 };

uint64_t cfx__hash_bytes(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        hash = cfx__hash_mix(hash, word);
    }
    for (; i < n; i++)
        hash = cfx__hash_mix(hash, p[i]);
    return hash;
}

/* Adds the bytes from one place to another; false where they cannot be read. */
static bool add_range(int fd, int64_t from, int64_t to, unsigned char *room, uint64_t *hash) {
    while (from < to && cfx__limit_time()) {
        const ssize_t n = pread(fd, room, (size_t)(to - from < PIECE ? to - from : PIECE), from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        *hash = cfx__hash_bytes(*hash, room, (size_t)n);
        from += n;
    }
    return from >= to;
}

static bool add_file(int fd, int64_t size, uint64_t *hash) {
    unsigned char *room = cfx__alloc_try(PIECE);
    bool read = room && pread(fd, room, 4, 0) >= 0;
    if (read) {
        const bool archive = !memcmp(room, "PK\3\4", 4);
        *hash = cfx__hash_mix(*hash, (uint64_t)size);
        read = archive && size > WHOLE ? add_range(fd, 0, ENDS, room, hash) &&
                                             add_range(fd, size - ENDS, size, room, hash)
                                       : add_range(fd, 0, size, room, hash);
    }
    cfx__free(room);
    return read;
}

bool cfx_file_hash(const char *path, uint64_t *hash) {
    if (!cfx_ok())
        return false;
    size_t size = 0;
    const int fd = hash ? cfx__file_open(path, &size) : -1;
    if (!hash)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "cfx_file_hash: no place for the hash was given");
    if (fd < 0)
        return false;
    *hash = 0;
    const bool read = add_file(fd, (int64_t)size, hash);
    close(fd);
    if (!read)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "cannot read '%s': it became shorter while it was read", path);
    return read && cfx_ok();
}
