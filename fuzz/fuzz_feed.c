/* What people feed a program with: tokenizer.json files and pictures. Bytes that begin as a picture
 * are one; others are a tokenizer, by which texts are taken apart and put together again. */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include "feed/tokenizer.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void use_tokenizer(const char *json) {
    static const char *const texts[] = {"", "a b", "It's 12 o'clock.", "na\xc3\xafve  \xe4\xb8\x96",
                                        "<|endoftext|>[MASK] \xf0\x9f\x99\x82\n\n"};
    cfx_tokenizer *t = cfx_tokenizer_parse(json, "fuzz.json");
    if (!t && cfx_ok())
        fuzz_wrong("neither a tokenizer nor an error");
    for (int i = 0; t && i < COUNT(texts); i++) {
        cfx_tensor *ids = cfx_tokenizer_encode(t, texts[i], i % 2);
        if (cfx_ok() && !cfx_tokenizer_decode(t, ids, i % 2) && cfx_ok())
            fuzz_wrong("neither a text nor an error");
        fuzz_fine();
    }
    fuzz_fine();
}

static void use_picture(const uint8_t *data, size_t size) {
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, data, size) == (ssize_t)size) {
        cfx_image_options how = {.size = {8, 9}};
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        cfx_tensor *t = cfx_image_read(path);
        if (cfx_ok() && (t->dtype != CFX_U8 || t->ndim != 3))
            fuzz_wrong("a picture of another kind");
        if (cfx_ok())
            cfx_image_prepare(t, &how);
        fuzz_fine();
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char room[1 << 16];
    cfx__bytes b = {data, size};
    fuzz_begin();
    if (cfx__png_is(b) || cfx__jpeg_is(b)) {
        use_picture(data, size);
    } else {
        size = size < sizeof room - 1 ? size : sizeof room - 1;
        memcpy(room, data, size);
        room[size] = 0;
        use_tokenizer(room);
    }
    return fuzz_end();
}
