/* Files that a test writes: in a folder of its own, where TMPDIR says, which is gone when the test
 * is done. */
#ifndef CFX_TEST_FILES_H
#define CFX_TEST_FILES_H

#include "test.h"

/* The path of a file in the folder, which is made at the first call; scope. */
const char *test_path(const char *name);
/* Removes the file, if it is there. */
void test_unlink(const char *name);
/* Removes the folder; a failed check where something is left in it, as a temporary file may be. */
void test_folder_done(void);
/* Removes the folder with the files in it; how many there were. */
int test_folder_clear(void);
/* The end of every test: done where there is a folder. */
void test_folder_end(void);

#endif
