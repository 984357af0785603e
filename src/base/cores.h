/* cores: where threads may run, and where helpers should. */
#ifndef CFX__CORES_H
#define CFX__CORES_H

#ifndef _GNU_SOURCE
#error "sched.h shows sets of cores with _GNU_SOURCE alone"
#endif
#include <sched.h>

#include "base.h"

/* The cores that a thread may use. */
typedef struct cfx__cores {
    cpu_set_t set; /* empty where the system does not tell */
    int n;         /* threads that run at once there: no more than quotas of cgroups are worth */
} cfx__cores;

/* Those of the calling thread: its affinity mask. */
cfx__cores cfx__cores_allowed(void);
/* The number of those of the first thread that asked: it stays the same. */
int cfx__cores_worth(void);
/* The core that the calling thread is on; -1: not known. */
int cfx__core_now(void);
/* A core of the set that is neither `from` nor among those taken, best on hardware of its own; the
 * next ones after `from` first. -1: none. */
int cfx__core_free(const cfx__cores *of, const cpu_set_t *taken, int from);
/* The first of the cores that share hardware with this one: threads of one processor core. */
int cfx__core_hardware(int core);
/* The share of one of `here` processes, number `mine`, that divide the cores of a set evenly. Cores
 * that share hardware (`hardware`: cfx__core_hardware) go to the same process as far as that goes,
 * whichever numbers the system gives them. */
cpu_set_t cfx__cores_share(const cpu_set_t *all, int (*hardware)(int core), int mine, int here);
/* How many threads a cgroup's quota is worth, from the text of its file: "MAX PERIOD" ("max": no
 * quota; of cgroup v1 the two files one after the other); 0: no quota. */
int cfx__cores_of_quota(const char *text);

#endif
