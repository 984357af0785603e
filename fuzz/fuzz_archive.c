/* Archives: bytes as they lie in a .pt2 file. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    fuzz_begin();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fuzz_use(cfx_open(path));
    fuzz_end();
    close(fd);
    return 0;
}
