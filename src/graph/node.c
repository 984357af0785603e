/* Nodes. */
#include <cfx/graph.h>

#include "../nn/nn.h"

const char *cfx__node_name(const cfx_node *n) { return n ? n->name : "None"; }
