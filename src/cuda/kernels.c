/* kernels: the texts by their names. */
#include "kernels.h"

static const struct {
    const char *name, *text;
} texts[] = {
#include "cuda_kernels.inc"
};

const char *cfx__cuda_text(const char *name) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(texts[i].name, name) == 0)
            return texts[i].text;
    return NULL;
}
