/* Groups over simulated ranks: messages, what is agreed on, and what is said when ranks differ. */
#include "group.h"
#include "test.h"

static cfx_tensor *ramp(int64_t n, float from) {
    cfx_tensor *t = cfx_tensor_new(CFX_F32, 1, &n, NULL);
    for (int64_t i = 0; i < n; i++)
        ((float *)t->data)[i] = from + (float)i;
    return t;
}

static bool ring(cfx_group *g, void *user) {
    const int rank = cfx_group_rank(g), size = cfx_group_size(g);
    int *sum = user;
    if (rank == 0) {
        cfx_group_send(g, 1, cfx_int(1));
        sum[0] = (int)cfx_integer(cfx_group_recv(g, size - 1));
        return true;
    }
    return cfx_group_send(g, (rank + 1) % size,
                          cfx_int(cfx_integer(cfx_group_recv(g, rank - 1)) + rank));
}

TEST(values_go_round_a_ring_of_ranks) {
    int sum = 0;
    CHECK(cfx_group_simulate(4, ring, &sum));
    CHECK_INT(sum, 1 + 1 + 2 + 3);
}

static bool values(cfx_group *g, void *user) {
    const int64_t shape[] = {2, 3};
    (void)user;
    if (cfx_group_rank(g) == 0) {
        cfx_tensor *t = ramp(6, 0);
        cfx_group_send(g, 1, cfx_tensor_value(cfx_tensor_view(t, 2, shape, (int64_t[]){1, 2}, 0)));
        cfx_group_send(g, 1, cfx_tensor_value(cfx_tensor_view(t, 2, (int64_t[]){2, 2},
                                                              (int64_t[]){1, 4}, 0)));
        const int64_t none[] = {0, 4};
        cfx_group_send(g, 1, cfx_tensor_value(cfx_tensor_new(CFX_BF16, 2, none, NULL)));
        cfx_group_send(g, 1, cfx_bool(true));
        cfx_group_send(g, 1, cfx_float(0.25));
        cfx_group_send(g, 1, cfx_int(-7));
        return true;
    }
    cfx_value v = cfx_group_recv(g, 0);
    CHECK_STR(cfx_tensor_str(cfx_as_tensor(v)), "tensor([[0., 2., 4.],\n        [1., 3., 5.]])");
    CHECK_INT(cfx_as_tensor(v)->stride[0], 1); /* in the order that it had */
    CHECK_INT(cfx_as_tensor(v)->stride[1], 2);
    v = cfx_group_recv(g, 0);
    CHECK_STR(cfx_tensor_str(cfx_as_tensor(v)), "tensor([[0., 4.],\n        [1., 5.]])");
    v = cfx_group_recv(g, 0);
    CHECK_STR(cfx__shape_text(cfx_as_tensor(v)->ndim, cfx_as_tensor(v)->shape), "[0, 4]");
    CHECK_INT(cfx_as_tensor(v)->dtype, CFX_BF16);
    v = cfx_group_recv(g, 0);
    CHECK(v.tag == CFX_TAG_BOOL && cfx_integer(v) == 1);
    v = cfx_group_recv(g, 0);
    CHECK(v.tag == CFX_TAG_FLOAT && cfx_number(v) == 0.25);
    v = cfx_group_recv(g, 0);
    CHECK(v.tag == CFX_TAG_INT && cfx_integer(v) == -7);
    return cfx_ok();
}

TEST(what_is_received_is_what_was_sent) { CHECK(cfx_group_simulate(2, values, NULL)); }

static bool agrees(cfx_group *g, void *user) {
    const uint64_t *facts = user;
    return cfx_group_wait(g) && cfx_group_agree(g, "file", facts[cfx_group_rank(g)]);
}

TEST(ranks_find_out_who_has_another_file) {
    CHECK(cfx_group_simulate(3, agrees, (uint64_t[]){5, 5, 5}));
    CHECK(!cfx_group_simulate(3, agrees, (uint64_t[]){5, 5, 6}));
    CHECK_ERROR("rank 2 on this machine has another file than rank 0 on this machine");
}

/* ---- nothing hangs --------------------------------------------------------------------------- */

static bool one_fails(cfx_group *g, void *user) {
    (void)user;
    if (cfx_group_rank(g) == 1)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "no such thing");
    else
        CHECK(cfx_is_bad(cfx_group_recv(g, 1)));
    if (cfx_group_rank(g) != 1)
        CHECK(strstr(cfx_error_last()->message, "rank 1 on this machine failed: no such thing"));
    return cfx_ok();
}

TEST(a_rank_that_fails_ends_those_who_wait_for_it) {
    CHECK(!cfx_group_simulate(3, one_fails, NULL));
    CHECK_ERROR("rank 1: no such thing");
}

static bool one_leaves(cfx_group *g, void *user) {
    (void)user;
    return cfx_group_rank(g) == 1 || !cfx_is_bad(cfx_group_recv(g, 1));
}

