/* Sessions: state of one's own over programs that are shared. */
#include "plan.h"
#include "plan_test.h"

#include <cfx/session.h>
#include <pthread.h>

/* A cache and a counter that the graph writes in place; `same` is a view of the cache's memory. */
static cfx_program *counting(void) {
    static const char *const names[] = {"w", "cache", "at", "same"};
    cfx_manual_seed(3);
    cfx_tensor *cache = cfx_zeros(40, 4);
    cfx_tensor *t[] = {cfx_randn(4, 4), cache, cfx_zeros(cfx_list(1), CFX_KW(dtype, cfx_i64)),
                       cfx_select(cache, 0, 1)};
    return program_of(HEAD "p_w, p_cache, p_at, p_same, x):\n"
        CALL("y", "linear.default", "x, p_w")
        CALL("wrote", "index_copy_.default", "p_cache, 0, p_at, y")
        CALL("next", "add_.Tensor", "p_at, 1")
        CALL("z", "linear.default", "wrote, p_w")
        CALL("r", "relu.default", "z")
        CALL("s", "add.Tensor", "p_same, 1")
        "        return (r, s)\n", tensors_of(COUNT(names), names, t));
}

static cfx_tensor *token(int user, int i) {
    cfx_manual_seed((uint64_t)(100 * user + i));
    return cfx_randn(1, 4);
}

static bool equal(cfx_value a, cfx_value b) {
    return cfx_ok() && cfx_integer(cfx_equal(cfx_at(a, 0), cfx_at(b, 0))) &&
           cfx_integer(cfx_equal(cfx_at(a, 1), cfx_at(b, 1)));
}

TEST(sessions_are_as_programs_of_their_own) {
    enum { USERS = 3, STEPS = 8 };
    cfx_program *shared = counting(), *alone[USERS];
    cfx_session *users[USERS];
    cfx_tensor *cache = cfx_program_tensor(shared, &shared->inputs[1]);
    for (int u = 0; u < USERS; u++) {
        alone[u] = counting();
        users[u] = cfx_session_new();
    }
    for (int i = 0; i < STEPS; i++)
        for (int u = 0; u < USERS; u++)
            CHECK(equal(cfx_session_run(users[u], shared, token(u, i)),
                        cfx_program_run(alone[u], token(u, i))));
    CHECK_NEAR(cfx_tensor_get(cfx_sum(cfx_abs(cache)), 0), 0, 0); /* nobody wrote to the program */
    CHECK(cfx_session_tensor(users[0], cache) != cache);
    cfx_tensor *w = cfx_program_tensor(shared, &shared->inputs[0]);
    CHECK(cfx_session_tensor(users[0], w) == w);
    cfx_session_reset(users[0]);
    CHECK(equal(cfx_session_run(users[0], shared, token(7, 0)),
                cfx_program_run(counting(), token(7, 0))));
    CHECK_OK();
}

/* A buffer that the signature says a result becomes. */
TEST(sessions_keep_what_buffers_become) {
    static const char *const names[] = {"n"};
    cfx_tensor *t[] = {cfx_zeros(cfx_list(2))};
    cfx_program *p = program_of(HEAD "p_n, x):\n" CALL("m", "add.Tensor", "p_n, x")
        CALL("y", "mul.Tensor", "m, 2") "        return (m, y)\n", tensors_of(1, names, t));
    p->outputs[0].kind = CFX_OUT_PARAMETER_MUTATION;
    p->outputs[0].target = "n";
    cfx_session *a = cfx_session_new(), *b = cfx_session_new();
    cfx_tensor *one = cfx_ones(2);
    for (int i = 1; i <= 3; i++)
        CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(cfx_session_run(a, p, one), 0), 0), 2 * i, 0);
    CHECK_NEAR(cfx_tensor_get(cfx_tensor_at(cfx_session_run(b, p, one), 0), 0), 2, 0);
    CHECK_NEAR(cfx_tensor_get(t[0], 0), 0, 0);
    CHECK_OK();
}

/* A session costs what its program writes, 720 bytes here, and little more. */
TEST(thousands_of_sessions_cost_kilobytes) {
    enum { MANY = 2000 };
    cfx_program *p = counting();
    cfx_session_run(cfx_session_new(), p, token(0, 0));
    cfx_session **all = cfx__alloc(MANY * sizeof(cfx_session *));
    const size_t start = cfx_memory_held();
    for (int i = 0; i < MANY; i++) {
        all[i] = cfx_keep(cfx_session_new());
        CFX_SCOPE cfx_session_run(all[i], p, token(i, 0));
    }
    CHECK((cfx_memory_held() - start) / MANY < 4096);
    for (int i = 0; i < MANY; i++)
        cfx_drop(all[i]);
    cfx__free(all);
    CHECK_OK();
}

typedef struct {
    cfx_program *program;
    int user;
    bool fine;
} caller;

static void *serve(void *arg) {
    caller *c = arg;
    cfx_session *s = cfx_session_new();
    cfx_program *own = counting();
    c->fine = true;
    for (int i = 0; i < 20; i++)
        CFX_SCOPE c->fine &= equal(cfx_session_run(s, c->program, token(c->user, i)),
                                   cfx_program_run(own, token(c->user, i)));
    cfx_finish(NULL);
    return NULL;
}

TEST(sessions_run_at_once) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    caller callers[THREADS];
    cfx_program *p = counting();
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){p, i, false};
        pthread_create(&threads[i], NULL, serve, &callers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(callers[i].fine);
    }
}

TEST(no_session_is_an_error) {
    CHECK(cfx_is_bad(cfx_session_run(NULL, counting(), cfx_ones(1, 4))));
    CHECK_ERROR("there is no session");
    cfx_session_reset(NULL);
    CHECK(!cfx_session_tensor(NULL, NULL));
}
