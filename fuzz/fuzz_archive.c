/* Files: bytes as they lie in a .pt2, .pt, .safetensors, .npy or .npz file. What can be read is
 * written and read again as the same. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What is read here prints; what prints is limited, so that an error need not mean a mistake. */
static const char *shown(cfx_value v) {
    bool read = cfx_ok();
    const char *text = read ? cfx_str(v) : NULL;
    return fuzz_fine() && read ? text : NULL;
}

static void values(const char *path) {
    const char *first = shown(cfx_torch_load(path));
    if (!first)
        return;
    const char *copy = fuzz_path("pt");
    bool saved = cfx_torch_save(copy, cfx_torch_load(path));
    fuzz_fine();
    const char *again = saved ? shown(cfx_torch_load(copy)) : first;
    unlink(copy);
    if (again && strcmp(first, again) != 0)
        fuzz_wrong("saved and loaded again, a value is another:\n%s\n%s", first, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        return 0;
    fuzz_begin();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fuzz_use(cfx_open(path));
    values(path);
    shown(cfx_dict_value(cfx_safetensors_read(path)));
    shown(cfx_dict_value(cfx_safetensors_metadata(path)));
    cfx_dict *tensors = cfx_tensors_read(path);
    shown(tensors ? cfx_dict_value(tensors) : cfx_none());
    shown(cfx_checkpoint_read(path));
    shown(cfx_tensor_value(cfx_npy_read(path)));
    fuzz_end();
    close(fd);
    return 0;
}
