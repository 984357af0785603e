/* Tensors on a card that is played: single operators, views, copies, gradients. */
#include <cfx.h>
#include <cfx/cuda.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/base/base.h"
#include "../src/cuda/device.h"
#include "../src/cuda/single.h"

#include "card.h"
#include "test.h"

static cfx_tensor *ramp(int64_t rows, int64_t columns) {
    return cfx_reshape(cfx_div(cfx_arange(rows * columns, CFX_KW(dtype, cfx_f32)), 7),
                       cfx_list(rows, columns));
}

static cfx_tensor *there(cfx_tensor *t) { return cfx_to(t, "cuda"); }

static bool is_there(const cfx_tensor *t) { return cfx_tensor_device(t).type == CFX_CUDA; }

#define SAME(have, want, tol)                                                                      \
    do {                                                                                           \
        cfx_tensor *have_ = (have);                                                                \
        CHECK_OK();                                                                                \
        CHECK(is_there(have_));                                                                    \
        CHECK(card_apart(cfx_tensor_value(have_), cfx_tensor_value(want)) <= (tol));               \
    } while (0)

TEST(single_operators_run_on_the_card_of_their_tensors) {
    if (!card_begin())
        return;
    cfx_tensor *a = ramp(3, 5), *b = cfx_sin(a), *ca = there(a), *cb = there(b);
    long kernels = card.kernels;
    SAME(cfx_add(ca, cb), cfx_add(a, b), 0);
    CHECK(card.kernels == kernels + 1);
    SAME(cfx_add(ca, cb), cfx_add(a, b), 0); /* the same plan again */
    CHECK(card.kernels == kernels + 2);
    kernels = card.kernels;
    SAME(cfx_mul(ca, 2.5), cfx_mul(a, 2.5), 0);
    SAME(cfx_mul(ca, 3.5), cfx_mul(a, 3.5), 0); /* numbers are no reason for another plan */
    SAME(cfx_sub(1, ca), cfx_sub(1, a), 0);
    SAME(cfx_relu(cfx_sub(ca, 1)), cfx_relu(cfx_sub(a, 1)), 0);
    SAME(cfx_matmul(ca, cfx_t(cb)), cfx_matmul(a, cfx_t(b)), 1e-5);
    SAME(cfx_softmax(ca, 1), cfx_softmax(a, 1), 1e-6);
    SAME(cfx_sum(ca, 0), cfx_sum(a, 0), 1e-5);
    SAME(cfx_amax(ca), cfx_amax(a), 0);
    SAME(cfx_exp(cfx_t(ca)), cfx_exp(cfx_t(a)), 1e-6);
    CHECK(card.kernels >= kernels + 9);
    SAME(cfx_add(ca, cfx_scalar_tensor(2.0)), cfx_add(a, 2), 0); /* no dims: from anywhere */
    CHECK(!is_there(cfx_to(ca, "cpu")));
    card_end();
}

static cfx_dtype dtype_of(cfx_tensor *t) { return cfx_tensor_dtype(t); }

TEST(numbers_beside_tensors_on_a_card_promote_as_numbers) {
    if (!card_begin())
        return;
    static const cfx_dtype dtypes[] = {CFX_BOOL, CFX_U8, CFX_I32, CFX_I64, CFX_F16, CFX_BF16,
                                       CFX_F32,  CFX_F64};
    for (int i = 0; i < (int)(sizeof dtypes / sizeof *dtypes); i++)
        for (int dims = 0; dims < 2; dims++) {
            cfx_tensor *x = cfx_to(cfx_arange(3), cfx_dtype_value(dtypes[i]));
            x = dims ? x : cfx_select(x, 0, 2);
            cfx_tensor *cx = there(x);
            CHECK_INT(dtype_of(cfx_add(cx, 2)), dtype_of(cfx_add(x, 2)));
            CHECK_INT(dtype_of(cfx_mul(cx, 0.5)), dtype_of(cfx_mul(x, 0.5)));
            SAME(cfx_add(cx, 2), cfx_add(x, 2), 0);
            SAME(cfx_mul(cx, 0.1), cfx_mul(x, 0.1), 0);
            SAME(cfx_eq(cx, 2), cfx_eq(x, 2), 0);
        }
    card_end();
}

