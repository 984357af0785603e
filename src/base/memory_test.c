/* Texts, vectors, maps and arenas. */
#include "base.h"
#include "test.h"

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
    static char keys[N][8];
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
