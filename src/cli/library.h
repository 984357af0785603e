/* library: programs that were compiled to shared objects, for cfx run. */
#ifndef CLI_LIBRARY_H
#define CLI_LIBRARY_H

#include "cli.h"

/* Whether a name is that of a shared object. */
bool cli_is_library(const char *path);
/* Runs one on inputs by name, in0 and on: its results, a list; scope. Bad, with an error. The file
 * is code that runs in this process. */
cfx_value cli_library_run(const char *path, const cfx_dict *given);

#endif
