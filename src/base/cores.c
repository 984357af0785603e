/* Where threads may run: the affinity mask of the caller, quotas of cgroups, and cores that share
 * hardware. Nothing here changes where anything runs; the pool does. */
#define _GNU_SOURCE /* sched_getaffinity, sched_getcpu */
#include "cores.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cfx__core_now(void) { return sched_getcpu(); }

/* ---- quotas ---------------------------------------------------------------------------------- */

static bool read_line(const char *path, char *line, int size) {
    FILE *f = fopen(path, "re");
    const bool fine = f && fgets(line, size, f);
    if (f)
        fclose(f);
    return fine;
}

int cfx__cores_of_quota(const char *text) {
    char *end;
    const double most = strtod(text, &end), period = strtod(end, NULL);
    if (end == text || most <= 0 || period <= 0)
        return 0;
    const double n = most / period;
    return n < 1 ? 1 : n > 1 << 20 ? 1 << 20 : (int)(n + 0.5);
}

static int lesser(int a, int b) { return a && (!b || a < b) ? a : b; }

/* The quota of one group, and of those around it. */
static int quota_of(const char *root, char *group, bool first_version) {
    int least = 0;
    for (;;) {
        char path[600], line[64], period[32];
        if (first_version) {
            snprintf(path, sizeof path, "%s%s/cpu.cfs_quota_us", root, group);
            bool fine = read_line(path, line, 32);
            snprintf(path, sizeof path, "%s%s/cpu.cfs_period_us", root, group);
            if (fine && read_line(path, period, sizeof period)) {
                snprintf(line + strcspn(line, "\n"), 33, " %s", period);
                least = lesser(cfx__cores_of_quota(line), least);
            }
        } else {
            snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
            if (read_line(path, line, sizeof line))
                least = lesser(cfx__cores_of_quota(line), least);
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Lines of /proc/self/cgroup: "0::/a/b", or "4:cpu,cpuacct:/a/b" of the first version. */
static int quota(void) {
    char line[512];
    int least = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        if (!names[1])
            least = lesser(quota_of("/sys/fs/cgroup", group, false), least);
        else if (!strncmp(names + 1, "cpu", 3) && (!names[4] || names[4] == ','))
            least = lesser(quota_of("/sys/fs/cgroup/cpu", group, true), least);
    }
    if (f)
        fclose(f);
    return least;
}

/* The same, asked for once. */
static int known_quota(void) {
    static atomic_int known; /* plus one; 0: not asked yet */
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (!n)
        atomic_store_explicit(&known, n = quota() + 1, memory_order_relaxed);
    return n - 1;
}

cfx__cores cfx__cores_allowed(void) {
    cfx__cores c;
    if (!sched_getaffinity(0, sizeof c.set, &c.set)) {
        c.n = CPU_COUNT(&c.set);
    } else {
        CPU_ZERO(&c.set);
        c.n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    }
    c.n = lesser(known_quota(), c.n < 1 ? 1 : c.n);
    return c;
}

int cfx__cores_worth(void) {
    static atomic_int known;
    int n = atomic_load_explicit(&known, memory_order_relaxed);
    if (!n)
        atomic_store_explicit(&known, n = cfx__cores_allowed().n, memory_order_relaxed);
    return n;
}

/* ---- hardware -------------------------------------------------------------------------------- */

int cfx__core_hardware(int core) {
    static atomic_int known[CPU_SETSIZE]; /* plus one; 0: not asked yet */
    int n = atomic_load_explicit(&known[core], memory_order_relaxed);
    if (!n) {
        char path[96], line[32];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 core);
        n = (read_line(path, line, sizeof line) ? (int)strtol(line, NULL, 10) : core) + 1;
        atomic_store_explicit(&known[core], n, memory_order_relaxed);
    }
    return n - 1;
}

static bool shares_hardware(int core, const cpu_set_t *taken, int from) {
    const int first = cfx__core_hardware(core);
    if (from >= 0 && cfx__core_hardware(from) == first)
        return true;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, taken) && cfx__core_hardware(i) == first)
            return true;
    return false;
}

int cfx__core_free(const cfx__cores *of, const cpu_set_t *taken, int from) {
    int second = -1;
    if (from >= CPU_SETSIZE)
        return -1;
    for (int i = 1; i <= CPU_SETSIZE; i++) {
        const int core = (from + i) % CPU_SETSIZE;
        if (core == from || !CPU_ISSET(core, &of->set) || CPU_ISSET(core, taken))
            continue;
        if (!shares_hardware(core, taken, from))
            return core;
        second = second < 0 ? core : second;
    }
    return second;
}

cpu_set_t cfx__cores_share(const cpu_set_t *all, int (*hardware)(int core), int mine, int here) {
    const int n = CPU_COUNT(all), from = mine * n / here, to = (mine + 1) * n / here;
    cpu_set_t own;
    CPU_ZERO(&own);
    /* the k-th core in order of hardware: first ones and those that share with them */
    for (int first = 0, k = 0; first < CPU_SETSIZE && k < to; first++)
        for (int core = first; core < CPU_SETSIZE; core++)
            if (CPU_ISSET(core, all) && hardware(core) == first && k++ >= from && k <= to)
                CPU_SET(core, &own);
    return own;
}
