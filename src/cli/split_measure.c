/* cfx split --measure: what the nodes of a program take when it runs as a plan, alone or beside
 * other ranks of this machine. Ranks of one machine share its memory's rate and its clocks: four of
 * them take longer for their parts than one that has the machine to itself. */
#define _GNU_SOURCE
#include "split.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_ranks.h"

enum { RUNS = 7 };

static double now(void) { return 1e-9 * (double)cfx__clock_ns(); }

/* ---- one run --------------------------------------------------------------------------------- */

/* Seconds of a kernel are divided among the nodes that it computes. */
static void note_ran(cfx_watcher *w, const cfx_ran *r) {
    for (int i = 0; i < r->nnodes; i++) {
        cfx_value before = cfx_dict_get(w->user, r->nodes[i]->name);
        const double own = r->seconds / r->nnodes;
        cfx_dict_set(w->user, r->nodes[i]->name,
                     cfx_float(own + (cfx_is_none(before) ? 0 : cfx_number(before))));
    }
}

/* Runs p once; what its nodes took goes to `seconds`, by name. The time of all, or -1. */
static double run_once(const cli_split_job *j, cfx_program *p, cfx_dict *seconds) {
    cfx_watcher w = {.ran = note_ran, .user = seconds};
    double took = -1;
    CFX_SCOPE {
        cfx_value inputs = cli_split_copies(j);
        const double from = now();
        cfx_program_run_with((cfx_site){0}, p, NULL, seconds ? &w : NULL,
                             (cfx_args){(int)cfx_as_list(inputs)->len, cfx_as_list(inputs)->items,
                                        NULL});
        took = now() - from;
    }
    return cfx_ok() ? took : -1;
}

/* ---- others beside it ------------------------------------------------------------------------ */

typedef struct {
    pid_t pid[CLI_SPLIT_BESIDE];
    int n;
} neighbours;

/* A process that runs the same again and again until it is ended, and says once that it has
 * begun. */
static void be_neighbour(cli_split_job *j, cfx_program *p, int number, int says) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* not longer than who measures */
    cli_share_cores(number, j->beside);
    bool begun = false;
    while (run_once(j, p, NULL) >= 0)
        if (!begun)
            begun = write(says, "", 1) == 1;
    _exit(CLI_TROUBLE);
}

static void end_neighbours(neighbours *b) {
    for (int i = 0; i < b->n; i++) {
        kill(b->pid[i], SIGKILL);
        waitpid(b->pid[i], NULL, 0);
    }
    b->n = 0;
}

/* Starts the others and waits until each has run once; false, with an error. */
static bool begin_neighbours(cli_split_job *j, cfx_program *p, neighbours *b) {
    int ends[2], begun = 0;
    char byte;
    if (pipe(ends)) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "no pipe for the ranks that run beside");
        return false;
    }
    for (int i = 1; i < j->beside; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            close(ends[0]);
            be_neighbour(j, p, i, ends[1]);
        }
        if (pid > 0)
            b->pid[b->n++] = pid;
    }
    close(ends[1]);
    while (begun < b->n && read(ends[0], &byte, 1) == 1)
        begun++;
    close(ends[0]);
    if (begun == j->beside - 1)
        return true;
    end_neighbours(b);
    cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%d of %d ranks that run beside did not begin",
             j->beside - 1 - begun, j->beside - 1);
    return false;
}

/* ---- the run that is typical ----------------------------------------------------------------- */

/* What kernels took in a run, each lengthened so that all of them take what the run did. */
static cfx_dict *lengthened(const cfx_dict *seconds, double took) {
    double all = 0;
    for (int64_t i = 0; i < seconds->len; i++)
        all += cfx_number(seconds->entries[i].value);
    cfx_dict *out = cfx_dict_new();
    for (int64_t i = 0; i < seconds->len; i++)
        cfx_dict_put(out, seconds->entries[i].key,
                     cfx_float(cfx_number(seconds->entries[i].value) * took / all));
    return out;
}

cfx_dict *cli_split_measure(cli_split_job *j) {
    cfx_program *p = cfx_to_aten(cfx_open(j->model)); /* it may write to its buffers */
    cfx_dict *seconds[RUNS];
    double took[RUNS], sorted[RUNS];
    neighbours beside = {.n = 0};
    if (!cfx_ok() || !cli_split_inputs(j))
        return NULL;
    if (j->threads)
        cfx_set_num_threads(j->threads);
    const cfx_grad_mode before = cfx_set_grad_mode(CFX_INFERENCE);
    if (j->beside > 1 && !begin_neighbours(j, p, &beside))
        return NULL;
    if (beside.n)
        cli_share_cores(0, j->beside);
    bool well = run_once(j, p, NULL) >= 0; /* packs the weights */
    for (int i = 0; i < RUNS && well; i++) {
        seconds[i] = cfx_dict_new();
        sorted[i] = took[i] = run_once(j, p, seconds[i]);
        well = took[i] >= 0;
    }
    end_neighbours(&beside);
    if (j->beside > 1)
        cli_share_cores(0, 1);
    cfx_set_grad_mode(before);
    const double median = well ? cli_median(sorted, RUNS) : -1;
    for (int i = 0; i < RUNS && well; i++)
        if (took[i] >= median)
            return lengthened(seconds[i], took[i]);
    return NULL;
}