TEST(views_and_writes_of_tensors_on_a_card) {
    if (!card_begin())
        return;
    cfx_tensor *a = ramp(4, 6), *ca = there(a);
    SAME(cfx_narrow(ca, 1, 2, 3), cfx_narrow(a, 1, 2, 3), 0);
    SAME(cfx_add(cfx_select(ca, 1, 2), 1), cfx_add(cfx_select(a, 1, 2), 1), 0);
    cfx_add_(ca, 1);
    cfx_add_(a, 1);
    cfx_mul_(cfx_select(ca, 1, 2), 3); /* through a view whose elements are apart */
    cfx_mul_(cfx_select(a, 1, 2), 3);
    cfx_copy_(cfx_select(ca, 0, 1), cfx_select(a, 0, 3)); /* from the host */
    cfx_copy_(cfx_select(a, 0, 1), cfx_select(a, 0, 3));
    SAME(ca, a, 0);
    cfx_tensor *back = cfx_zeros_like(a);
    cfx_copy_(back, ca); /* and back */
    CHECK(!is_there(back));
    CHECK(card_apart(cfx_tensor_value(back), cfx_tensor_value(a)) == 0);
    cfx_zero_(ca);
    SAME(ca, cfx_zeros_like(a), 0);
    SAME(cfx_zeros_like(ca), cfx_zeros_like(a), 0);
    SAME(cfx_clone(cfx_t(ca)), cfx_clone(cfx_t(cfx_zeros_like(a))), 0);
    SAME(cfx_ones(3, CFX_KW(device, "cuda")), cfx_ones(3), 0);
    CHECK(!is_there(cfx_zeros_like(ca, CFX_KW(device, "cpu"))));
    CHECK_STR(cfx_tensor_str(cfx_arange(3, CFX_KW(device, "cuda"))),
              "tensor([0, 1, 2], device='cuda:0')");
    CHECK(cfx_set_default_device("cuda"));
    CHECK(is_there(cfx_ones(2)));
    CHECK(!is_there(cfx_ones(2, CFX_KW(device, "cpu"))));
    CHECK(cfx_set_default_device("cpu"));
    CHECK(!is_there(cfx_ones(2)));
    CHECK(!cfx_set_default_device("cuda:3"));
    CHECK_ERROR("cards here are 0 to 0");
    cfx_error_clear();
    card_end();
}

TEST(tensors_on_two_devices_are_refused) {
    if (!card_begin())
        return;
    cfx_tensor *a = ramp(2, 2), *ca = there(a);
    cfx_add(ca, a);
    CHECK_ERROR("Expected all tensors to be on the same device, but found at least two devices, "
                "cuda:0 and cpu!");
    cfx_error_clear();
    cfx_mm(a, ca);
    CHECK_ERROR("Expected all tensors to be on the same device, but got mat2 is on cuda:0, "
                "different from other tensors on cpu (when checking argument in method "
                "wrapper_CUDA_mm)");
    cfx_error_clear();
    cfx_cat(cfx_list_value(2, (cfx_value[]){cfx_tensor_value(a), cfx_tensor_value(ca)}));
    CHECK_ERROR("but got tensors is on cuda:0, different from other tensors on cpu");
    cfx_error_clear();
    cfx_add_(a, ca);
    CHECK_ERROR("cuda:0 and cpu!");
    cfx_error_clear();
    cfx_tensor *at = cfx_arange(1); /* indices may be the host's */
    const cfx_value index = cfx_list_value(1, (cfx_value[]){cfx_tensor_value(at)});
    SAME(cfx_index(ca, index), cfx_narrow(a, 0, 0, 1), 0);
    cfx_index(a, cfx_list_value(1, (cfx_value[]){cfx_tensor_value(there(at))}));
    CHECK_ERROR("indices should be either on cpu or on the same device as the indexed tensor "
                "(cpu)");
    cfx_error_clear();
    const cfx_value mask = cfx_list_value(1, (cfx_value[]){cfx_tensor_value(cfx_gt(ca, 0.2))});
    SAME(cfx_index(ca, mask), cfx_masked_select(a, cfx_gt(a, 0.2)), 0); /* sizes that data tell */
    card_end();
}

/* Programs that PyTorch exported on a card: devices in arguments and metadata. */
TEST(programs_exported_on_a_card_run_on_either) {
    if (!card_begin())
        return;
    static const char *const names[] = {"makes", "state", "cond", "drop"};
    for (int i = 0; i < 8; i++) CFX_SCOPE {
        const bool on_card = i % 2;
        const char *folder = cfx__text_format("%s/cuda/%s", CFX_TEST_DATA, names[i / 2]);
        if (!on_card && !strcmp(names[i / 2], "drop")) /* numbers of a card are drawn there */
            continue;
        cfx_program *p = cfx_open(cfx__text_format("%s/model.pt2", folder));
        const cfx_dict *in =
            cfx_safetensors_read(cfx__text_format("%s/inputs.safetensors", folder));
        const cfx_dict *want =
            cfx_safetensors_read(cfx__text_format("%s/outputs.safetensors", folder));
        cfx_value args[4];
        for (int64_t k = 0; k < in->len; k++) {
            args[k] = in->entries[k].value;
            if (on_card)
                args[k] = cfx_tensor_value(there(cfx_as_tensor(args[k])));
        }
        cfx_set_grad_mode(CFX_INFERENCE);
        cfx_manual_seed(0);
        const cfx_value have =
            cfx_program_run_with(CFX_HERE, p, NULL, NULL, (cfx_args){(int)in->len, args, NULL});
        CHECK_OK();
        for (int64_t k = 0; k < want->len; k++)
            if (card_apart(have.tag == CFX_TAG_TUPLE ? cfx_at(have, k) : have,
                           want->entries[k].value) > 1e-3)
                test_fail(CFX_HERE, "%s, result %d, %s", names[i / 2], (int)k,
                          on_card ? "on the card" : "on the host");
    }
    card_end();
}

