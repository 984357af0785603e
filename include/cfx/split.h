/* Splitting graphs into sub-graphs and inlining them; extracting and joining programs. */
#ifndef CFX_SPLIT_H
#define CFX_SPLIT_H

#include <cfx/program.h>
#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How to split; zero means torch.fx's split_module(). */
typedef struct cfx_split_options {
    bool keep_original_order;     /* parts are called in the order they are first met */
    bool keep_original_node_name; /* nodes are called in a part as they are in the whole */
    bool number_inputs;           /* inputs of parts are arg_0, arg_1, not the values' names */
    const char *affix;            /* "pp": submod_pp_0; NULL: none */
    bool first_ready;             /* of parts that could be called next it is the first, not the
                                     last as in split_module() */
    cfx_value tags;               /* for cfx_split_by_tags: all tags, a list, in the order in which
                                     parts are called; None: in the order they are met */
    cfx_dict *names;              /* filled: path in the split module to the path before; or NULL */
} cfx_split_options;

/* Returns the number of a node's part. */
typedef int cfx_split_fn(cfx_node *n, void *user);

/* torch.fx's split_module(gm, gm, part_of): splits a GraphModule into parts, children submod_0,
 * submod_1, ..., each a GraphModule, called in an order that their values allow. Parameters are
 * read outside and passed to the parts. Modules and tensors are shared. A new module; scope.
 * Bad, with an error, where a part would need its own result. */
CFX_API cfx_module *cfx_split_module(cfx_module *gm, cfx_split_fn *part_of, void *user,
                                     cfx_split_options options);
/* torch.fx's split_by_tags(gm, tags): the same by the metadata "tag" of each node, a text, which
 * is the name of its part; parts are called in the order of their tags, as far as their values
 * allow. An error where a node has no tag, or one that is not listed. */
CFX_API cfx_module *cfx_split_by_tags(cfx_module *gm, cfx_split_options options);
/* The same by the module of each node ("nn_module_stack"), `depth` levels below the root: each
 * contiguous run of nodes of one module is a part named after it, "layers_0". */
CFX_API cfx_module *cfx_split_by_modules(cfx_module *gm, int depth, cfx_split_options options);

typedef enum cfx_stage_cost {
    CFX_STAGE_FLOPS, /* multiplications and additions */
    CFX_STAGE_BYTES  /* of parameters and results */
} cfx_stage_cost;

/* The same into at most n pipeline stages, minimising the cost of the most expensive. Shapes of
 * results must be known (cfx_shape_prop, or a program's). */
CFX_API cfx_module *cfx_split_stages(cfx_module *gm, int n, cfx_stage_cost cost,
                                     cfx_split_options options);

/* Whether a backend can run a node. */
typedef bool cfx_supports_fn(const cfx_node *n, void *user);
/* torch.fx's CapabilityBasedPartitioner: moves supported nodes into as few and large modules as
 * possible, fused_0, fused_1, ...; the other nodes stay. A group of one node is not made unless
 * `single`. A new module; scope. */
CFX_API cfx_module *cfx_module_partition(cfx_module *gm, cfx_supports_fn *supports, void *user,
                                         bool single);
/* How to partition; operators are lists of names as cfx_node_is takes them. */
typedef struct cfx_partition_options {
    bool single;              /* a group may be one node */
    bool trim;                /* what does not compute leaves a group that begins or ends with it:
                                 remove_bookend_non_compute_ops */
    bool attributes;          /* `supports` is asked of get_attr too: one that it takes is read in
                                 the group, where no other node reads it */
    cfx_value non_compute;    /* operators that do not count: a group of one that does is left
                                 alone. Items of several results never count */
    cfx_value allowed_single; /* operators that are a group alone */
} cfx_partition_options;
CFX_API cfx_module *cfx_module_partition_by(cfx_module *gm, cfx_supports_fn *supports, void *user,
                                            cfx_partition_options options);
/* torch.fx's fuse_by_partitions: moves groups chosen by the caller, a list of lists of nodes,
 * into modules prefix0, prefix1, ... ("fused_" where prefix is NULL) in graph order. A new
 * module; scope. Bad, with an error that names the node, where a node is in two groups or of
 * another graph, or a group would need its own result. */
CFX_API cfx_module *cfx_fuse_nodes(cfx_module *gm, cfx_value groups, const char *prefix);

