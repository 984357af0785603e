/* A program is planned once, however often it runs and whatever it writes to: the bundled programs,
 * and, where CFX_PROGRAMS names folders of folders with a model.pt2 and its inputs.safetensors
 * (several with blanks between), those. */
#include <cfx.h>

#include "../src/base/base.h"
#include "folders.h"
#include "test.h"

enum { STEPS = 30 };

/* How often each graph was planned: the program's own, and those of its branches and loops. */
static struct {
    const cfx_graph *graph;
    int plans;
} seen[64];

static void *count_plan(const cfx_execution *e) {
    int i = 0;
    while (i < COUNT(seen) - 1 && seen[i].graph && seen[i].graph != e->graph)
        i++;
    seen[i].graph = e->graph;
    seen[i].plans++;
    return cfx_planner.prepare(e);
}

/* How often a graph of a program is planned in so many steps of a session, at most. */
static int plans_of(const char *folder) {
    static cfx_executor planner;
    cfx_program *p = cfx_open(cfx__text_format("%s/model.pt2", folder));
    cfx_dict *file = cfx_safetensors_read(cfx__text_format("%s/inputs.safetensors", folder));
    cfx_value in = cfx_list_value(0, NULL);
    for (int64_t i = 0; cfx_ok() && i < file->len; i++)
        cfx_list_append(cfx_as_list(in), cfx_dict_get(file, cfx__text_format("in%d", (int)i)));
    planner = cfx_planner;
    planner.prepare = count_plan;
    memset(seen, 0, sizeof seen);
    const cfx_executor *before = cfx_set_executor(&planner);
    cfx_session *s = cfx_session_new();
    for (int i = 0; i < STEPS && cfx_ok(); i++)
        CFX_SCOPE cfx_session_run_from(CFX_HERE, s, p,
                                       (cfx_args){(int)cfx_as_list(in)->len,
                                                  cfx_as_list(in)->items, NULL});
    cfx_set_executor(before);
    int most = 0;
    for (int i = 0; i < COUNT(seen); i++)
        most = seen[i].plans > most ? seen[i].plans : most;
    return most;
}

static void check_folder(const char *folder, void *checked) {
    CFX_SCOPE {
        const int n = plans_of(folder);
        if (!cfx_ok()) /* what does not run is no concern of this test */
            cfx_error_clear();
        else if (!CHECK_INT(n, 1))
            test_fail(CFX_HERE, "%s, in %d steps", folder, STEPS);
        else
            ++*(int *)checked;
    }
}

static int check_folders(const char *path) {
    int checked = 0;
    folder_each(path, "", check_folder, &checked);
    return checked;
}

TEST(programs_are_planned_once_whatever_they_write_to) {
    cfx_set_grad_mode(CFX_INFERENCE);
    CHECK(check_folders(CFX_TEST_DATA "/zoo") > 5);
    CHECK_INT(check_folders("examples/data"), 1);
    for (const char *at = NULL, *folder; (folder = folder_given(&at)) != NULL;)
        CHECK(check_folders(folder) > 0);
}