/* What is kept for later goes before a card is said to be full, whether it or a limit is. */
TEST(memory_of_a_card_that_is_kept_is_given_back_in_need) {
    if (!card_begin())
        return;
    enum { ROWS = 256, BYTES = ROWS * ROWS * 4 };
    for (int way = 0; way < 2; way++) {
        cfx_tensor *a = there(cfx_ones(ROWS, ROWS));
        CFX_SCOPE {
            for (int i = 0; i < 5; i++) /* blocks of many sizes, and plans */
                cfx_add(cfx_narrow(a, 0, 0, ROWS - i), 1);
        }
        const size_t most = card.held + BYTES / 2;
        CHECK(card.held > 4 * BYTES);
        card.most = way ? 0 : most;
        const size_t limit = way ? cfx_set_memory_limit(most) : 0;
        CHECK(is_there(cfx_zeros(2 * ROWS, ROWS, CFX_KW(device, "cuda"))));
        CHECK_OK();
        cfx_zeros(99 * ROWS, ROWS, CFX_KW(device, "cuda"));
        CHECK_ERROR(way ? "memory limit" : "out of memory");
        cfx_error_clear();
        card.most = 0;
        if (way)
            cfx_set_memory_limit(limit);
        SAME(a, cfx_ones(ROWS, ROWS), 0);
        cfx__cuda_singles_forget();
        cfx__cuda_tensors_forget();
    }
    card_end();
}

static void *make_and_drop(void *arg) {
    for (int i = 0; i < 60; i++) CFX_SCOPE {
        cfx_tensor *t[4];
        for (int k = 0; k < 4; k++)
            t[k] = cfx_full(cfx_list(8 + 8 * ((i + k) % 5)), i, CFX_KW(device, "cuda"));
        if (i % 4 == 3)
            cfx__cuda_tensors_forget();
        for (int k = 0; k < 4; k++)
            *(bool *)arg &= cfx_ok() && cfx_number(cfx_item(cfx_amax(t[k]))) == i;
    }
    cfx_finish(stderr);
    return NULL;
}

TEST(threads_make_tensors_on_a_card_and_give_memory_back) {
    if (!card_begin())
        return;
    pthread_t threads[3];
    bool fine[COUNT(threads)];
    for (int i = 0; i < COUNT(threads); i++) {
        fine[i] = true;
        pthread_create(&threads[i], NULL, make_and_drop, &fine[i]);
    }
    for (int i = 0; i < COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
        CHECK(fine[i]);
    }
    card_end();
    CHECK_INT(card.held, 0);
}

TEST(a_forked_process_is_told_that_it_has_no_card) {
    if (!card_begin())
        return;
    cfx_tensor *a = there(ramp(2, 2));
    CHECK_OK();
    const pid_t pid = fork();
    if (!pid) {
        int wrong = 0;
        cfx_add(a, 1);
        wrong += cfx_ok() || !strstr(cfx_error_last()->message, "in forked subprocess");
        cfx_error_clear();
        cfx_ones(2, CFX_KW(device, "cuda"));
        wrong += cfx_ok() || !strstr(cfx_error_last()->message, "in forked subprocess");
        cfx_error_clear();
        wrong += cfx_number(cfx_item(cfx_sum(cfx_ones(3)))) != 3; /* the host goes on */
        _exit(wrong);
    }
    int status = -1;
    CHECK_INT(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    SAME(cfx_add(a, 1), cfx_add(ramp(2, 2), 1), 0);
    card_end();
}

TEST(tensors_of_a_lost_card_are_refused) {
    if (!card_begin())
        return;
    cfx_tensor *a = there(ramp(2, 2));
    card.fail_kernel = 719;
    cfx_add(a, 1);
    CHECK_ERROR("launch failure; the card cannot be used any more");
    cfx_error_clear();
    card.fail_kernel = 0;
    cfx_add_(a, 1); /* by the host, which sees the same memory */
    CHECK_ERROR("was lost to an error before");
    cfx_error_clear();
    cfx_to(a, "cpu");
    CHECK_ERROR("was lost to an error before");
    cfx_error_clear();
    CHECK(cfx_number(cfx_item(cfx_sum(ramp(2, 2)))) > 0);
    card_end();
}

TEST(quotients_of_integers_on_a_card_have_the_default_dtype_of_floats) {
    if (!card_begin())
        return;
    cfx_tensor *a = there(cfx_arange(1, 4));
    CHECK_INT(dtype_of(cfx_div(a, a)), CFX_F32);
    const cfx_dtype before = cfx_set_default_dtype(CFX_F64);
    CHECK_INT(dtype_of(cfx_div(a, a)), CFX_F64);
    cfx_set_default_dtype(before);
    CHECK_INT(dtype_of(cfx_div(a, a)), CFX_F32);
    CHECK_OK();
    card_end();
}
