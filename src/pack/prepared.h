/* prepared: packed weights in a file beside the model's. */
#ifndef CFX__PREPARED_H
#define CFX__PREPARED_H

#include <cfx/program.h>

/* Lets the tensors of a program that was opened from `path` have the forms of the file beside it,
 * where there is one and it may be used. No error: what is wrong is noted, and told by
 * cfx_program_prepared. */
void cfx__prepared_find(cfx_program *p, const char *path);

#endif
