/* Runs the tests: cfx_tests [-l] [-j JOBS] [-t SECONDS] [PATTERN...]
 *
 * The parent starts a child for each test, reads what it prints and shows it only if the test
 * fails. The child ends through exit(), so that the leak checker speaks too. */
#include "files.h"
#include "../src/ops/libraries.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_JOBS = 64, SHOWN = 20, MAX_OUTPUT = 1 << 16, NOT_RUN = 77 };

static test *first;
static int failures;   /* of the test in this child */
static bool completed; /* the test in this child came to its end */

void test_register(test *t) {
    test **p = &first;
    while (*p)
        p = &(*p)->next;
    *p = t;
}

#ifdef CFX_SANITIZE
/* Absurd sizes are refused as malloc refuses them, which is what the tests want to see. Where the
 * thread-local memory of a library lies that was opened late (oneDNN), the leak checker only
 * guesses, by what stands before it: it read at addresses that are none and crashed. It is not to
 * look there. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1:intercept_tls_get_addr=0";
}
const char *__ubsan_default_options(void) { return "print_stacktrace=1"; }
#endif

/* ---- checks, in the child ----------------------------------------------------------------- */

void test_fail(cfx_site at, const char *fmt, ...) {
    if (++failures > SHOWN)
        return;
    va_list ap;
    va_start(ap, fmt);
    printf("%s:%d: ", at.file, at.line);
    vprintf(fmt, ap);
    printf(failures == SHOWN ? "\n(more failures of this test are not shown)\n" : "\n");
    va_end(ap);
    fflush(stdout);
}

bool test_check(bool held, cfx_site at, const char *expr) {
    if (!held)
        test_fail(at, "%s does not hold", expr);
    return held;
}

bool test_check_int(long long got, long long want, cfx_site at, const char *expr) {
    if (got != want)
        test_fail(at, "%s is %lld, not %lld", expr, got, want);
    return got == want;
}

bool test_check_str(const char *got, const char *want, cfx_site at, const char *expr) {
    bool same = got && want ? strcmp(got, want) == 0 : got == want;
    if (!same)
        test_fail(at, "%s is\n%s\n---- not ----\n%s", expr, got ? got : "NULL",
                  want ? want : "NULL");
    return same;
}

bool test_check_near(double got, double want, double tol, cfx_site at, const char *expr) {
    bool near = got == want || fabs(got - want) <= tol || (isnan(got) && isnan(want));
    if (!near)
        test_fail(at, "%s is %.17g, not %.17g (within %g)", expr, got, want, tol);
    return near;
}

bool test_check_ok(cfx_site at) {
    const cfx_error *e = cfx_error_last();
    if (e)
        test_fail(at, "an error was recorded: %s: %s (%s:%d, %s)%s%s",
                  cfx_error_kind_name(e->kind), e->message, e->at.file ? e->at.file : "?",
                  e->at.line, e->op ? e->op : "no operator", e->notes ? "\n" : "",
                  e->notes ? e->notes : "");
    cfx_error_clear();
    return !e;
}

bool test_check_error(const char *text, cfx_site at) {
    const cfx_error *e = cfx_error_last();
    bool held = e && strstr(e->message, text);
    if (!e)
        test_fail(at, "no error was recorded, expected: %s", text);
    else if (!held)
        test_fail(at, "the error is\n%s\n---- not ----\n%s", e->message, text);
    cfx_error_clear();
    return held;
}

static void end_of_child(void) {
    if (!completed) {
        fprintf(stderr, "the test ended the process\n");
        _exit(3);
    }
}

static void run_here(const test *t) {
    atexit(end_of_child);
    cfx_set_num_threads(2); /* threads are tried, but tests run side by side */
    t->run();
    completed = true;
    test_folder_end();
    const cfx_error *e = cfx_error_last();
    if (e)
        test_fail(e->at.file ? e->at : (cfx_site){t->file, 0}, "%s left an error behind: %s",
                  t->name, e->message);
    cfx_error_clear();
    cfx_finish(stderr);
    exit(!failures ? 0 : library_was_missed() ? NOT_RUN : 1);
}

/* ---- processes, in the parent --------------------------------------------------------------- */

typedef struct job {
    const test *t; /* NULL: free */
    pid_t pid;
    int fd;
    double start;
    bool late, again;
    char *out;
    size_t len;
} job;

static job jobs[MAX_JOBS];
static int passed, failed;

static double now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void start(job *j, const test *t) {
    int fds[2];
    fflush(NULL);
    if (pipe(fds) != 0) {
        perror("cfx_tests: pipe");
        exit(2);
    }
    pid_t pid = fork();
    if (pid < 0) {
        perror("cfx_tests: fork");
        exit(2);
    }
    if (pid == 0) {
        setpgid(0, 0);
        close(fds[0]);
        dup2(fds[1], 1);
        dup2(fds[1], 2);
        close(fds[1]);
        run_here(t);
    }
    close(fds[1]);
    *j = (job){.t = t, .pid = pid, .fd = fds[0], .start = now()};
}