TEST(a_rank_that_ends_early_is_not_waited_for) {
    CHECK(!cfx_group_simulate(2, one_leaves, NULL));
    CHECK_ERROR("rank 1 on this machine ended before it sent what rank 0 waits for");
}

static bool all_wait(cfx_group *g, void *user) {
    (void)user;
    return !cfx_is_bad(cfx_group_recv(g, (cfx_group_rank(g) + 1) % cfx_group_size(g)));
}

TEST(ranks_that_all_wait_for_each_other_are_told) {
    CHECK(!cfx_group_simulate(3, all_wait, NULL));
    CHECK_ERROR("as all ranks wait for each other: they do not run the same");
}

static bool waits_on(cfx_group *g, void *user) {
    (void)user;
    if (cfx_group_rank(g) == 0)
        return !cfx_is_bad(cfx_group_recv(g, 1));
    for (;;) /* at work, for as long as it may be */
        if (!cfx__limit_time())
            return false;
}

TEST(a_time_limit_holds_for_all_ranks) {
    cfx_set_time_limit(0.2);
    CHECK(!cfx_group_simulate(2, waits_on, NULL));
    CHECK_ERROR("the time limit of 0.2 seconds is used up");
    cfx_set_time_limit(0);
}

static bool too_large(cfx_group *g, void *user) {
    (void)user;
    if (cfx_group_rank(g) == 0)
        return cfx_group_send(g, 1, cfx_tensor_value(ramp(1 << 20, 0)));
    cfx_set_memory_limit(cfx_memory_held() + (1 << 20));
    return !cfx_is_bad(cfx_group_recv(g, 0));
}

TEST(what_a_peer_announces_is_held_against_the_limit) {
    CHECK(!cfx_group_simulate(2, too_large, NULL));
    CHECK(cfx_error_last() && cfx_error_last()->kind == CFX_MEMORY_ERROR);
    cfx_error_clear();
}

/* A peer that says what it likes. */
static bool forges(cfx_group *g, void *user) {
    const cfx__head *head = user;
    if (cfx_group_rank(g) == 1)
        return !cfx_is_bad(cfx_group_recv(g, 0));
    const cfx__part parts[CFX__PARTS] = {{(void *)(uintptr_t)head, sizeof *head}};
    cfx__transport *t = g->transport;
    size_t size;
    return cfx__group_done(g, t->begin(t, true, 1, CFX__TAG_HEAD, parts), &size);
}

TEST(a_head_that_cannot_be_is_refused) {
    const struct {
        cfx__head head;
        const char *says;
    } all[] = {
        {{.mark = 7}, "something that is no message of cfx"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .order = 9}, "waits for value number 0"},
        {{.mark = CFX__HEAD_MARK, .dtype = 200}, "something that is no message of cfx"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 17}, "no message of cfx"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 1, .shape = {-1}, .bytes = 4}, "-1"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 2, .shape = {2, 2}, .bytes = 16,
          .stride = {1, 1}}, "do not run the same"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 2, .shape = {2, 2}, .bytes = 16,
          .stride = {1, INT64_MIN}}, "do not run the same"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 2, .shape = {1 << 30, 1 << 30}},
         "[1073741824, 1073741824]"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .ndim = 1, .shape = {3}, .bytes = 16,
          .stride = {1}},
         "announced a value of float32[3], which is not 16 bytes"},
        {{.mark = CFX__HEAD_MARK, .dtype = CFX_F32, .number = 2, .bytes = 4},
         "do not run the same"},
        {{.mark = CFX__HEAD_MARK, .kind = CFX__MESSAGE_REDUCE, .dtype = CFX_F32},
         "all_reduce of float32[]"}};
    for (int i = 0; i < COUNT(all); i++) {
        CHECK(!cfx_group_simulate(2, forges, (void *)(uintptr_t)&all[i].head));
        const cfx_error *e = cfx_error_last();
        CHECK(e && (strstr(e->message, all[i].says) ||
                    (e->notes && strstr(e->notes, all[i].says))));
        cfx_error_clear();
    }
}

TEST(no_rank_is_alone_with_a_peer) {
    CHECK(!cfx_group_send(NULL, 0, cfx_int(1)));
    CHECK_ERROR("there is no group of ranks");
    CHECK(!cfx_group_simulate(0, ring, NULL));
    CHECK_ERROR("from 1 to 1024 ranks are simulated, not 0");
    CHECK(cfx_group_wait(NULL) && cfx_group_agree(NULL, "x", 1));
    CHECK_INT(cfx_group_size(NULL), 1);
    CHECK_STR(cfx_group_node(NULL, 0), "");
}

static bool wrong_peer(cfx_group *g, void *user) {
    return cfx_group_send(g, *(int *)user, cfx_int(1));
}

TEST(messages_go_to_ranks_that_there_are) {
    CHECK(!cfx_group_simulate(1, wrong_peer, &(int){0}));
    CHECK_ERROR("rank 0 is this rank itself (of 1)");
    CHECK(!cfx_group_simulate(1, wrong_peer, &(int){3}));
    CHECK_ERROR("there is no rank 3 among 1");
}
