/* folders: programs that lie in folders, each with a model.pt2 and its inputs.safetensors, run by
 * an executor and held against the interpreter. */
#ifndef CFX_TEST_FOLDERS_H
#define CFX_TEST_FOLDERS_H

#include <cfx/run.h>

typedef struct {
    int agree, others; /* programs; those that the interpreter does not run */
} verdicts;

/* Calls fn with each folder in `path` whose name begins with `prefix` and that has a model. */
void folder_each(const char *path, const char *prefix,
                 void (*fn)(const char *folder, void *user), void *user);

/* Each program in a folder of such; a check fails for one whose results are others. */
void folder_check(const cfx_executor *x, const char *path, verdicts *v);

/* Runs each program in a folder whose name begins with `prefix` so many times, one after the other,
 * by plans and by the interpreter; a check fails where results are others, or where it was planned
 * more than once: what a program keeps in its buffers is no reason to plan it anew. Returns how
 * many there are. */
int folder_steps(const char *path, const char *prefix, int steps);

/* One more of the folders that CFX_PROGRAMS names, behind `*at`, which is NULL at first; NULL after
 * the last. Lives as long as the frame. */
const char *folder_given(const char **at);

#endif
