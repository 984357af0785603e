/* Time that runs out, at every look at the clock: each path is walked again and again while the
 * first, second, third ... look finds that the limit is used up. Whatever was going on, the limit
 * is the error, and the same path works once there is time again. Under valgrind (make memcheck)
 * this also says that nothing is read that a step which was left out would have written. */
#include "../src/base/base.h"
#include "faults.h"
#include "paths.h"
#include "test.h"

/* How many of the first looks, and of the others: CFX_SAMPLES of both where that is set, for
 * valgrind. */
static long samples(long usual) {
    const char *few = getenv("CFX_SAMPLES");
    return few ? strtol(few, NULL, 10) + 1 : usual;
}

static const char *walk(const path *p) {
    const char *text = p->go(p->file);
    return text ? text : "(none)";
}

/* One walk in which the n-th look is too late. Returns whether there was one. */
static bool late_at(const path *p, long n, const char *wanted) {
    cfx_site at = {p->name, (int)n};
    size_t mark = cfx_scope_open();
    cfx_set_time_limit(1e6);
    faults_clock_begin(n);
    const char *text = walk(p);
    bool came = faults_clock_end();
    cfx_set_time_limit(0);
    const cfx_error *e = cfx_error_last();
    if (!came) /* or it is the last look, and does not matter any more */
        test_check_ok(at);
    else if (e ? e->kind != CFX_LIMIT_ERROR : strcmp(text, wanted) != 0)
        test_fail(at, "%s", e ? e->message : "gives another result and no error");
    cfx_error_clear();
    cfx_scope_close(mark);
    return came;
}

static void loop(const path *p) {
    paths_begin();
    cfx_set_num_threads(1);
    size_t mark = cfx_scope_open();
    const char *wanted = walk(p);
    if (!CHECK_OK())
        return;
    const long every = samples(400);
    long total = every;
    while (late_at(p, total, wanted))
        total += total / 3;
    long step = getenv("CFX_THOROUGH") ? 1 : total / samples(100) + 1;
    for (long n = 1; late_at(p, n, wanted); n += n < every ? 1 : step)
        continue;
    CHECK_STR(walk(p), wanted);
    CHECK_OK();
    cfx_scope_close(mark);
}

static void group(const char *name) {
    for (const path *p = paths; p->name; p++)
        if (!strncmp(p->group, name, strlen(name)))
            loop(p);
}

TEST(time_runs_out_while_running) { group("run"); }
TEST(time_runs_out_while_decomposing) { group("decompose"); }
TEST(time_runs_out_while_changing) { group("change"); }
TEST(time_runs_out_while_showing_and_drawing) {
    group("show");
    group("draw");
}
TEST(time_runs_out_while_saving) { group("save"); }
TEST(time_runs_out_while_tracing_and_training) {
    group("trace");
    group("train");
}
TEST(time_runs_out_step_by_step) { group("recur"); }
TEST(time_runs_out_in_operators) { group("ops"); }
TEST(time_runs_out_while_quantizing) { group("quantize"); }
