/* Packed weights beside a model: used where they are its own, and never believed where not. */
#include <cfx/ops.h>
#include <cfx/pack.h>

#include "files.h"
#include "tensor/packed.h"
#include "plan/plan_test.h"

#include <sys/stat.h>
#include <unistd.h>

/* A convolution with its normalisation, and a product, written to m.pt2. */
static void write_model(int seed) {
    cfx_manual_seed((uint64_t)seed);
    cfx_program *p = conv_and_product();
    const int64_t shape[] = {2, 8, 12, 12};
    cfx_node_set_meta(cfx_graph_find(p->module->graph, "x"), "val",
                      cfx_tensor_value(cfx_tensor_fake(CFX_F32, 4, shape, NULL)));
    cfx_program_infer(p);
    cfx_save(p, test_path("m.pt2"));
}

/* Whether two runs gave the same numbers, to the bit. */
static bool same(cfx_value a, cfx_value b) {
    return a.tag == CFX_TAG_TUPLE && b.tag == CFX_TAG_TUPLE &&
           cfx_integer(cfx_equal(cfx_at(a, 0), cfx_at(b, 0)));
}

static cfx_value input(void) {
    cfx_manual_seed(7);
    return cfx_tensor_value(cfx_randn(2, 8, 12, 12));
}

/* What the model gives, opened anew; and what its prepared file was good for. */
static cfx_value run_model(cfx_value *prepared) {
    cfx_program *p = cfx_open(test_path("m.pt2"));
    cfx_value out = run_by(&cfx_planner, p, input());
    *prepared = cfx_program_prepared(p);
    return out;
}

static int64_t fact(cfx_value prepared, const char *key) {
    if (prepared.tag != CFX_TAG_DICT)
        return -1;
    return cfx_integer(cfx_dict_get(cfx_as_dict(prepared), key));
}

static const char *refusal(cfx_value prepared) {
    return prepared.tag == CFX_TAG_DICT ? cfx_text(cfx_dict_get(cfx_as_dict(prepared), "refused"))
                                        : NULL;
}

/* Writes the model and what is prepared of it; what it gives. */
static cfx_value prepare_model(int seed) {
    cfx_dict *report = cfx_dict_new();
    write_model(seed);
    cfx_program *p = cfx_open(test_path("m.pt2"));
    cfx_value out = run_by(&cfx_planner, p, input());
    CHECK(cfx_program_prepare(p, test_path("m.pt2"), report));
    CHECK_INT(cfx_integer(cfx_dict_get(report, "forms")), 3);
    CHECK_STR(cfx_text(cfx_dict_get(report, "path")), test_path("m.pt2.prepared"));
    return out;
}

static void done(void) {
    test_unlink("m.pt2");
    test_unlink("m.pt2.prepared");
}

TEST(prepared_weights_are_used) {
    cfx_value prepared, want = prepare_model(1), out = run_model(&prepared);
    struct stat st;
    CHECK(stat(test_path("m.pt2.prepared"), &st) == 0 && (st.st_mode & 0777) == 0600);
    CHECK(same(out, want));
    CHECK(!refusal(prepared));
    CHECK_INT(fact(prepared, "forms"), 3);
    CHECK_INT(fact(prepared, "used"), 3);
    CHECK_INT(fact(prepared, "other"), 0);
    test_unlink("m.pt2.prepared");
    CHECK(same(run_model(&prepared), want));
    CHECK(cfx_is_none(prepared));
    done();
    CHECK_OK();
}

TEST(prepared_weights_of_another_model_are_not_used) {
    cfx_value prepared;
    prepare_model(1);
    write_model(2);
    cfx_value out = run_model(&prepared);
    CHECK(fact(prepared, "other") > 0);
    CHECK_INT(fact(prepared, "used"), 0);
    test_unlink("m.pt2.prepared");
    CHECK(same(out, run_model(&prepared)));
    done();
    CHECK_OK();
}

/* Changes a byte of the prepared file, or changes it back. */
static void flip(long at) {
    FILE *f = fopen(test_path("m.pt2.prepared"), "r+b");
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 0x55, f);
    fclose(f);
}

TEST(prepared_weights_that_are_broken_are_not_used) {
    cfx_value prepared, want = prepare_model(3);
    struct stat st;
    stat(test_path("m.pt2.prepared"), &st);
    enum { LIST_END = 320 }; /* of head and list, which are refused whole */
    for (long at = 0; at < LIST_END; at += 5)
        CFX_SCOPE {
            flip(at);
            CHECK(same(run_model(&prepared), want));
            CHECK(refusal(prepared) != NULL);
            flip(at);
        }
    int broken = 0; /* one form, which lies there */
    for (long at = LIST_END; at < st.st_size; at += st.st_size / 20)
        CFX_SCOPE {
            flip(at);
            CHECK(same(run_model(&prepared), want));
            broken += fact(prepared, "broken") == 1;
            flip(at);
        }
    CHECK(broken > 10);
    for (off_t size = st.st_size - 64; size > 0; size -= st.st_size / 20) /* cut short */
        CFX_SCOPE {
            CHECK(truncate(test_path("m.pt2.prepared"), size) == 0);
            CHECK(same(run_model(&prepared), want));
            CHECK(refusal(prepared) != NULL);
        }
    done();
    CHECK_OK();
}

TEST(prepared_weights_that_others_could_have_written_are_not_used) {
    cfx_value prepared, want = prepare_model(4);
    chmod(test_path("m.pt2.prepared"), 0666);
    CHECK(same(run_model(&prepared), want));
    CHECK(strstr(refusal(prepared), "others could have written it") != NULL);
    chmod(test_path("m.pt2.prepared"), 0600);
    CHECK(rename(test_path("m.pt2.prepared"), test_path("elsewhere")) == 0);
    CHECK(symlink(test_path("elsewhere"), test_path("m.pt2.prepared")) == 0);
    CHECK(same(run_model(&prepared), want));
    CHECK(refusal(prepared) != NULL);
    test_unlink("elsewhere");
    done();
    CHECK_OK();
}

TEST(what_was_not_run_is_not_prepared) {
    write_model(5);
    CHECK(!cfx_program_prepare(cfx_open(test_path("m.pt2")), test_path("m.pt2"), NULL));
    CHECK_ERROR("is packed: run it first");
    done();
}

TEST(sums_of_bytes_tell_them_apart) {
    unsigned char *bytes = cfx__alloc0(3 << 20);
    const uint64_t sum = cfx__packed_sum(bytes, 3 << 20);
    for (size_t i = 0; i < 3 << 20; i += 65521) {
        bytes[i] ^= 0x80;
        CHECK(cfx__packed_sum(bytes, 3 << 20) != sum);
        bytes[(i + 64) % (3 << 20)] ^= 0x80; /* the same bit of the same lane */
        CHECK(cfx__packed_sum(bytes, 3 << 20) != sum);
        bytes[i] ^= 0x80;
        bytes[(i + 64) % (3 << 20)] ^= 0x80;
    }
    CHECK(cfx__packed_sum(bytes, 3 << 20) == sum);
    CHECK(cfx__packed_sum(bytes, 100) != cfx__packed_sum(bytes, 101));
    cfx__free(bytes);
}
