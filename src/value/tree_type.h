/* Types of the caller's as generated code spells them. */
#ifndef CFX__TREE_TYPE_H
#define CFX__TREE_TYPE_H

#include <cfx/tree.h>

/* The type that code calls so: "mine_Point" is mine.Point; NULL: none. */
const cfx_tree_type *cfx__tree_type_spelled(const char *name, size_t len);

#endif
