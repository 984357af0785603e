/* Memory that runs out, at every place where some is asked for: each path is walked again and again
 * while its first, second, third ... allocation fails, alone or with all that follow. Whatever
 * fails, the process goes on, an error is recorded or the result is right, and the same path works
 * once there is memory again.
 *
 * Each walk is a process of its own, so that what is set up on first use fails too. */
#include "../src/base/base.h"
#include "faults.h"
#include "paths.h"
#include "test.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT = 1 << 20, EVERY = 16, SAMPLES = 20 };

/* What the processes of a test share. */
typedef struct shared {
    bool came;       /* the allocation that was to fail was asked for */
    char text[TEXT];    /* what the path gives when nothing fails */
    char instead[TEXT]; /* or where the interpreter takes over from a plan */
} shared;

static void put_text(char to[TEXT], const char *text) {
    snprintf(to, TEXT, "%s", text ? text : "(none)");
}

/* A plan that gets no memory is the interpreter's, whose last digits are others. */
static bool is_right(const shared *s, const char *text) {
    text = text ? text : "(none)";
    return !strcmp(text, s->text) || !strcmp(text, s->instead);
}

/* One walk in which the n-th allocation fails; the exit status tells what is wrong. */
static void walk(shared *s, const path *p, long n, bool all) {
    cfx_set_num_threads(1);
    size_t mark = cfx_scope_open();
    faults_begin(n, all);
    const char *text = p->go(p->file);
    s->came = faults_end();
    if (cfx_ok() && !is_right(s, text))
        _exit(10);
    cfx_error_clear();
    cfx_scope_close(mark);
    text = p->go(p->file);
    if (!cfx_ok()) {
        cfx_report(stdout);
        fflush(stdout);
        _exit(11);
    }
    if (strcmp(text ? text : "(none)", s->text) != 0)
        _exit(12);
    cfx_finish(stdout);
    _exit(0);
}

static int in_child(shared *s, const path *p, long n, bool all) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        walk(s, p, n, all);
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void check_walk(shared *s, const path *p, long n, bool all) {
    static const char *const wrong[] = {"gives another result and no error",
                                        "does not work afterwards",
                                        "gives another result afterwards"};
    int status = in_child(s, p, n, all);
    const char *how = all ? "from allocation %ld on: %s %s" : "without allocation %ld: %s %s";
    cfx_site at = {p->name, 0};
    if (WIFSIGNALED(status))
        test_fail(at, how, n, "ends with", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) >= 10 && WEXITSTATUS(status) <= 12)
        test_fail(at, how, n, "it", wrong[WEXITSTATUS(status) - 10]);
    else if (WEXITSTATUS(status))
        test_fail(at, how, n, "ends", "the process");
}

/* All of the first allocations of a path, then samples of the others. */
static void loop(const path *p) {
    paths_begin();
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        cfx_set_num_threads(1);
        put_text(s->text, p->go(p->file));
        const char *instead = paths_instead(p);
        put_text(s->instead, instead ? instead : s->text);
        _exit(cfx_ok() ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (!CHECK_INT(status, 0)) {
        p->go(p->file); /* what the machine lacks is noted in this process too */
        return;
    }
    long total = 1; /* how many allocations there are, within a third */
    for (s->came = true; s->came; total += total / 3 + 1) {
        s->came = false;
        in_child(s, p, total, false);
    }
    bool thorough = getenv("CFX_THOROUGH") != NULL;
    long step = thorough ? 1 : total / SAMPLES + 1;
    long walks = 0;
    for (int all = 0; all < 2; all++)
        for (long n = 1; n < total; n += n < EVERY || thorough ? 1 : step, walks++)
            check_walk(s, p, n, all);
    if (thorough)
        printf("%s: %ld failures\n", p->name, walks);
    munmap(s, sizeof *s);
}

static void group(const char *name) {
    for (const path *p = paths; p->name; p++)
        if (!strcmp(p->group, name))
            loop(p);
}

TEST(memory_runs_out_while_showing) { group("show"); }
TEST(memory_runs_out_while_running) { group("run"); }
TEST(memory_runs_out_while_decomposing) { group("decompose"); }
TEST(memory_runs_out_while_drawing) { group("draw"); }
TEST(memory_runs_out_while_changing) { group("change"); }
TEST(memory_runs_out_while_saving) { group("save"); }
TEST(memory_runs_out_while_tracing) { group("trace"); }
TEST(memory_runs_out_while_training) { group("train"); }
TEST(memory_runs_out_step_by_step) { group("recur"); }
TEST(memory_runs_out_in_operators) { group("ops"); }
TEST(memory_runs_out_while_quantizing_by_batches) { group("quantize static"); }
TEST(memory_runs_out_while_quantizing_as_it_runs) { group("quantize dynamic"); }
TEST(memory_runs_out_while_quantizing_weights) { group("quantize int4"); }
TEST(memory_runs_out_while_quantizing_modules) { group("quantize modules"); }
