/* Packed weights belong to the program: plans for other sizes, threads and callers share them. */
#include "plan.h"
#include "plan_test.h"

#include <pthread.h>

static int forms_of(const cfx_program *p, const char *name) {
    int n = 0;
    const cfx_tensor *t = cfx_as_tensor(cfx_dict_get(p->state, name));
    for (const cfx__packed *f = t->storage->packed; f; f = f->next)
        n++;
    return n;
}

TEST(plans_for_other_sizes_share_packed_weights) {
    cfx_program *p = conv_and_product();
    for (int batch = 1; batch < 7; batch++)
        run_by(&cfx_planner, p, cfx_tensor_value(cfx_randn(batch, 8, 4 + 2 * batch, 12)));
    CHECK_OK();
    CHECK_INT(forms_of(p, "w"), 2); /* with its normalisation, and that packed */
    CHECK_INT(forms_of(p, "l"), 1);
    for (int batch = 1; batch < 7; batch++) /* by the interpreter: as the weight is, unfolded */
        CHECK(agree(p, cfx_tensor_value(cfx_randn(batch, 8, 4 + 2 * batch, 12))));
    CHECK_INT(forms_of(p, "w"), 3);
}

TEST(plans_for_other_threads_share_packed_weights) {
    cfx_program *p = conv_and_product();
    const int before = cfx_get_num_threads();
    for (int threads = 1; threads < 4; threads++) {
        cfx_set_num_threads(threads);
        run_by(&cfx_planner, p, cfx_tensor_value(cfx_randn(2, 8, 12, 12)));
    }
    cfx_set_num_threads(before);
    CHECK_OK();
    CHECK_INT(forms_of(p, "w"), 2);
    CHECK_INT(forms_of(p, "l"), 1);
}

/* Another normalisation of the same weight is another form; of another weight none is left. */
TEST(a_weight_that_is_written_to_is_packed_anew) {
    cfx_program *p = conv_and_product();
    cfx_value x = cfx_tensor_value(cfx_randn(2, 8, 12, 12));
    run_by(&cfx_planner, p, x);
    cfx_mul_(cfx_dict_get(p->state, "g"), 2);
    run_by(&cfx_planner, p, x);
    CHECK_INT(forms_of(p, "w"), 4);
    cfx_mul_(cfx_dict_get(p->state, "w"), 2);
    run_by(&cfx_planner, p, x);
    CHECK_INT(forms_of(p, "w"), 2);
    CHECK(agree(p, x));
    CHECK_OK();
}

/* ---- eight callers --------------------------------------------------------------------------- */

enum { CALLERS = 8 };

typedef struct {
    cfx_program *p;
    int number;
    bool fine;
} caller;

static void *serve(void *arg) {
    caller *c = arg;
    CFX_SCOPE {
        cfx_value x = cfx_tensor_value(cfx_ones(c->number + 1, 8, 12, 12));
        cfx_value v = run_by(&cfx_planner, c->p, x);
        c->fine = cfx_ok() && cfx_tensor_at(v, 0)->shape[0] == c->number + 1;
    }
    cfx_finish(stderr);
    return NULL;
}

TEST(callers_that_start_at_once_share_packed_weights) {
    pthread_t threads[CALLERS];
    caller callers[CALLERS];
    cfx_program *p = conv_and_product();
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){p, i, false};
        pthread_create(&threads[i], NULL, serve, &callers[i]);
    }
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(callers[i].fine);
    }
    CHECK_INT(forms_of(p, "w"), 2);
    CHECK_INT(forms_of(p, "l"), 1);
}
