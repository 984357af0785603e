/* folders: programs that lie in folders, each with a model.pt2 and its inputs.safetensors, run by
 * an executor and held against the interpreter. */
#ifndef CFX_TEST_FOLDERS_H
#define CFX_TEST_FOLDERS_H

#include <cfx/run.h>

typedef struct {
    int agree, others; /* programs; those that the interpreter does not run */
} verdicts;

/* Each program in a folder of such; a check fails for one whose results are others. */
void folder_check(const cfx_executor *x, const char *path, verdicts *v);

#endif
