/* Statistics of activations, by ready-made hooks.
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

/* Statistics of one or more tensors. All but the counts are over finite numbers. */
typedef struct cfx_stats {
    int64_t tensors, count, zeros, nans, infs;
    double mean, deviation; /* of the whole, as for a population */
    double min, max;
    double low, high;       /* the range of the histogram: that of the first tensor */
    int64_t histogram[CFX_STATS_BINS]; /* what lies outside is in the bins at the ends */
} cfx_stats;

/* Adds the numbers of t; one that is fake or traced adds nothing. */
CFX_API void cfx_stats_add(cfx_stats *s, const cfx_tensor *t);

/* Statistics by module: a reference-counted object that keeps its hooks. For one thread, like
 * the module. */
typedef struct cfx_watch cfx_watch;

/* Watches every module without children below m whose path matches a pattern ("*": all,
 * "layers.?.relu"); scope. Every tensor that such a module returns from now on is added to its
 * statistics. Modules of a program (cfx_program_module) are identified by the metadata of its
 * nodes. NULL, with an error, where none matches. */
CFX_API cfx_watch *cfx_watch_new_from(cfx_site at, cfx_module *m, const char *pattern);
#define cfx_watch_new(m, pattern) cfx_watch_new_from(CFX_HERE, m, pattern)
/* The number of modules watched; the path of number i, borrowed; its statistics, borrowed. NULL
 * past the end. */
CFX_API int cfx_watch_count(const cfx_watch *w);
CFX_API const char *cfx_watch_path(const cfx_watch *w, int i);
CFX_API const cfx_stats *cfx_watch_stats(const cfx_watch *w, int i);
/* A table, a line for each module. */
CFX_API void cfx_watch_print(const cfx_watch *w, FILE *out);
/* Removes the hooks; the statistics stay. */
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
