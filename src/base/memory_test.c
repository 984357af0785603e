/* Texts, vectors, maps and arenas. */
#include "base.h"
#include "test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_text_grows) {
    cfx__text t = {0};
    for (int i = 0; i < 1000; i++)
        cfx__text_printf(&t, "%d,", i % 10);
    CHECK_INT(t.len, 2000);
    cfx__text_putc(&t, '!');
    const char *text = cfx__text_take(&t);
    CHECK_INT(strlen(text), 2001);
    CHECK(t.data == NULL);
    CHECK_STR(cfx__text_format("%s-%d", "a", 1), "a-1");
    CHECK_STR(cfx__text_format("%s", ""), "");
}

TEST(a_vector_grows) {
    VEC(int) v = {0};
    for (int i = 0; i < 1000; i++)
        VEC_PUSH(v, i);
    CHECK_INT(v.len, 1000);
    CHECK_INT(v.data[999], 999);
    VEC_FREE(v);
}

TEST(a_map_finds_what_was_set_and_not_what_was_removed) {
    enum { N = 1000 };
    static char keys[N][16];
    cfx__map m = {0};
    CHECK(cfx__map_get(&m, "none") == NULL);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        cfx__map_set(&m, keys[i], keys[i]);
    }
    for (int i = 0; i < N; i += 3)
        cfx__map_remove(&m, keys[i]);
    int right = 0;
    for (int i = 0; i < N; i++)
        right += cfx__map_get(&m, keys[i]) == (i % 3 ? keys[i] : NULL);
    CHECK_INT(right, N);
    CHECK(cfx__map_getn(&m, "k1234", 2) == keys[1]);
    cfx__map_release(&m);
}

TEST(an_arena_keeps_texts_apart) {
    cfx__arena a = {0};
    char *first = cfx__arena_copy(&a, "first", 5);
    for (int i = 0; i < 1000; i++)
        memset(cfx__arena_alloc(&a, 100), i, 100);
    CHECK_STR(first, "first");
    cfx__arena_release(&a);
}

TEST(blocks_are_aligned_and_can_be_refused) {
    for (size_t size = 1; size < (1 << 20); size *= 7) {
        void *p = cfx__block_alloc(size);
        CHECK(p && (uintptr_t)p % 64 == 0);
        memset(p, 1, size);
        cfx__block_free(p, size);
    }
    CHECK(cfx__block_alloc((size_t)1 << 60) == NULL);
}

TEST(a_limit_of_memory_is_an_error_that_passes) {
    size_t mark = cfx_scope_open(), before = cfx_set_memory_limit(cfx_memory_held() + (1 << 20));
    CHECK_INT(before, 0);
    cfx_value list = cfx_list_value(0, NULL);
    for (int i = 0; i < 1000000 && cfx_ok(); i++)
        cfx_list_append(cfx_as_list(list), cfx_string_value("one of many texts"));
    CHECK(cfx_error_last() && cfx_error_last()->kind == CFX_MEMORY_ERROR);
    CHECK_ERROR("the memory limit of ");
    cfx_scope_close(mark);
    CHECK(cfx_zeros(1000));
    CHECK_OK();
    cfx_zeros(1 << 20);
    CHECK_ERROR("the memory limit of ");
    cfx_set_memory_limit(0);
    CHECK(cfx_zeros(1 << 20));
}

TEST(what_is_held_is_counted_until_it_is_freed) {
    CFX_SCOPE { cfx_zeros(1 << 10); } /* an operator's first call leaves its schema behind */
    size_t before = cfx_memory_held();
    CFX_SCOPE {
        cfx_tensor *t = cfx_zeros(1 << 10);
        CHECK(cfx_memory_held() >= before + (4 << 10));
        CHECK_INT(cfx_tensor_numel(t), 1 << 10);
    }
    CHECK(cfx_memory_held() < before + (4 << 10));
}

