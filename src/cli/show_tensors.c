/* cfx show of a file of tensors: a line each, those that fit a glob, or one of them. */
#include "look.h"

#include <cfx/watch.h>

static int64_t bytes_of(const cfx_tensor *t) { return t->numel * cfx_dtype_size(t->dtype); }

static cfx_value entry_of(const char *name, const cfx_tensor *t) {
    return cfx_dict_of("name", name, "dtype", cfx_dtype_name(t->dtype), "shape", cli_shape(t),
                       "bytes", bytes_of(t));
}

static void answer(const char *path, const cfx_dict *all) {
    cli_answer("file", cfx_string_value(path));
    for (int64_t i = 0; i < all->len; i++)
        cli_answer_row("tensors", entry_of(cfx_value_str(all->entries[i].key),
                                           cfx_as_tensor(all->entries[i].value)));
}

static void print_all(const char *path, const cfx_dict *all) {
    int64_t numbers = 0, bytes = 0;
    int width = 0;
    for (int64_t i = 0; i < all->len; i++) {
        const cfx_tensor *t = cfx_as_tensor(all->entries[i].value);
        int n = (int)strlen(cfx_value_str(all->entries[i].key));
        numbers += t->numel;
        bytes += bytes_of(t);
        width = n > width ? n : width;
    }
    width = width < 60 ? width : 60;
    cli_print("%s: %lld tensor%s, %lld number%s, %s\n", path, (long long)all->len,
              all->len == 1 ? "" : "s", (long long)numbers, numbers == 1 ? "" : "s",
              cli_bytes(bytes));
    for (int64_t i = 0; i < all->len; i++)
        CFX_SCOPE {
            const cfx_value t = all->entries[i].value;
            cli_print("  %-*s  %-20s  %s\n", width, cfx_value_str(all->entries[i].key),
                      cli_brief(t), cli_bytes(bytes_of(cfx_as_tensor(t))));
        }
}

static int print_one(const char *path, const cfx_dict *all, const char *name) {
    cli_nearest near = {0};
    cfx_value v = cfx_dict_get(all, name);
    for (int64_t i = 0; i < all->len; i++)
        cli_near(&near, name, cfx_text(all->entries[i].key));
    if (v.tag != CFX_TAG_TENSOR) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "'%s' has no tensor '%s'%s", path, name,
                 cli_meant(&near));
        return cli_trouble();
    }
    cfx_stats stats = {0};
    cfx_stats_add(&stats, cfx_as_tensor(v));
    cfx_value row = entry_of(name, cfx_as_tensor(v));
    cli_put_stats(cfx_as_dict(row), &stats);
    cli_answer_row("tensors", row);
    cli_print("%s: %s\n  %s\n", name, cli_brief(v), cli_stats_text(cfx_as_tensor(v)));
    cli_lines(cfx_tensor_str(cfx_as_tensor(v)));
    return CLI_DONE;
}

/* Those whose names fit a glob; an error where none does. */
static const cfx_dict *picked(const char *path, const cfx_dict *all, const char *glob) {
    cfx_dict *out = cfx_dict_new();
    cli_nearest near = {0};
    for (int64_t i = 0; i < all->len; i++) {
        const char *name = cfx_text(all->entries[i].key);
        cli_near(&near, glob, name);
        if (cfx__text_glob(glob, name))
            cfx_dict_put(out, all->entries[i].key, all->entries[i].value);
    }
    if (out->len)
        return out;
    cfx_fail(CFX_KEY_ERROR, (cfx_site){0}, "no tensor of '%s' matches '%s'%s", path, glob,
             cli_meant(&near));
    return NULL;
}

int cli_show_tensors(const char *path, const char *name, const char *glob) {
    const cfx_dict *all = cfx_tensors_read(path);
    if (all && glob)
        all = picked(path, all, glob);
    if (all && name)
        return print_one(path, all, name);
    if (all) {
        answer(path, all);
        print_all(path, all);
    }
    return cfx_ok() ? CLI_DONE : cli_trouble();
}
