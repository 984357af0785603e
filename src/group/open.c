/* Opens MPI: searches libcfx_mpi.so beside the file that contains this code (the command, or
 * libcfx.so), in the folder cfx there and in the library folder of the same prefix, then where
 * the system looks. So the library needs no MPI until ranks are requested. */
#define _GNU_SOURCE /* dladdr */
#include "group.h"

#include <dlfcn.h>

/* Variables by which those who start ranks say how many there are: Open MPI, and the PMI of MPICH,
 * Slurm and others. */
static const char *const told[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"};

int cfx_mpi_ranks(void) {
    for (int i = 0; i < COUNT(told); i++) {
        const char *text = getenv(told[i]);
        const long n = text ? strtol(text, NULL, 10) : 0;
        if (n > 0 && n < INT32_MAX)
            return (int)n;
    }
    return 0;
}

/* The folder of this code, with its slash; scope. "" where it is not known. */
static const char *own_folder(void) {
    Dl_info info;
    if (!dladdr((const void *)(uintptr_t)cfx_mpi_ranks, &info) || !info.dli_fname)
        return "";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash ? cfx__text_format("%.*s/", (int)(slash - info.dli_fname), info.dli_fname) : "";
}

static void *open_library(void) {
    static const char name[] = "libcfx_mpi.so";
    void *found = NULL;
    CFX_SCOPE {
        const char *folder = own_folder();
        static const char *const beside[] = {"", "cfx/", "../" CFX_LIBDIR "/cfx/", "../"};
        for (int i = 0; i < COUNT(beside) && *folder && !found; i++)
            found = dlopen(cfx__text_format("%s%s%s", folder, beside[i], name),
                           RTLD_NOW | RTLD_GLOBAL);
        if (!found)
            found = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    }
    return found;
}

cfx_group *cfx_group_open_mpi(void) {
    char why[512] = "";
    void *library = cfx_ok() ? open_library() : NULL;
    if (!cfx_ok())
        return NULL;
    if (!library) {
        const char *said = dlerror();
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0},
                 "MPI cannot be used: %s (cfx builds libcfx_mpi.so where libopenmpi-dev is "
                 "installed)",
                 said ? said : "libcfx_mpi.so is not there");
        return NULL;
    }
    cfx__transport_open *open = (cfx__transport_open *)(uintptr_t)dlsym(library,
                                                                        "cfx_mpi_transport");
    cfx__transport *t = open ? open(CFX__TRANSPORT_VERSION, why, sizeof why) : NULL;
    if (!t) {
        cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "MPI cannot be used: %s",
                 *why ? why : "libcfx_mpi.so is not what it is called");
        return NULL;
    }
    return cfx__group_new(t);
}

void cfx_group_on_loss(cfx_group *g, cfx_loss_fn *fn, void *user) {
    if (!g)
        return;
    g->transport->user = user;
    g->transport->lost = fn;
}

bool cfx_group_end(cfx_group *g, const char *sentence) {
    if (!g || !g->transport->end)
        return false;
    const cfx_error *e = cfx_error_last();
    if (cfx_group_current() == g)
        cfx_set_group(NULL);
    bool well = g->transport->end(g->transport, sentence ? sentence : e ? e->message : NULL);
    if (!well && !sentence)
        cfx__group_fault(g);
    cfx_drop(g);
    return well;
}
