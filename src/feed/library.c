/* Libraries that are opened when they are first needed. They stay open: what was opened once costs
 * little the next time. */
#define _GNU_SOURCE /* dlinfo, memmem */
#include "feed.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

bool cfx__library_open(const cfx__library *l, int n, const char *const *names, void (**to)(void)) {
    void *handle = NULL;
    for (int i = 0; l->files[i] && !handle; i++)
        handle = dlopen(l->files[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "%s need the library %s, which is not installed (Debian: apt-get install %s)",
                 l->what, l->files[0], l->package);
        return false;
    }
    for (int i = 0; i < n; i++) {
        void *found = dlsym(handle, names[i]);
        if (!found) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "%s: the library %s has no function %s",
                     l->what, l->files[0], names[i]);
            return false;
        }
        memcpy(&to[i], &found, sizeof found); /* ISO C has no cast from data to functions */
    }
    return true;
}

/* ---- found, but not opened ------------------------------------------------------------------- */

/* Whether the loader's cache, which lists the libraries of all folders that the system is set up
 * for, has a library of this name. */
static bool is_in_cache(const char *file) {
    FILE *f = fopen("/etc/ld.so.cache", "rb");
    cfx__text all = {0};
    char piece[4096];
    for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;)
        cfx__text_add(&all, piece, n);
    if (f)
        fclose(f);
    /* names end with a zero, which the search includes; what is before one is a path or a zero */
    const char *at = all.len ? memmem(all.data, all.len, file, strlen(file) + 1) : NULL;
    const bool found = at && (at == all.data || at[-1] == 0 || at[-1] == '/');
    cfx__text_release(&all);
    return found;
}

/* Whether it is in a folder that the loader searches for this process: LD_LIBRARY_PATH, those that
 * the executable names, the system's. */
static bool is_in_folders(const char *file) {
    Dl_serinfo head, *all = NULL;
    void *self = dlopen(NULL, RTLD_LAZY);
    bool found = false;
    if (self && !dlinfo(self, RTLD_DI_SERINFOSIZE, &head) &&
        (all = cfx__alloc_optional(head.dls_size))) {
        all->dls_size = head.dls_size;
        all->dls_cnt = head.dls_cnt;
        for (unsigned i = 0; !dlinfo(self, RTLD_DI_SERINFO, all) && i < all->dls_cnt && !found; i++)
            found = !access(cfx__text_format("%s/%s", all->dls_serpath[i].dls_name, file), R_OK);
    }
    cfx__free(all);
    if (self)
        dlclose(self);
    return found;
}

bool cfx__library_is_found(const char *const *files) {
    bool found = false;
    for (int i = 0; files[i] && !found; i++)
        found = *files[i] == '/' ? !access(files[i], R_OK)
                                 : is_in_cache(files[i]) || is_in_folders(files[i]);
    return found;
}
