/* The folder of `cfx split -o`: stage0.pt2, stage1.pt2, ... or rank0.pt2, rank1.pt2, ..., and
 * plan.json, which says what each is for and has a hash of every file. It is written by cfx split
 * (cli_split_write) and read by the ranks of cfx run (cli_parts_find), which compare the hashes: a
 * file of another split would compute something else without a word. */
#include "split.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "../value/json.h"

static const char *file_in(const char *folder, const char *name) {
    size_t n = strlen(folder);
    return cfx__text_format("%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name);
}

static const char *part_in(const char *folder, const char *kind, int i) {
    return file_in(folder, cfx__text_format("%s%d.pt2", kind, i));
}

static const char *hash_text(uint64_t hash) {
    return cfx__text_format("%016llx", (unsigned long long)hash);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Makes the folder where there is none; false with an error. */
static bool make_folder(const char *folder) {
    struct stat s;
    if (!mkdir(folder, 0777) || (errno == EEXIST && !stat(folder, &s) && S_ISDIR(s.st_mode)))
        return true;
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "no folder '%s' can be made: %s", folder,
             errno == EEXIST ? "a file is called so" : strerror(errno));
    return false;
}

static bool is_free(const cli_split_job *j, const char *path) {
    struct stat s;
    if (j->force || stat(path, &s))
        return true;
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is there already; --force writes over it", path);
    return false;
}

static bool write_plan(const char *path, cfx_value plan) {
    cfx__text t = {0};
    bool fine = cfx__json_value(&t, plan);
    cfx__text_putc(&t, '\n');
    fine = fine && cfx__file_write(path, t.data, t.len);
    cfx__text_release(&t);
    return fine;
}

int cli_split_write(const cli_split_job *j, const char *kind, cfx_program *const *programs, int n,
                    cfx_value plan, cfx_list *rows) {
    if (!make_folder(j->folder) || !is_free(j, file_in(j->folder, "plan.json")))
        return cli_trouble();
    for (int i = 0; i < n; i++)
        if (!is_free(j, part_in(j->folder, kind, i)))
            return cli_trouble();
    for (int i = 0; i < n; i++) {
        const char *path = part_in(j->folder, kind, i);
        uint64_t hash = 0;
        if (!cfx_save(programs[i], path) || !cfx_file_hash(path, &hash))
            return cli_trouble();
        cfx_dict *row = cfx_as_dict(rows->items[i]);
        cfx_dict_set(row, "file", cfx_string_value(cfx__text_format("%s%d.pt2", kind, i)));
        cfx_dict_set(row, "hash", cfx_string_value(hash_text(hash)));
    }
    if (!write_plan(file_in(j->folder, "plan.json"), plan))
        return cli_trouble();
    cli_say("cfx: %d programs and plan.json are in '%s'\n", n, j->folder);
    return CLI_DONE;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_there(const char *path) {
    struct stat s;
    return !stat(path, &s);
}

/* What plan.json says; None where there is none. */
static cfx_value read_plan(const char *path) {
    if (!is_there(path))
        return cfx_none();
    cfx__file_mapping *file = cfx__file_map(path);
    cfx_value plan = file ? cfx__json_parse((const char *)file->data, file->size, path) : cfx_bad();
    cfx_drop(file);
    return plan;
}

static bool bad_plan(const char *path, const char *why) {
    cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is no plan of 'cfx split': %s", path, why);
    return false;
}

static bool by_plan(cli_parts *p, cfx_value plan) {
    const char *path = file_in(p->folder, "plan.json");
    cfx_value kind = plan.tag == CFX_TAG_DICT ? cfx_dict_get(cfx_as_dict(plan), "kind") : plan;
    const bool stages = kind.tag == CFX_TAG_STR && !strcmp(cfx_text(kind), "stages");
    if (!stages && (kind.tag != CFX_TAG_STR || strcmp(cfx_text(kind), "tensor")))
        return bad_plan(path, "its kind is neither 'stages' nor 'tensor'");
    p->kind = stages ? "stage" : "rank";
    cfx_value rows = cfx_dict_get(cfx_as_dict(plan), stages ? "stages" : "ranks");
    if (rows.tag != CFX_TAG_LIST || !cfx_as_list(rows)->len || cfx_as_list(rows)->len > INT_MAX)
        return bad_plan(path, stages ? "it has no list of 'stages'" : "it has no list of 'ranks'");
    for (int64_t i = 0; i < cfx_as_list(rows)->len; i++)
        if (cfx_as_list(rows)->items[i].tag != CFX_TAG_DICT)
            return bad_plan(path, "a row of its files is no object");
    p->rows = cfx_as_list(rows);
    p->n = (int)p->rows->len;
    return true;
}

/* Where there is no plan.json: files that are called so. */
static bool by_names(cli_parts *p) {
    p->kind = is_there(part_in(p->folder, "stage", 0)) ? "stage" : "rank";
    while (is_there(part_in(p->folder, p->kind, p->n)))
        p->n++;
    if (!p->n)
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0},
                 "the folder '%s' has no plan.json, stage0.pt2 or rank0.pt2: 'cfx split -o' "
                 "writes such folders", p->folder);
    return p->n > 0;
}

bool cli_parts_find(const char *folder, cli_parts *p) {
    *p = (cli_parts){.folder = folder};
    cfx_value plan = cfx_ok() ? read_plan(file_in(folder, "plan.json")) : cfx_bad();
    return cfx_ok() && (cfx_is_none(plan) ? by_names(p) : by_plan(p, plan)) && cfx_ok();
}

const char *cli_parts_file(const cli_parts *p, int i) {
    const char *path = part_in(p->folder, p->kind, i);
    cfx_value said = p->rows ? cfx_dict_get(cfx_as_dict(p->rows->items[i]), "hash") : cfx_none();
    uint64_t hash = 0;
    if (!cfx_file_hash(path, &hash))
        return NULL;
    if (said.tag != CFX_TAG_STR || !strcmp(cfx_text(said), hash_text(hash)))
        return path;
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "'%s' is not the file that plan.json beside it was written with: it is of another "
             "split, or was changed", path);
    return NULL;
}

bool cli_parts_agree(const cli_parts *p, cfx_group *g) {
    const char *plan = file_in(p->folder, "plan.json");
    uint64_t hash = 0;
    return (!p->rows || cfx_file_hash(plan, &hash)) &&
           cfx_group_agree(g, "plan.json", cfx__hash_mix(hash, (uint64_t)p->n));
}

bool cli_is_part(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *folder =
        slash ? cfx_text(cfx_string_value_n(path, (size_t)(slash - path + 1))) : ".";
    cli_parts p = {.folder = folder};
    cfx_value plan = read_plan(file_in(folder, "plan.json"));
    if (plan.tag != CFX_TAG_DICT || !by_plan(&p, plan)) {
        cfx_error_clear(); /* some other plan.json */
        return false;
    }
    bool is = false;
    for (int i = 0; i < p.n && !strcmp(p.kind, "rank"); i++)
        is |= !strcmp(name, cfx__text_format("rank%d.pt2", i));
    if (is && p.n > 1)
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "'%s' is the part of one rank, and every rank has another: mpirun -n %d cfx run "
                 "%s", path, p.n, folder);
    return is && p.n > 1;
}
