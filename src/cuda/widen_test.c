#include "../../tests/test.h"

#include "plan.h"

static cfx__cuda_name named(const char *name, cfx_dtype dtype, int64_t at) {
    return (cfx__cuda_name){name, {.where = CFX__C_ARENA, .dtype = dtype, .base = at}, false};
}

TEST(what_is_done_for_an_element_is_done_for_those_beside_it) {
    cfx__cuda_name names[] = {named("x", CFX_BF16, 0), named("y", CFX_F32, 256),
                              named("z", CFX_BF16, 512)};
    cfx__cuda_pen t = {.names = {.data = names, .len = COUNT(names)}, .full = 1};
    CHECK_STR(cfx__cuda_widen(&t, "    const float v = f(x[i * 64 + j]) + y[j] + y[i] + j;\n"
                                  "    z[i * 64 + j] = g(v);\n", "j", 8),
              "    cfx_pack<uint16_t, 8, 8> p0_;\n"
              "    p0_ = *(const cfx_pack<uint16_t, 8, 8> *)(x + i * 64 + j);\n"
              "    cfx_pack<float, 8, 4> p1_;\n"
              "    p1_ = *(const cfx_pack<float, 8, 4> *)(y + j);\n"
              "    cfx_pack<uint16_t, 8, 8> p2_;\n"
              "#pragma unroll\n"
              "    for (int u_ = 0; u_ < 8; u_++) {\n"
              "    const float v = f(p0_.v[u_]) + p1_.v[u_] + y[i] + (j + u_);\n"
              "    p2_.v[u_] = g(v);\n"
              "    }\n"
              "    cfx_put(z + i * 64 + j, p2_);\n");
}

/* Places that are not beside each other, or begin within a piece, are read one by one. */
TEST(what_does_not_lie_in_pieces_is_not_read_in_pieces) {
    cfx__cuda_name names[] = {named("x", CFX_F32, 0), named("y", CFX_F32, 4)};
    cfx__cuda_pen t = {.names = {.data = names, .len = COUNT(names)}, .full = 1};
    static const char *const none[] = {
        "x[j * 2] = 0;\n",     "x[i * 6 + j] = 0;\n",         "y[j] = 0;\n",
        "x[i + j] = 0;\n",     "int p = 4; x[p * 4 + j] = p;\n", "x[j + j * 4] = 0;\n",
        "x[0] = j;\n",         "if (j < 3) x[j] = 0;\n",      "x[w[j]] = 0;\n"};
    for (int i = 0; i < COUNT(none); i++)
        CHECK(!cfx__cuda_widen(&t, none[i], "j", 4));
    CHECK(cfx__cuda_widen(&t, "x[i * 8 + j] = y[j];\n", "j", 4));
    CHECK(!cfx__cuda_widen(&t, "x[j] = 0;\n", "j", 1));
}

TEST(a_thread_has_several_elements_where_there_are_threads_enough) {
    cfx__cuda_name names[] = {named("x", CFX_BF16, 0)};
    cfx__cuda_pen t = {.names = {.data = names, .len = COUNT(names)}, .full = 100};
    CHECK_INT(cfx__cuda_wide(&t, 800, 80), 8);
    CHECK_INT(cfx__cuda_wide(&t, 799, 80), 4);
    CHECK_INT(cfx__cuda_wide(&t, 800, 12), 4);
    CHECK_INT(cfx__cuda_wide(&t, 8000, 13), 1);
    CHECK_INT(cfx__cuda_wide(&t, 199, 80), 1);
    t.within = 256;
    CHECK_INT(cfx__cuda_wide(&t, 800, 80), 1);
}
