/* The formats that programs are kept in: a table, by the end of a file's name; what is called
 * otherwise is known by how it begins. */
#include <cfx/check.h>
#include <cfx/rewrite.h>

#include "../onnx/onnx.h"
#include "prepared.h"
#include "pt2.h"

#include <ctype.h>
#include <sys/stat.h>

typedef struct format {
    const char *suffix;
    cfx_program *(*open)(const char *path);
    bool (*save)(const cfx_program *p, const char *path);
    bool aten; /* foreign operators have no form in it */
    bool (*begins)(const unsigned char *data, size_t size); /* whether a file may be of this kind */
} format;

/* A text of a program: one of the words that they begin with, after comments and empty lines. */
static bool begins_text(const unsigned char *data, size_t size) {
    static const char *const words[] = {"graph(", "class ", "def ", "ExportedProgram:",
                                        "torch.fx."};
    const char *at = (const char *)data, *end = at + size;
    while (at < end && (strchr(" \t\r\n", *at) || *at == '#')) {
        const char *line = *at == '#' ? memchr(at, '\n', (size_t)(end - at)) : at;
        at = line ? line + 1 : end;
    }
    bool is = at == end && size && *data == '#';
    for (int i = 0; i < COUNT(words); i++)
        is |= (size_t)(end - at) >= strlen(words[i]) && !memcmp(at, words[i], strlen(words[i]));
    return is;
}

/* The version of ONNX, a model's first field, a number below 128; and the head of another field. */
static bool begins_model(const unsigned char *data, size_t size) {
    return size > 2 && data[0] == 0x08 && data[1] && data[1] < 0x80 && data[2] >= 0x10;
}

static const format formats[] = {
    {".fx", cfx__fx_open, cfx__fx_save, false, begins_text},
    {".pt2", cfx__pt2_open_file, cfx__pt2_save, true, NULL},
    {".onnx", cfx__onnx_open, cfx__onnx_save, false, begins_model},
    {"", cfx__pt2_open_file, cfx__pt2_save, true, NULL}, /* whatever it is called */
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

/* The format of a file whose name does not tell it: what is no text and no model of ONNX, or no
 * file at all ("two.pt2:encoder"), is an archive or nothing. NULL, with an error, where it cannot
 * be read. */
static const format *format_in(const char *path) {
    enum { HEAD = 512 };
    const format *f = formats;
    struct stat st;
    const bool file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    cfx__file_mapping *m = file ? cfx__file_map(path) : NULL;
    if (file && !m)
        return NULL;
    const size_t n = !m ? 0 : m->size < HEAD ? m->size : HEAD;
    while (*f->suffix && !(n && f->begins && f->begins((const unsigned char *)m->data, n)))
        f++;
    cfx_drop(m);
    return f;
}

cfx_program *cfx_open(const char *path) {
    if (!path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return &cfx__program_bad;
    }
    const format *f = format_of(path);
    if (!*f->suffix)
        f = format_in(path);
    cfx_program *p = f ? f->open(path) : &cfx__program_bad;
    if (!cfx_failed(p))
        cfx__prepared_find(p, path);
    return p;
}

/* Whether programs may be written to files of this name: an end that is no format's may be one of
 * another program, or a typing error. Without an end it is a .pt2. */
static bool is_ours(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    if (!dot || dot == name || !isalpha((unsigned char)dot[1]) || *format_of(path)->suffix)
        return true;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "cannot write '%s': a file of a program ends in .pt2, .onnx or .fx, not in %s", path,
             dot);
    return false;
}

/* The program as a file has it, in ATen where that has no other operators; scope. NULL, with an
 * error, where it cannot be written: where `sound`, because something is wrong with it too. */
static const cfx_program *writable(const cfx_program *p, const char *path, bool aten, bool sound) {
    if (!path) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no path");
        return NULL;
    }
    if (!is_ours(path))
        return NULL;
    bool fine = cfx__program_whole((cfx_site){0}, p);
    if (fine && aten)
        p = cfx_to_aten(p);
    fine = fine && !cfx_failed(p);
    if (fine && !sound)
        cfx__program_infer_most(p);
    if (fine && (sound ? cfx_program_check(p) : cfx_ok()))
        return p;
    cfx_error_note("cannot write '%s'", path);
    return NULL;
}

static bool save(const cfx_program *p, const char *path, bool sound) {
    size_t mark = cfx_scope_open();
    const format *f = format_of(path ? path : "");
    p = writable(p, path, f->aten, sound);
    bool fine = p && f->save(p, path);
    cfx_scope_close(mark);
    return fine;
}

bool cfx_save(const cfx_program *p, const char *path) { return save(p, path, true); }

bool cfx_save_unchecked(const cfx_program *p, const char *path) { return save(p, path, false); }

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
    size_t mark = cfx_scope_open();
    cfx__pt2_entry *all = cfx__alloc0((size_t)n * sizeof *all);
    bool fine = true;
    for (int i = 0; fine && i < n; i++) {
        all[i] = (cfx__pt2_entry){names[i], writable(programs[i], path, true, true)};
        fine = all[i].program && is_name(all, i, names[i]);
    }
    fine = fine && cfx__pt2_save_all(path, n, all);
    cfx__free(all);
    cfx_scope_close(mark);
    return fine;
}
