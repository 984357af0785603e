/* library: programs that were compiled to shared objects, for cfx run. */
#ifndef CLI_LIBRARY_H
#define CLI_LIBRARY_H

#include "cli.h"

/* Whether a name is that of a shared object. */
bool cli_is_library(const char *path);
/* Runs one on inputs by name, in0 and on: its results, a list; scope. Bad, with an error. The file
 * is code that runs in this process. */
cfx_value cli_library_run(const char *path, const cfx_dict *given);
/* The same for an object of several programs, of which one is called `symbol`. */
cfx_value cli_library_run_one(const char *path, const char *symbol, const cfx_dict *given);
/* Runs the cc on the path, which is to make the file `to`; words end in NULL. False, with an error.
 * What it says goes where words do. */
bool cli_cc(const char *const *words, const char *to);

#endif
