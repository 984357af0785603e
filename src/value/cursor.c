/* Reading short texts token by token: see cursor.h. */
#include "cursor.h"

void cfx__cursor_fail(cfx__cursor *c, const char *wrong) {
    int column = (int)(c->p - c->text);
    if (!c->failed)
        cfx_fail(c->kind, (cfx_site){0}, "%s: %s at column %d\n%s\n%*s^", c->what, wrong,
                 column + 1, c->text, column, "");
    c->failed = true;
}

bool cfx__cursor_eat(cfx__cursor *c, const char *token) {
    cfx__cursor_skip(c);
    size_t n = strlen(token);
    if (strncmp(c->p, token, n))
        return false;
    c->p += n;
    return true;
}

void cfx__cursor_need(cfx__cursor *c, const char *token) {
    char wrong[32];
    snprintf(wrong, sizeof wrong, "expected '%s'", token);
    if (!c->failed && !cfx__cursor_eat(c, token))
        cfx__cursor_fail(c, wrong);
}
