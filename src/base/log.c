/* What programs print while they run: lines, to whoever asked for them. */
#include "base.h"

void cfx_set_log(cfx_log_fn *fn, void *user) {
    cfx__context *c = cfx__ctx();
    c->log = fn;
    c->log_user = user;
}

void cfx__log(const char *line) {
    const cfx__context *c = cfx__ctx();
    if (c->log) {
        c->log(line, c->log_user);
        return;
    }
    cfx__text shown = {0}; /* a terminal does not obey what a file has printed */
    cfx__text_puts(&shown, line);
    cfx__text_show(&shown, 0);
    fprintf(stderr, "%s\n", shown.data);
    cfx__text_release(&shown);
}
