/* A random program changed several times, each change of what the one before gave: it stays the
 * same program, and one without problems. See agree.h. Start at agree_in_turn. */
#include "agree.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cfx/check.h>
#include <cfx/split.h>

#include "drawing.h"

cfx_program *agree_reopened(cfx_program *p, const char *kind) {
    const char *folder = getenv("TMPDIR");
    char path[256], beside[300];
    snprintf(path, sizeof path, "%s/cfx_program_%d%s", folder ? folder : "/tmp", (int)getpid(),
             kind);
    snprintf(beside, sizeof beside, "%.*s.safetensors", (int)(strlen(path) - strlen(kind)), path);
    cfx_program *again = cfx_save(p, path) ? cfx_open(path) : NULL;
    unlink(path);
    unlink(beside);
    return again;
}

const cfx_pass *agree_any_pass(void) {
    const cfx_pass *p = cfx_pass_number((int)test_draw(64));
    return p && p->promise != CFX_PASS_LOWERED && strncmp(p->name, "check_", 6) &&
                   strcmp(p->name, "specialize")
               ? p
               : NULL;
}

/* ---- changes --------------------------------------------------------------------------------- */

static cfx_program *decomposed(subject *s, cfx_program *p) {
    (void)s;
    return cfx_decompose(p, CFX_NONE);
}

static cfx_program *functionalised(subject *s, cfx_program *p) {
    (void)s;
    return cfx_program_functionalize(p);
}

static cfx_program *optimised(subject *s, cfx_program *p) {
    (void)s;
    return cfx_optimize(p);
}

static cfx_program *saved(subject *s, cfx_program *p) {
    (void)s;
    return agree_reopened(p, ".pt2");
}

static cfx_program *passed(subject *s, cfx_program *p) {
    cfx_program *other = cfx_program_copy(p);
    const cfx_pass *pass = agree_any_pass();
    (void)s;
    return !pass || cfx_pass_apply(pass, other, NULL) >= 0 ? other : NULL;
}

static cfx_program *exported_as(const subject *s, cfx_module *m) {
    cfx_value example = agree_tuple(eager_copies(s->drawn->inputs));
    return cfx_ok() ? cfx_export(m, example, CFX_NONE, CFX_NONE) : NULL;
}

static cfx_program *exported(subject *s, cfx_program *p) {
    return exported_as(s, cfx_program_module(p));
}

static cfx_program *unflattened(subject *s, cfx_program *p) {
    return exported_as(s, cfx_program_unflatten(p));
}

static const struct {
    const char *name;
    cfx_program *(*make)(subject *s, cfx_program *p);
} changes[] = {{"decomposed", decomposed}, {"functionalised", functionalised},
               {"optimised", optimised},   {"saved", saved},
               {"passed", passed},         {"exported", exported},
               {"unflattened", unflattened}};

void agree_in_turn(subject *s, cfx_program *p) {
    char name[96] = "in turn (";
    for (uint32_t i = 0, n = 2 + test_draw(3); i < n; i++) {
        const uint32_t k = test_draw(sizeof changes / sizeof *changes);
        const size_t len = strlen(name);
        snprintf(name + len, sizeof name - len, "%s%s%s", i ? ", " : "", changes[k].name,
                 i + 1 < n ? "" : ")");
        cfx_program *next = changes[k].make(s, p);
        if (cfx_ok() && !cfx_failed(next))
            cfx_program_check(next);
        if (!cfx_ok() || cfx_failed(next)) {
            if (s->first.ran)
                agree_unless(s, name, "cannot be taken apart");
            s->last = s->found.any ? p : s->last;
            cfx_error_clear();
            return;
        }
        p = next;
    }
    agree_changed(s, p, name);
}
