/* Files that a test writes: in a folder of its own, which has to be empty when it is done. */
#ifndef CFX_TEST_FILES_H
#define CFX_TEST_FILES_H

#include "test.h"

/* The path of a file in the folder, which is made at the first call; scope. */
const char *test_path(const char *name);
/* Removes the file, if it is there. */
void test_unlink(const char *name);
/* Removes the folder; a failed check where something is left in it, as a temporary file may be. */
void test_folder_done(void);

#endif
