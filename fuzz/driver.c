/* The driver of a harness where there is no libFuzzer: replays the files of the folders that it is
 * given, and with -n N tries N changed copies of them; -each A B tries inputs A to B - 1 of the
 * harness's list, where it has one. The same numbers give the same inputs, others with another
 * CFX_FUZZ_SEED. Ends with "N passed, 0 failed"; what goes wrong ends the process, as does an input
 * that takes more than CFX_FUZZ_SECONDS, and the input is left in the file that CFX_FUZZ_KEEP
 * names. */
#include "fuzz.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1 << 16, SEEDS = 4096 };

static struct {
    uint8_t *data;
    size_t size;
} seeds[SEEDS];
static int count;
static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void add_file(const char *path) {
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(MOST);
    size_t size = f && data ? fread(data, 1, MOST, f) : 0;
    if (f)
        fclose(f);
    if (f && count < SEEDS) {
        seeds[count].data = data;
        seeds[count++].size = size;
    } else {
        free(data);
    }
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void add_folder(const char *folder) {
    struct dirent **names = NULL;
    int n = scandir(folder, &names, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            add_file(path);
        free(names[i]);
    }
    free(names);
    if (n < 0)
        add_file(folder);
}

/* A copy with a few bytes changed, gone, or taken from another seed. */
static size_t changed(uint8_t *to) {
    uint64_t n_seeds = count ? (uint64_t)count : 1, from = draw() % n_seeds;
    uint64_t other = draw() % n_seeds;
    size_t size = count ? seeds[from].size : 0;
    if (size)
        memcpy(to, seeds[from].data, size);
    for (uint64_t k = 1 + draw() % 8; k > 0; k--) {
        size_t at = size ? draw() % size : 0, n = 1 + draw() % 16;
        switch (draw() % 4) {
        case 0:
        case 1:
            if (size)
                to[at] = (uint8_t)draw();
            break;
        case 2:
            n = n < size - at ? n : size - at;
            memmove(to + at, to + at + n, size - at - n);
            size -= n;
            break;
        default:
            if (count && seeds[other].size > n && size + n < MOST) {
                memmove(to + at + n, to + at, size - at);
                memcpy(to + at, seeds[other].data + draw() % (seeds[other].size - n), n);
                size += n;
            }
        }
    }
    return size;
}

static void try_input(const uint8_t *data, size_t size) {
    const char *path = getenv("CFX_FUZZ_KEEP"), *seconds = getenv("CFX_FUZZ_SECONDS");
    FILE *f = path ? fopen(path, "wb") : NULL;
    if (f) {
        fwrite(data, 1, size, f);
        fclose(f);
    }
    alarm(seconds ? (unsigned)strtoul(seconds, NULL, 10) : 0); /* SIGALRM ends the process */
    LLVMFuzzerTestOneInput(data, size);
}

__attribute__((weak)) size_t fuzz_listed(uint64_t i, uint8_t to[FUZZ_LISTED]) {
    (void)i, (void)to;
    fprintf(stderr, "-each: this harness has no list\n");
    exit(2);
}

int main(int argc, char **argv) {
    long more = 0, listed = 0, end = 0;
    const char *seed = getenv("CFX_FUZZ_SEED");
    state ^= seed ? strtoull(seed, NULL, 10) * 0x9e3779b97f4a7c15u : 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-n") && i + 1 < argc) {
            more = strtol(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "-each") && i + 2 < argc) {
            listed = strtol(argv[++i], NULL, 10);
            end = strtol(argv[++i], NULL, 10);
        } else {
            add_folder(argv[i]);
        }
    }
    for (int i = 0; i < count; i++)
        try_input(seeds[i].data, seeds[i].size);
    const long each = end > listed ? end - listed : 0;
    for (; listed < end; listed++) {
        uint8_t input[FUZZ_LISTED];
        try_input(input, fuzz_listed((uint64_t)listed, input));
    }
    uint8_t *room = malloc(MOST);
    for (long i = 0; room && i < more; i++) {
        size_t size = changed(room);
        try_input(room, size);
    }
    free(room);
    for (int i = 0; i < count; i++)
        free(seeds[i].data);
    cfx_finish(stderr);
    printf("%ld passed, 0 failed\n", count + more + each);
    return 0;
}