/* torch.fx's get_source_partitions: the nodes of each call of a function ("linear",
 * "torch.nn.functional.linear") or of a module of a type ("Linear", "torch.nn.Linear"), by their
 * metadata ("source_fn_stack", "torch_fn", "nn_module_stack") or, without metadata, by what they
 * call. Maps each source in `wanted`, a list, to a list of dicts: "nodes", "source",
 * "input_nodes" (used from outside, except attributes), "output_nodes" (used outside), "params"
 * (attributes). Only those whose nodes all pass `filter` (NULL: all). Scope. Bad, with an error. */
CFX_API cfx_value cfx_source_partitions(const cfx_graph *g, cfx_value wanted,
                                        cfx_supports_fn *filter, void *user);
/* torch.fx's find_sequential_partitions: lists of such dicts, one for each of `types` ("Conv2d",
 * "ReLU"), in which each uses a result of the one before. A function equivalent to a module type
 * counts too. No type may occur twice. A list; scope. Bad, with an error. */
CFX_API cfx_value cfx_sequential_partitions(const cfx_graph *g, cfx_value types,
                                            cfx_supports_fn *filter, void *user);

/* The inverse: replaces calls (call_module or torch.ops.higher_order.invoke_subgraph) of the
 * child with that name, or of every GraphModule where NULL, by the nodes of its graph.
 * Attributes that these name are found below the child's path; a child that is no longer used is
 * removed. In place; returns the number of inlined calls, -1 with an error. */
CFX_API int cfx_module_inline(cfx_module *gm, const char *child);

/* torch.export.unflatten: restores the module hierarchy of a program from the "nn_module_stack"
 * of its nodes. The result is called like the program; its children are GraphModules under their
 * original names, with their nodes and copies of their tensors. The attribute "_ty" of each is
 * its original type. The inputs and outputs of a child are the values that cross its boundary,
 * except for modules listed in preserve_module_call_signature at export: those keep their
 * original signature, so that another module can replace them:
 *     cfx_module *m = cfx_program_unflatten(p);
 *     cfx_nn_add(m, "head", mine);
 * A second call that computes something else becomes a module of its own, "norm@1". Scope. Bad,
 * with an error. */
CFX_API cfx_module *cfx_program_unflatten(const cfx_program *p);
/* torch.export's _swap_modules: program.module() with some modules replaced by those of the
 * caller, a dict of path to module. Their signatures must have been preserved
 * (cfx_export_options). Scope. Bad, with an error that names the module, where its signature is
 * not known, or a value other than its result is used. */
CFX_API cfx_module *cfx_program_swap_modules(cfx_program *p, const cfx_dict *modules);

/* Makes a program of the nodes between `from` and `to`, both included. Values from outside
 * become inputs, except parameters, buffers and constants, which it keeps; its results are `to`.
 * Names are separated by commas; from NULL: the inputs of the program, to NULL: its results.
 * Scope; bad, with an error, where a node does not exist or nothing lies between. */
CFX_API cfx_program *cfx_program_extract(const cfx_program *p, const char *from, const char *to);

/* Joins two programs. `wires` (or NULL) connects inputs of b: its keys are names of inputs, or
 * "in0", "in1" in order; its values are "out0", "out1", results of a, or "in0", inputs of a.
 * Other inputs of b follow those of a; the results are those of a without a wire, then those of
 * b. Parameters keep their names where possible; dynamic sizes of the same name are one size.
 * Arguments and results are flat. Scope; bad, with an error, where a wire matches nothing. */
CFX_API cfx_program *cfx_program_join(const cfx_program *a, const cfx_program *b,
                                      const cfx_dict *wires);

/* ---- minimising ------------------------------------------------------------------------------ */

/* Whether a program fails on these inputs, a list in flattened order. The function may change or
 * run the program, which is not used again. */
typedef bool cfx_fails_fn(cfx_program *p, cfx_value inputs, void *user);
/* Fails if the program gives an error, or if the current executor (cfx_set_executor) and the
 * interpreter give different results. Ignores user. */
CFX_API bool cfx_executors_differ(cfx_program *p, cfx_value inputs, void *user);

/* Minimises a failing program by delta debugging: finds the fewest nodes, then the smallest
 * input sizes, that still fail. Values that the remaining nodes need from removed ones become
 * inputs; *reduced is set to the inputs that reproduce the failure. Scope; bad, with an error,
 * where the program does not fail, or its inputs do not match. */
CFX_API cfx_program *cfx_program_reduce(cfx_program *p, cfx_value inputs, cfx_fails_fn *fails,
                                        void *user, cfx_value *reduced);

#ifdef __cplusplus
}
#endif
#endif
