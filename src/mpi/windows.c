/* What windows.h says. */
#include "windows.h"

#include <string.h>

enum {
    WINDOW = 4 << 20, /* bytes of a rank that others see, for collectives, */
    MAILS = 24 << 20, /* and those of all ranks behind them */
    MOST = 8,         /* ranks that have such: the memory is that of /dev/shm */
    PAGE = 4096
};

static char *windows[MOST]; /* there is one MPI in a process */

void cfx__windows_open(MPI_Comm all, cfx__transport *t, MPI_Win *window) {
    MPI_Comm here = MPI_COMM_NULL;
    int n = 0;
    void *own = NULL;
    *window = MPI_WIN_NULL;
    if (t->size < 2 || t->size > MOST ||
        MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, t->rank, MPI_INFO_NULL, &here) !=
            MPI_SUCCESS)
        return;
    MPI_Comm_set_errhandler(here, MPI_ERRORS_RETURN);
    MPI_Comm_size(here, &n);
    const MPI_Aint each = WINDOW + MAILS / t->size / PAGE * PAGE;
    bool whole = n == t->size && MPI_Win_allocate_shared(each, 1, MPI_INFO_NULL, here, &own,
                                                         window) == MPI_SUCCESS;
    for (int r = 0; r < t->size && whole; r++) {
        MPI_Aint bytes = 0;
        int unit = 0;
        whole = MPI_Win_shared_query(*window, r, &bytes, &unit, &windows[r]) == MPI_SUCCESS &&
                bytes >= each;
    }
    if (whole)
        memset(windows[t->rank] + WINDOW, 0, PAGE); /* where the mail counts */
    MPI_Comm_free(&here);
    /* all of them or none: who has no window could not read those of others */
    int mine = whole, all_have = 0;
    MPI_Allreduce(&mine, &all_have, 1, MPI_INT, MPI_MIN, all);
    t->windows = all_have ? windows : NULL;
    t->window = WINDOW;
    t->mail = (size_t)each - WINDOW;
}
