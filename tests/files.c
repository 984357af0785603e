/* The folder of a test: see files.h. */
#include "files.h"

#include "../src/base/base.h"

#include <stdlib.h>
#include <unistd.h>

static char folder[64];

const char *test_path(const char *name) {
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s/cfx-test-XXXXXX", P_tmpdir);
        CHECK(mkdtemp(folder) != NULL);
    }
    return cfx__text_format("%s/%s", folder, name);
}

void test_unlink(const char *name) { unlink(test_path(name)); }

void test_folder_done(void) {
    CHECK_INT(rmdir(folder), 0);
    folder[0] = 0;
}
