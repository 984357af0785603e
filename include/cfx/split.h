/* Splitting: a graph becomes a graph of graphs, and back; part of a program becomes a program. */
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

/* The number of the part that a node belongs to. */
typedef int cfx_split_fn(cfx_node *n, void *user);

/* The GraphModule split into parts, as torch.fx's split_module(gm, gm, part_of) does it: children
 * submod_0, submod_1, ..., each a GraphModule, called in an order that their values allow.
 * Parameters are read outside and given to the parts. Modules and tensors are shared. A new module;
 * scope. Bad, with an error, where a part would need its own result. */
CFX_API cfx_module *cfx_split_module(cfx_module *gm, cfx_split_fn *part_of, void *user,
                                     cfx_split_options options);
/* The same by the tag that each node has in its metadata ("tag", a text), which is the name of its
 * part, as torch.fx's split_by_tags(gm, tags): parts are called in the order of their tags, as far
 * as their values allow. An error where a node has none, or another than those listed. */
CFX_API cfx_module *cfx_split_by_tags(cfx_module *gm, cfx_split_options options);
/* The same by the module that nodes come from ("nn_module_stack"), `depth` levels below the root:
 * each stretch of nodes of one module is a part called after it, "layers_0". */
CFX_API cfx_module *cfx_split_by_modules(cfx_module *gm, int depth, cfx_split_options options);

typedef enum cfx_stage_cost {
    CFX_STAGE_FLOPS, /* multiplications and additions */
    CFX_STAGE_BYTES  /* of parameters and results */
} cfx_stage_cost;

/* The same into at most n stages one after the other, for pipelines, such that the most expensive
 * costs as little as it can. Results have to be known (cfx_shape_prop, or a program's). */
CFX_API cfx_module *cfx_split_stages(cfx_module *gm, int n, cfx_stage_cost cost,
                                     cfx_split_options options);

/* Whether a backend can run a node. */
typedef bool cfx_supports_fn(const cfx_node *n, void *user);
/* torch.fx's CapabilityBasedPartitioner: nodes that are supported become as few and large modules
 * as they can, fused_0, fused_1, ...; the rest stays as it is. A group of one node is left alone
 * unless `single`. A new module; scope. */
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
/* torch.fx's fuse_by_partitions: groups that the caller has chosen, a list of lists of nodes,
 * become modules called prefix0, prefix1, ... ("fused_" where prefix is NULL) in the order of the
 * graph. A new module; scope. Bad, with an error that names the node, where one is in two groups or
 * of another graph, or a group would need its own result. */
CFX_API cfx_module *cfx_fuse_nodes(cfx_module *gm, cfx_value groups, const char *prefix);

/* torch.fx's get_source_partitions: the nodes that each call of a function ("linear",
 * "torch.nn.functional.linear") or of a module of a type ("Linear", "torch.nn.Linear") became, by
 * their metadata ("source_fn_stack", "torch_fn", "nn_module_stack"); nodes that have none come from
 * what they call. A dict of each source in `wanted`, a list, that was found to a list of dicts:
 * "nodes", "source", "input_nodes" (used from outside, but for attributes), "output_nodes" (used
 * outside), "params" (attributes). Only those all of whose nodes pass `filter`, or all where NULL.
 * Scope. Bad, with an error. */
CFX_API cfx_value cfx_source_partitions(const cfx_graph *g, cfx_value wanted,
                                        cfx_supports_fn *filter, void *user);
/* find_sequential_partitions: lists of such dicts, one for each of `types` ("Conv2d", "ReLU"),
 * in which each uses a result of the one before. A function that does what a module of the type
 * does counts too. No type may come twice. A list; scope. Bad, with an error. */
CFX_API cfx_value cfx_sequential_partitions(const cfx_graph *g, cfx_value types,
                                            cfx_supports_fn *filter, void *user);

/* The reverse: the graph of the child called so, or of each GraphModule that is called where NULL,
 * takes the place of the calls, call_module or torch.ops.higher_order.invoke_subgraph. What it
 * names is then found below the child's path; a child that nothing names any more is removed. In
 * place; how many calls were inlined, -1 with an error. */
CFX_API int cfx_module_inline(cfx_module *gm, const char *child);

/* The modules that a program was exported from, put together again by the "nn_module_stack" of its
 * nodes: torch.export.unflatten. A module that is called like the program, whose children are
 * GraphModules under the names they had, each with the nodes that it ran and copies of its tensors.
 * "_ty", an attribute of each, is the type that it was exported from. What a child takes and gives
 * is what its nodes need and others use; that of a module named in preserve_module_call_signature
 * when it was exported is as it was, so that another module may be put in its place:
 *     cfx_module *m = cfx_program_unflatten(p);
 *     cfx_nn_add(m, "head", mine);
 * A second call that does something else is a module of its own, "norm@1", beside the first. Scope.
 * Bad, with an error. */
CFX_API cfx_module *cfx_program_unflatten(const cfx_program *p);
/* program.module() in which modules of the caller's, a dict of path to module, take the place of
 * those at these paths: torch.export's _swap_modules. The signatures of these have to be preserved
 * (cfx_export_options). Scope. Bad, with an error that names the module, where its signature is not
 * known, or something else than its result is used. */
CFX_API cfx_module *cfx_program_swap_modules(cfx_program *p, const cfx_dict *modules);

/* The part of a program from some nodes to others as a program of its own: what lies between, those
 * nodes included. Its inputs are the values that come from outside but for parameters, buffers and
 * constants, which it keeps; its results are `to`. Names are separated by commas; from NULL: the
 * inputs of the program, to NULL: its results. Scope; bad, with an error, where there is no such
 * node or nothing between. */
CFX_API cfx_program *cfx_program_extract(const cfx_program *p, const char *from, const char *to);

/* Two programs as one. `wires` (or NULL) says what inputs of b are given: its keys are names of
 * inputs, or "in0", "in1" in order; its values "out0", "out1", results of a, or "in0", inputs of a.
 * The other inputs of b come after those of a; the results are those of a that no wire takes, then
 * those of b. Parameters keep their names where they can; sizes that vary and have one name are one
 * size. Arguments and results are flat. Scope; bad, with an error, where a wire fits nothing. */
CFX_API cfx_program *cfx_program_join(const cfx_program *a, const cfx_program *b,
                                      const cfx_dict *wires);

/* ---- minimising ------------------------------------------------------------------------------ */

/* Whether a program fails on the caller's inputs, a list in flattened order. The program may be
 * changed or run; it is not used again. */
typedef bool cfx_fails_fn(cfx_program *p, cfx_value inputs, void *user);
/* Fails where the program gives an error, or where the executor chosen (cfx_set_executor) and the
 * interpreter give different results. user is not looked at. */
CFX_API bool cfx_executors_differ(cfx_program *p, cfx_value inputs, void *user);

/* The fewest nodes of a program, and then the smallest sizes of its inputs, that still fail: delta
 * debugging. What the nodes that are left need of the others is given as the program computed it;
 * *reduced is set to those values, the inputs to see it fail again. Scope; bad, with an error,
 * where the program does not fail, or its inputs do not fit. */
CFX_API cfx_program *cfx_program_reduce(cfx_program *p, cfx_value inputs, cfx_fails_fn *fails,
                                        void *user, cfx_value *reduced);

#ifdef __cplusplus
}
#endif
#endif
