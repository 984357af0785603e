/* The driver of a harness where there is no libFuzzer: replays the files of the folders that it is
 * given, and with -n N tries N changed copies of them; -each A B tries inputs A to B - 1 of the
 * harness's list, where it has one. The same numbers give the same inputs, others with another
 * CFX_FUZZ_SEED. -seconds S stops after that time. Ends with "N passed, 0 failed". What goes wrong
 * ends the process, as does an input that takes more than CFX_FUZZ_SECONDS, and the input is left
 * in the file that CFX_FUZZ_KEEP names. With -on a process of its own tries the inputs: where it
 * ends, that counts as a failure, its input is left in that file with its number behind the name,
 * and the next process goes on with the next input. */
#include "fuzz.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 16, SEEDS = 4096, TOGETHER = 2000, LONGEST = 60 };

static struct {
    uint8_t *data;
    size_t size;
} seeds[SEEDS];
static int count;

/* What processes hand to each other: the next input, and what the next copy is changed by. */
static struct {
    long at;
    uint64_t state;
} *now;

static uint64_t draw(void) {
    uint64_t state = now->state;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return now->state = state;
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

/* What is tried: the files, then what is listed from `first` on, then changed copies. */
static struct {
    long listed, first, changed;
    bool on;
    time_t until; /* 0: no matter how long */
} plan;

static long in_all(void) { return count + plan.listed + plan.changed; }

static void try_input(const uint8_t *data, size_t size) {
    const char *path = getenv("CFX_FUZZ_KEEP"), *seconds = getenv("CFX_FUZZ_SECONDS");
    FILE *f = path ? fopen(path, "wb") : NULL;
    if (f) {
        fwrite(data, 1, size, f);
        fclose(f);
    }
    /* SIGALRM ends the process */
    alarm(seconds ? (unsigned)strtoul(seconds, NULL, 10) : plan.on ? LONGEST : 0);
    LLVMFuzzerTestOneInput(data, size);
}

__attribute__((weak)) size_t fuzz_listed(uint64_t i, uint8_t to[FUZZ_LISTED]) {
    (void)i, (void)to;
    fprintf(stderr, "-each: this harness has no list\n");
    exit(2);
}
__attribute__((weak)) void fuzz_start(void) {}
__attribute__((weak)) void fuzz_report(void) {}

static void try_number(long i, uint8_t room[MOST]) {
    if (i < count) {
        try_input(seeds[i].data, seeds[i].size);
    } else if (i < count + plan.listed) {
        uint8_t input[FUZZ_LISTED];
        try_input(input, fuzz_listed((uint64_t)(plan.first + i - count), input));
    } else {
        const size_t size = changed(room);
        try_input(room, size);
    }
}

static bool is_over(void) {
    return now->at >= in_all() || (plan.until && time(NULL) >= plan.until);
}

/* So many inputs, or all there is time for; nothing of them is left. */
static void try_some(long n) {
    uint8_t *room = malloc(MOST);
    for (const long end = now->at + n; room && now->at < end && !is_over(); now->at++)
        try_number(now->at, room);
    alarm(0);
    free(room);
    for (int i = 0; i < count; i++)
        free(seeds[i].data);
    cfx_finish(stderr);
}

/* The number that -each would be given for it, or how many came before it. */
static void tell_end(int status) {
    const char *path = getenv("CFX_FUZZ_KEEP");
    const long i = now->at - count, number = i >= 0 && i < plan.listed ? plan.first + i : now->at;
    fprintf(stderr, "input %ld: %s %d\n", number, WIFSIGNALED(status) ? "signal" : "exit status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    if (path) {
        char kept[4096];
        snprintf(kept, sizeof kept, "%s.%ld", path, number);
        rename(path, kept);
    }
}

/* One process after the other; how many inputs ended one. */
static long go_on(void) {
    long failed = 0;
    while (!is_over()) {
        int status = 0;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            try_some(TOGETHER);
            exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child) {
            perror("fork");
            exit(2);
        }
        if (status) {
            tell_end(status);
            failed++;
            now->at++;
        }
    }
    return failed;
}

int main(int argc, char **argv) {
    const char *seed = getenv("CFX_FUZZ_SEED");
    now = fuzz_shared(sizeof *now);
    now->state = 88172645463325252u ^ (seed ? strtoull(seed, NULL, 10) * 0x9e3779b97f4a7c15u : 0);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-n") && i + 1 < argc) {
            plan.changed = strtol(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "-seconds") && i + 1 < argc) {
            plan.until = time(NULL) + strtol(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "-on")) {
            plan.on = true;
        } else if (!strcmp(argv[i], "-each") && i + 2 < argc) {
            plan.first = strtol(argv[++i], NULL, 10);
            const long end = strtol(argv[++i], NULL, 10);
            plan.listed = end > plan.first ? end - plan.first : 0;
        } else {
            add_folder(argv[i]);
        }
    }
    fuzz_start();
    const long failed = plan.on ? go_on() : 0;
    if (!plan.on)
        try_some(in_all());
    fuzz_report();
    printf("%ld passed, %ld failed\n", now->at - failed, failed);
    return failed > 0;
}
