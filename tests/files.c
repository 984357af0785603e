/* The folder of a test: see files.h. */
#include "files.h"

#include "../src/base/base.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[4096];

const char *test_path(const char *name) {
    if (!folder[0]) {
        const char *where = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/cfx-test-XXXXXX", where && *where ? where : P_tmpdir);
        CHECK(mkdtemp(folder) != NULL);
    }
    return cfx__text_format("%s/%s", folder, name);
}

void test_unlink(const char *name) { unlink(test_path(name)); }

void test_folder_done(void) {
    CHECK_INT(rmdir(folder), 0);
    folder[0] = 0;
}

void test_folder_end(void) {
    if (folder[0])
        test_folder_done();
}

int test_folder_clear(void) {
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..")) {
            unlinkat(dirfd(dir), e->d_name, 0);
            n++;
        }
    closedir(dir);
    test_folder_done();
    return n;
}
