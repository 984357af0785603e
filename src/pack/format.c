/* The formats that programs are kept in: a table, by the end of a file's name. */
#include "../onnx/onnx.h"
#include "pt2.h"

typedef struct format {
    const char *suffix;
    cfx_program *(*open)(const char *path);
    bool (*save)(const cfx_program *p, const char *path);
} format;

static const format formats[] = {
    {".fx", cfx__fx_open, cfx__fx_save},
    {".pt2", cfx__pt2_open_file, cfx__pt2_save},
    {".onnx", cfx__onnx_open, NULL},
    {"", cfx__pt2_open_file, cfx__pt2_save}, /* whatever it is called */
};

static const format *format_of(const char *path) {
    size_t len = strlen(path);
    const format *f = formats;
    for (;; f++) {
        size_t n = strlen(f->suffix);
        if (len >= n && !strcmp(path + len - n, f->suffix))
            return f;
    }
}

cfx_program *cfx_open(const char *path) {
    if (!path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return &cfx__program_bad;
    }
    return format_of(path)->open(path);
}

/* What a program has no tensor for no file has. */
static bool is_held(const cfx_program *p) {
    const cfx_input_spec *s = cfx__pt2_lacking(p);
    if (s)
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "input '%s' stands for '%s', which the program does not have", s->name, s->target);
    return !s;
}

static bool is_writable(const cfx_program *p, const char *path) {
    if (!path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return false;
    }
    if (!cfx__program_whole((cfx_site){0}, p) || !cfx_program_infer(p) || !is_held(p)) {
        cfx_note("cannot write '%s'", path);
        return false;
    }
    return true;
}

bool cfx_save(const cfx_program *p, const char *path) {
    if (!is_writable(p, path))
        return false;
    const format *f = format_of(path);
    if (!f->save)
        cfx_fail(CFX_NOT_IMPLEMENTED_ERROR, (cfx_site){0},
                 "cannot write '%s': %s files are read, not written", path, f->suffix);
    return f->save && f->save(p, path);
}

/* Whether a program may have this name beside those before it; else an error. */
static bool is_name(const cfx__pt2_entry *before, int n, const char *name) {
    bool fine = name && *name && !strchr(name, '/');
    for (int i = 0; fine && i < n; i++)
        if (!strcmp(before[i].name, name)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "two programs are called '%s'", name);
            return false;
        }
    if (!fine)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "a program in an archive has a name without '/', not '%s'", name ? name : "NULL");
    return fine;
}

bool cfx_save_archive(const char *path, int n, const char *const *names,
                      cfx_program *const *programs) {
    if (n < 1 || !names || !programs) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "there is no program to write");
        return false;
    }
    cfx__pt2_entry *all = cfx__alloc0((size_t)n * sizeof *all);
    bool fine = true;
    for (int i = 0; fine && i < n; i++) {
        fine = is_writable(programs[i], path) && is_name(all, i, names[i]);
        all[i] = (cfx__pt2_entry){names[i], programs[i]};
    }
    fine = fine && cfx__pt2_save_all(path, n, all);
    cfx__free(all);
    return fine;
}
