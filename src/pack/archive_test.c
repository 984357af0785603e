/* Several programs in one archive. */
#include "test.h"

#include <cfx/ops.h>

#include <sys/stat.h>

#include "files.h"
#include "pt2.h"

static cfx_value forward(cfx_module *self, cfx_args a) {
    return cfx_tensor_value(cfx_mul(cfx_call(self, "fc", a.v[0]), *(double *)self->user));
}

TEST(programs_share_an_archive_and_their_weights) {
    static double factor[] = {1, 3};
    cfx_module *fc = cfx_nn_linear(64, 64);
    cfx_program *p[2];
    for (int i = 0; i < 2; i++) {
        cfx_module *m = cfx_module_new("Net", forward, "x");
        m->user = &factor[i];
        cfx_nn_add(m, "fc", fc);
        p[i] = cfx_export(m, cfx_tuple(cfx_ones(1, 64)), CFX_NONE, CFX_NONE);
    }
    const char *names[] = {"encoder", "decoder"}, *path = test_path("two.pt2");
    CHECK(cfx_save_archive(path, 2, names, p));
    CHECK_STR(cfx_repr(cfx_archive_names(path)), "['encoder', 'decoder']");
    cfx_tensor *x = cfx_randn(1, 64);
    for (int i = 0; i < 2; i++) {
        cfx_program *q = cfx_open(cfx__text_format("%s:%s", path, names[i]));
        CHECK_STR(cfx_str(cfx_program_run(q, x)), cfx_str(cfx_program_run(p[i], x)));
        CHECK_OK();
    }
    struct stat about;
    CHECK(!stat(path, &about) && about.st_size < 2 * 64 * 64 * 4); /* one weight, not two */
    CHECK(cfx_failed(cfx_open(path)));
    CHECK_ERROR("it holds no program called model; those that it holds are ['encoder', 'decoder']");
    CHECK(cfx_failed(cfx_open(cfx__text_format("%s:other", path))));
    CHECK_ERROR("it holds no program called other");
    names[1] = "model";
    CHECK(cfx_save_archive(path, 2, names, p));
    CHECK_STR(cfx_str(cfx_program_run(cfx_open(path), x)), cfx_str(cfx_program_run(p[1], x)));
    CHECK_OK();
    names[1] = "encoder";
    CHECK(!cfx_save_archive(path, 2, names, p));
    CHECK_ERROR("two programs are called 'encoder'");
    names[1] = "a/b";
    CHECK(!cfx_save_archive(path, 2, names, p));
    CHECK_ERROR("a program in an archive has a name without '/', not 'a/b'");
    CHECK(!cfx_save_archive(path, 0, names, p));
    CHECK_ERROR("there is no program to write");
    CHECK(cfx_is_bad(cfx_archive_names(test_path("none.pt2"))));
    CHECK_ERROR("none.pt2");
    test_unlink("two.pt2");
    test_folder_done();
}