TEST(a_long_text_without_memory_is_cut_and_stays_a_text) {
    cfx__text t = {0};
    cfx_set_memory_limit(cfx_memory_held() + 4096);
    for (int i = 0; i < 10000; i++)
        cfx__text_puts(&t, "0123456789");
    CHECK_ERROR("the memory limit of ");
    CHECK(t.len > 0 && t.len < 10000 && t.len % 10 == 0 && strlen(t.data) == t.len);
    cfx__text_release(&t);
}

TEST(a_vector_that_grows_on_without_memory_moves_seldom) {
    VEC(int) v = {0};
    int moves = 0;
    cfx_set_memory_limit(cfx_memory_held() + 4096);
    for (int i = 0; i < 100000; i++) {
        size_t cap = v.cap;
        VEC_PUSH(v, i);
        moves += v.cap != cap;
    }
    CHECK_ERROR("the memory limit of ");
    CHECK(moves < 64);
    for (int i = 0; i < 100000; i++)
        CHECK(v.data[i] == i);
    VEC_FREE(v);
}

#ifndef CFX_SANITIZE /* which takes all addresses there are */
/* A process that may map so many bytes more fills a vector until it hears of an error. */
static int filled_within(size_t bytes) {
    pid_t child = fork();
    if (child == 0) {
        long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        if (!f || fscanf(f, "%ld", &pages) != 1)
            _exit(2);
        rlim_t most = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
        setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        VEC(int64_t) v = {0};
        while (cfx_ok())
            VEC_PUSH(v, 1);
        _exit(v.data[v.len - 1] == 1 ? 0 : 3);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

TEST(a_vector_says_that_the_machine_has_no_memory) {
    for (size_t mib = 64; mib < 160; mib += 6)
        CHECK_INT(filled_within(mib << 20), 0);
}
#endif

TEST(much_memory_is_asked_for_before_it_is_taken) {
    CHECK(cfx__memory_wanted(1 << 20) && cfx__memory_wanted(64 << 20));
    CHECK_OK();
    CHECK(!cfx__memory_wanted(SIZE_MAX / 2));
    CHECK_ERROR("out of memory: 9223372036854775807 bytes could not be allocated");
}

#ifndef CFX_SANITIZE
/* A block that was freed serves what is smaller, and is as large as it was afterwards. */
TEST(freed_blocks_serve_smaller_needs) {
    const size_t size = 3 << 20;
    void *p = cfx__block_alloc(size);
    if (!CHECK(p != NULL))
        return;
    cfx__block_free(p, size);
    void *smaller = cfx__block_alloc(size - size / 4);
    CHECK(smaller == p);
    cfx__block_free(smaller, size - size / 4);
    void *again = cfx__block_alloc(size);
    CHECK(again == p);
    cfx__block_free(again, size);
    void *quarter = cfx__block_alloc(size / 4);
    CHECK(quarter == p);
    cfx__block_free(quarter, size / 4);
    void *other = cfx__block_alloc(size / 16); /* too small for it */
    CHECK(other != p);
    cfx__block_free(other, size / 16);
}

/* What stays does not hold one block after another that is much larger than it needs to be. */
TEST(small_needs_leave_large_blocks_to_others) {
    enum { MANY = 16, TOO_MUCH = 2 << 20 };
    const size_t size = 3 << 20;
    void *large[MANY], *small[MANY];
    int taken = 0;
    for (int i = 0; i < MANY; i++)
        large[i] = cfx__block_alloc(size);
    for (int i = 0; i < MANY; i++)
        cfx__block_free(large[i], size);
    for (int i = 0; i < MANY; i++) {
        small[i] = cfx__block_alloc(size - TOO_MUCH);
        for (int k = 0; k < MANY; k++)
            taken += small[i] == large[k];
    }
    CHECK(taken > 4 && taken <= 8); /* 16 MiB too much, at 2 MiB each */
    for (int i = 0; i < MANY; i++)
        cfx__block_free(small[i], size - TOO_MUCH);
}
#endif
