/* Machines that are described in a text file: a line for each thing that they can do. */
#include <stdlib.h>

#include "../base/given.h"
#include "stages.h"

typedef struct field {
    const char *name;
    size_t at;
} field;

static const field fields[] = {
    {"flops", offsetof(cfx_machine, flops)},   {"bandwidth", offsetof(cfx_machine, bandwidth)},
    {"link", offsetof(cfx_machine, link)},     {"latency", offsetof(cfx_machine, latency)},
    {"call", offsetof(cfx_machine, call)},     {"memory", offsetof(cfx_machine, memory)},
    {"cores", offsetof(cfx_machine, cores)},
};

static const double LEAST = 1e-18, MOST = 1e24; /* sums and quotients of such are finite */

/* "25G" and "2e-6": a number with K, M, G or T behind it or not. */
static bool read_number(const char *text, const char *end, double *out) {
    char *rest;
    const char *word = cfx__string_new(text, (size_t)(end - text))->text;
    double n = strtod(word, &rest);
    const char *units = "KMGT", *unit = *rest ? strchr(units, *rest) : NULL;
    for (int i = 0; unit && i <= unit - units; i++)
        n *= 1000;
    *out = n;
    return rest != word && !rest[unit ? 1 : 0] && n >= LEAST && n <= MOST;
}

static bool fail(const char *path, int line, const char *what) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "%s:%d: %s; a line is NAME NUMBER, as in 'link 25G', and names are flops, bandwidth, "
             "link, latency, call, memory and cores", path, line, what);
    return false;
}

/* One line, comments cut off. */
static bool read_line(cfx_machine *m, const char *path, int line, const char *at, const char *end) {
    while (at < end && strchr(" \t\r", *at))
        at++;
    while (end > at && strchr(" \t\r", end[-1]))
        end--;
    if (at == end)
        return true;
    size_t n = strcspn(at, " \t=");
    const char *name = cfx__string_new(at, n < (size_t)(end - at) ? n : (size_t)(end - at))->text;
    const char *number = at + strlen(name);
    while (number < end && strchr(" \t=", *number))
        number++;
    double value;
    for (int i = 0; i < COUNT(fields); i++) {
        if (strcmp(fields[i].name, name))
            continue;
        if (!read_number(number, end, &value))
            return fail(path, line, cfx__text_format("'%s' is not a number from 1e-18 to 1e24",
                                                     cfx__string_new(number, (size_t)(end - number))
                                                         ->text));
        void *to = (char *)m + fields[i].at;
        if (fields[i].at == offsetof(cfx_machine, cores))
            *(int *)to = value < 1e6 ? (int)value : 1000000;
        else
            *(double *)to = value;
        return true;
    }
    return fail(path, line, cfx__text_format("there is no '%s'", name));
}

bool cfx_machine_read(const char *path, cfx_machine *out) {
    if (!cfx__given((cfx_site){0}, path, "path") || !cfx__given((cfx_site){0}, out, "machine") ||
        !cfx_ok())
        return false;
    size_t mark = cfx_scope_open();
    cfx__file_mapping *file = cfx__file_map(path);
    cfx_machine m = {0};
    bool fine = file != NULL;
    const char *text = fine ? cfx__string_new(file->data, file->size)->text : "";
    for (int line = 1; fine && *text; line++) {
        size_t n = strcspn(text, "\n"), comment = strcspn(text, "#");
        fine = read_line(&m, path, line, text, text + (comment < n ? comment : n));
        text += n + (text[n] == '\n');
    }
    cfx_drop(file);
    cfx_scope_close(mark);
    if (fine)
        *out = m;
    return fine;
}
