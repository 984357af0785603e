/* The cores of a machine whose ranks share them. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "run_ranks.h"

#include <string.h>

#include "../base/cores.h"

int cli_share_cores(int mine, int here) {
    cpu_set_t before, all;
    if (sched_getaffinity(0, sizeof before, &before))
        return 1;
    memset(&all, 0xff, sizeof all); /* as many of them as the system allows */
    if (sched_setaffinity(0, sizeof all, &all) || sched_getaffinity(0, sizeof all, &all))
        all = before;
    const int cores = CPU_COUNT(&all);
    if (cores < here)
        return 1;
    const cpu_set_t own = cfx__cores_share(&all, cfx__core_hardware, mine, here);
    return sched_setaffinity(0, sizeof own, &own) ? cores / here : CPU_COUNT(&own);
}