/* The leak sanitizer now and then loses a thread while it looks, which is no leak: such a test is
 * run once more. */
static bool looks_again(job *j, bool fine) {
    static const char lost[] = "LeakSanitizer has encountered a fatal error";
    if (fine || j->again || !j->out || !strstr(j->out, lost))
        return false;
    free(j->out);
    start(j, j->t);
    j->again = true;
    return true;
}

static void finish(job *j) {
    int status = 0;
    while (waitpid(j->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    close(j->fd);
    bool fine = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool ran = !WIFEXITED(status) || WEXITSTATUS(status) != NOT_RUN;
    if (looks_again(j, fine))
        return;
    if (!ran) {
        printf("not run: %s (%s): this machine or this build has no LAPACK\n", j->t->name,
               j->t->file);
    } else if (!fine) {
        char why[64] = "";
        if (j->late)
            snprintf(why, sizeof why, ": ran out of time");
        else if (WIFSIGNALED(status))
            snprintf(why, sizeof why, ": %s", strsignal(WTERMSIG(status)));
        printf("FAILED %s (%s)%s\n%.*s", j->t->name, j->t->file, why, (int)j->len,
               j->out ? j->out : "");
    }
    if (ran)
        *(fine ? &passed : &failed) += 1;
    free(j->out);
    j->t = NULL;
}

/* Reads what the child printed; false at its end. What goes beyond the bound is dropped. */
static bool take_output(job *j) {
    char buffer[4096];
    ssize_t n = read(j->fd, buffer, sizeof buffer);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN;
    if (n == 0)
        return false;
    size_t room = MAX_OUTPUT - j->len;
    size_t take = (size_t)n < room ? (size_t)n : room;
    if (take == 0)
        return true;
    char *grown = realloc(j->out, j->len + take + 1);
    if (!grown)
        return true;
    memcpy(grown + j->len, buffer, take);
    j->out = grown;
    j->len += take;
    grown[j->len] = 0;
    return true;
}

/* Waits until something happens and deals with it. */
static void step(int njobs, double limit) {
    struct pollfd fds[MAX_JOBS];
    for (int i = 0; i < njobs; i++)
        fds[i] = (struct pollfd){jobs[i].t ? jobs[i].fd : -1, POLLIN, 0};
    poll(fds, (nfds_t)njobs, 200);
    for (int i = 0; i < njobs; i++) {
        job *j = &jobs[i];
        if (!j->t)
            continue;
        if (!j->late && now() - j->start > limit) {
            j->late = true;
            kill(-j->pid, SIGKILL);
            kill(j->pid, SIGKILL);
        }
        if (fds[i].revents && !take_output(j))
            finish(j);
    }
}

static bool wanted(const test *t, int n, char **patterns) {
    for (int i = 0; i < n; i++)
        if (strstr(t->name, patterns[i]) || strstr(t->file, patterns[i]))
            return true;
    return n == 0;
}

int main(int argc, char **argv) {
    if (chdir(CFX_SOURCE_DIR) != 0) { /* what tests read is named from there */
        perror(CFX_SOURCE_DIR);
        return 2;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int njobs = cores < 1 ? 1 : (int)cores, option;
    double limit = 900; /* seconds by the clock; only a test that hangs takes as long */
    bool list = false;
    while ((option = getopt(argc, argv, "lj:t:")) != -1) {
        if (option == 'j')
            njobs = (int)strtol(optarg, NULL, 10);
        else if (option == 't')
            limit = strtod(optarg, NULL);
        else if (option == 'l')
            list = true;
        else {
            fprintf(stderr, "usage: cfx_tests [-l] [-j JOBS] [-t SECONDS] [PATTERN...]\n");
            return 2;
        }
    }
    njobs = njobs < 1 ? 1 : njobs > MAX_JOBS ? MAX_JOBS : njobs;

    for (const test *t = first; t; t = t->next) {
        if (!wanted(t, argc - optind, argv + optind))
            continue;
        if (list) {
            printf("%s (%s)\n", t->name, t->file);
            continue;
        }
        job *j = NULL;
        while (!j) {
            for (int i = 0; i < njobs && !j; i++)
                j = jobs[i].t ? NULL : &jobs[i];
            if (!j)
                step(njobs, limit);
        }
        start(j, t);
    }
    for (int i = 0; i < njobs; i++)
        while (jobs[i].t)
            step(njobs, limit);
    if (!list)
        printf("%d passed, %d failed\n", passed, failed);
    return failed ? 1 : 0;
}
