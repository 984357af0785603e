/* Libraries that are opened when they are first needed. They stay open: what was opened once costs
 * little the next time. */
#include "feed.h"

#include <dlfcn.h>

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
