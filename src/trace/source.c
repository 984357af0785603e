/* The source lines of a forward that is exported, as Python's stack traces show them. */
#include "export.h"

/* The text of a file; the caller owns it. NULL where it cannot be read: that is no error, but for
 * memory that runs out. */
static char *text_of(const char *name) {
    cfx__file_mapping *m = cfx_ok() ? cfx__file_map(name) : NULL;
    cfx__text text = {0};
    if (m)
        cfx__text_add(&text, m->data, m->size);
    else
        cfx__error_forgive();
    cfx_drop(m);
    return text.data;
}

/* Line `line` of a file without blanks around it; "" where it cannot be read. */
static const char *source_line(cfx__export *e, const char *name, int line) {
    if (!e->file.name || strcmp(e->file.name, name)) {
        cfx__free(e->file.text);
        e->file.name = name;
        e->file.text = text_of(name);
    }
    const char *p = e->file.text;
    for (int i = 1; p && i < line; i++)
        p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL;
    if (!p)
        return "";
    p += strspn(p, " \t");
    return cfx__string_new(p, strcspn(p, "\r\n"))->text;
}

void cfx__export_put_frame(cfx__export *e, cfx__text *out, cfx_site at) {
    if (!at.file)
        return;
    const char *code = source_line(e, at.file, at.line);
    cfx__text_printf(out, "%sFile \"%s\", line %d, in forward\n    %s", out->len ? "\n  " : "",
                     at.file, at.line, *code ? code : "?");
}
