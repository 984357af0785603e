/* What guard.h says. */
#define _GNU_SOURCE /* memmem */
#include "guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SILENT_S = 60, TROUBLE = 2 };

static struct {
    pthread_t thread;
    atomic_bool on;
    int64_t patience;
    char node[NODE], self[NODE + 32];
    char started[NODE + 160]; /* what a rank says that is told to end before it met the others */
} guard;

void cfx__nap(int64_t ns) {
    nanosleep(&(struct timespec){ns / 1000000000, ns % 1000000000}, NULL);
}

int64_t cfx__guard_open(void) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *patience = getenv("CFX_RANKS_SILENT");
    const long seconds = patience ? strtol(patience, NULL, 10) : 0;
    guard.patience = (seconds > 0 && seconds < 1000000 ? seconds : SILENT_S) * (int64_t)1000000000;
    if (gethostname(guard.node, sizeof guard.node - 1))
        snprintf(guard.node, sizeof guard.node, "an unnamed machine");
    snprintf(guard.self, sizeof guard.self, "rank %.8s on %s", rank ? rank : "?", guard.node);
    snprintf(guard.started, sizeof guard.started, "cfx: %s: mpirun ends all ranks while they "
             "start: its own message says which failed\n", guard.self);
    return guard.patience;
}

_Noreturn void cfx__guard_told_to_end(void) {
    (void)!write(STDERR_FILENO, guard.started, strlen(guard.started));
    _exit(TROUBLE);
}

/* A file of /proc/PID as a text; how long it is. */
static size_t read_of(int pid, const char *name, char *text, size_t room) {
    char path[128];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    FILE *f = fopen(path, "re");
    const size_t n = f ? fread(text, 1, room - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    return n;
}

static bool is_stopped(int pid) {
    char line[512];
    read_of(pid, "stat", line, sizeof line);
    const char *state = strrchr(line, ')');
    return state && strlen(state) > 2 && (state[2] == 'T' || state[2] == 't');
}

/* Of other children of mpirun, or of its daemon, one that is stopped. */
static void find_stopped(char *text, size_t room) {
    static char line[1 << 16], around[1 << 16]; /* there is one guard */
    static const char name[] = "OMPI_COMM_WORLD_RANK=";
    char children[64];
    snprintf(children, sizeof children, "task/%d/children", (int)getppid());
    read_of((int)getppid(), children, line, sizeof line);
    for (char *at = line, *end; *at; at = end) {
        const int pid = (int)strtol(at, &end, 10);
        if (end == at)
            return;
        if (!is_stopped(pid))
            continue;
        const size_t n = read_of(pid, "environ", around, sizeof around);
        const char *rank = memmem(around, n, name, sizeof name - 1);
        snprintf(text, room, "rank %.8s on %s (process %d) is stopped",
                 rank ? rank + sizeof name - 1 : "?", guard.node, pid);
        return;
    }
}

static void *keep(void *arg) {
    for (int64_t waited = 0; atomic_load(&guard.on); waited += TICK_NS) {
        char why[NODE + 64] = "another rank has not come: it is stopped, or cannot be reached";
        if (waited > guard.patience) {
            find_stopped(why, sizeof why);
            fprintf(stderr, "cfx: %s: MPI has not %s within %lld seconds: %s\n", guard.self,
                    (const char *)arg, (long long)(guard.patience / 1000000000), why);
            _exit(TROUBLE);
        }
        cfx__nap(TICK_NS);
    }
    return NULL;
}

bool cfx__guard_begin(const char *what) {
    atomic_store(&guard.on, true);
    const bool begun = !pthread_create(&guard.thread, NULL, keep, (void *)what);
    atomic_store(&guard.on, begun);
    return begun;
}

void cfx__guard_end(void) {
    if (atomic_exchange(&guard.on, false))
        pthread_join(guard.thread, NULL);
}
