/* Watching activations: statistics of what modules give, from hooks that come ready-made.
 *
 *     cfx_watch *w = cfx_watch_new(model, "*");
 *     cfx_forward(model, x);
 *     cfx_watch_print(w, stdout); */
#ifndef CFX_WATCH_H
#define CFX_WATCH_H

#include <cfx/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CFX_STATS_BINS = 16 };

/* The numbers of a tensor, or of several added up. All but the counts are of finite numbers. */
typedef struct cfx_stats {
    int64_t tensors, count, zeros, nans, infs;
    double mean, deviation; /* of the whole, as for a population */
    double min, max;
    double low, high;       /* the range of the histogram: that of the first tensor */
    int64_t histogram[CFX_STATS_BINS]; /* what lies outside is in the bins at the ends */
} cfx_stats;

/* Adds the numbers of t; one that is fake or traced adds nothing. */
CFX_API void cfx_stats_add(cfx_stats *s, const cfx_tensor *t);

/* Statistics by module: a counted object that keeps its hooks. For one thread, as the module. */
typedef struct cfx_watch cfx_watch;

/* Watches every module below m whose path fits a pattern ("*": all, "layers.?.relu") and that has
 * no children; scope. Each tensor that such a module gives from now on is added to its statistics.
 * The modules of a program (cfx_program_module) are known by its nodes: what leaves one is counted.
 * An error, and NULL, where none fits. */
CFX_API cfx_watch *cfx_watch_new_from(cfx_site at, cfx_module *m, const char *pattern);
#define cfx_watch_new(m, pattern) cfx_watch_new_from(CFX_HERE, m, pattern)
/* The number of modules watched; the path of number i, borrowed; its statistics, borrowed. NULL
 * past the end. */
CFX_API int cfx_watch_count(const cfx_watch *w);
CFX_API const char *cfx_watch_path(const cfx_watch *w, int i);
CFX_API const cfx_stats *cfx_watch_stats(const cfx_watch *w, int i);
/* A table, a line for each module. */
CFX_API void cfx_watch_print(const cfx_watch *w, FILE *out);
/* Takes the hooks off; what was seen stays. */
CFX_API void cfx_watch_stop(cfx_watch *w);

/* ---- calls ----------------------------------------------------------------------------------- */

/* The arguments that a dispatch mode is given, which are all, by position, as PyTorch shows them:
 * those at the end that are the schema's own defaults left out, and arguments that have to be named
 * by name. Scope. */
CFX_API cfx_args cfx_op_args_shown(cfx_op *op, cfx_args a);

#ifdef __cplusplus
}
#endif
#endif
