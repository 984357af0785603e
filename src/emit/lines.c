/* The lines of generated code: which node each is of, and the user's function that changes them. */
#include "emit.h"

static const char counter[] = "# COUNTER: ";

/* The lines of the body without their indentation, and a counter before those of each node. */
static cfx_value lines_of(const cfx__emit_body *b) {
    cfx_value lines = cfx_list_value(0, NULL);
    const char *p = b->text.data, *end = p + b->text.len;
    size_t mark = 0;
    for (const char *next; p && p < end; p = next) {
        for (; mark < b->marks.len && b->marks.data[mark].at <= (size_t)(p - b->text.data); mark++)
            cfx_list_append(cfx_as_list(lines),
                            cfx_string_value(cfx__text_format(
                                "%s%lld\n", counter, (long long)b->marks.data[mark].node)));
        next = memchr(p, '\n', (size_t)(end - p));
        next = next ? next + 1 : end;
        size_t skip = 0;
        while (skip < (size_t)b->indent && p + skip < next && p[skip] == ' ')
            skip++;
        cfx_list_append(cfx_as_list(lines),
                        cfx_string_value_n(p + skip, (size_t)(next - p) - skip));
    }
    return lines;
}

static void put_line(cfx__emit_body *b, const char *line, size_t len, bool *fresh) {
    if (*fresh && len && *line != '\n')
        for (int i = 0; i < b->indent; i++)
            cfx__text_putc(&b->text, ' ');
    cfx__text_add(&b->text, line, len);
    *fresh = len && line[len - 1] == '\n';
}

void cfx__emit_transform(cfx__emit_body *b, const cfx_codegen *c) {
    if (!c || !c->body)
        return;
    size_t mark = cfx_scope_open();
    cfx_value lines = c->body(c, lines_of(b));
    bool fresh = true;
    b->text.len = b->marks.len = 0;
    for (int64_t i = 0; i < cfx_as_list(lines)->len; i++) {
        const char *p = cfx_as_text(cfx_as_list(lines)->items[i]);
        for (const char *next; *p; p = next) { /* a text may hold several lines */
            next = strchr(p, '\n') ? strchr(p, '\n') + 1 : p + strlen(p);
            if (strncmp(p, counter, strlen(counter)))
                put_line(b, p, (size_t)(next - p), &fresh);
            else
                VEC_PUSH(b->marks, ((struct cfx__emit_mark){
                                       b->text.len, strtoll(p + strlen(counter), NULL, 10)}));
        }
    }
    cfx_scope_close(mark);
}

cfx_dict *cfx__emit_line_map(const cfx__emit_body *b, int head) {
    cfx_dict *map = cfx_dict_new();
    const char *p = b->text.data;
    size_t mark = 0;
    cfx_value node = cfx_none();
    for (int line = head; p; line++) {
        size_t at = (size_t)(p - b->text.data);
        for (; mark < b->marks.len && b->marks.data[mark].at <= at; mark++)
            if (at < b->text.len) /* what follows the last newline is the last node's */
                node = cfx_int(b->marks.data[mark].node);
        cfx_dict_put(map, cfx_int(line), node);
        p = memchr(p, '\n', b->text.len - at);
        p = p ? p + 1 : NULL;
    }
    return map;
}
