/* What programs print while they run: lines, to whoever asked for them. */
#include "base.h"

void cfx_set_log(cfx_log_fn *fn, void *user) {
    cfx__context *c = cfx__ctx();
    c->log = fn;
    c->log_user = user;
}

void cfx__log(const char *line) {
    const cfx__context *c = cfx__ctx();
    if (c->log)
        c->log(line, c->log_user);
    else
        fprintf(stderr, "%s\n", line);
}
