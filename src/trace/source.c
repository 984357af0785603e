/* The source lines of a forward that is exported, as Python's stack traces show them. */
#include "export.h"

/* Line `line` of a file without blanks around it; "" where it cannot be read. */
static const char *source_line(cfx__export *e, const char *name, int line) {
    if (!e->file.name || strcmp(e->file.name, name)) {
        cfx__free(e->file.text);
        e->file.name = name;
        e->file.text = NULL;
        FILE *f = fopen(name, "rb");
        cfx__text text = {0};
        char block[4096];
        for (size_t n; f && (n = fread(block, 1, sizeof block, f)) > 0;)
            cfx__text_add(&text, block, n);
        if (f)
            fclose(f);
        e->file.text = text.data;
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
