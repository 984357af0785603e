/* Paths through the library, for tests that let something run out on the way: each begins with a
 * file or a module and ends in a text, the same each time. */
#ifndef CFX_PATHS_H
#define CFX_PATHS_H

typedef struct path {
    const char *group, *name;
    const char *(*go)(const char *file); /* what it made, as text; scope. NULL after an error */
    const char *file;
} path;

extern const path paths[]; /* up to one without a name */

/* What a path may give where a plan gets no memory; NULL: what it gives. */
const char *paths_instead(const path *p);
/* Where what paths save goes: to be set before memory runs out. */
void paths_begin(void);

#endif
