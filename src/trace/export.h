/* The result of an export: a graph and its signature, from which the run room makes a program. */
#ifndef CFX__EXPORT_H
#define CFX__EXPORT_H

#include <cfx/export.h>

#include "probe.h"

/* Sizes and numbers that two branches give, in the order in which they are asked for. */
typedef struct cfx__joints {
    VEC(bool) apart; /* they are not the same in both, in some world */
    bool late;       /* one was found so after world 0: it is to be recorded again */
} cfx__joints;

/* A number that was read from a tensor, or how many of its elements are true: it is the same where
 * that is read again, as in PyTorch. */
typedef struct cfx__read {
    const cfx_graph *graph; /* in a branch it is another one */
    const cfx_node *node;   /* what the tensor was */
    uint32_t version;
    bool count;
    cfx_value value;    /* of a number, marked */
    const char *symbol; /* of a count */
} cfx__read;

typedef struct cfx__export {
    cfx__recorder recorder; /* first */
    cfx__marks marks;
    bool unlucky;    /* a number that is data is one here that forward checks it is not */
    bool renamed;    /* a check compares with something else than the worlds before say */
    int checked;     /* checks of numbers that are data, so far */
    int data_reals;  /* symbols for floats that are data, so far: zuf0, ... */
    cfx_module *root;
    cfx__dims *dims; /* whose sizes are those of world k */
    int k;
    int data_sizes;  /* symbols for sizes that depend on data, so far: u0, u1, ... */
    int sized;       /* the first of them that no node is known to give */
    VEC(cfx__read) read;       /* what data was read already, and what it is called since */
    const cfx_tensor *counted; /* whose elements a call counts; NULL: no one's alone */
    bool cut;        /* how long the slice is that is recorded is data, */
    int64_t whole;   /* and no more than this */
    int joined;      /* sizes and numbers of two branches that became one, so far */
    cfx__joints *joints;
    cfx__nn_layer layer;
    VEC(cfx_input_spec) inputs;   /* in the order of placeholders */
    VEC(cfx_output_spec) outputs;
    cfx_dict *known;    /* address of a tensor of the module's to the fake one for it; counted */
    cfx_dict *held;     /* that of a tensor which is a plain attribute to its path; counted */
    cfx_dict *paths;    /* address of a module to its path; counted */
    cfx_list *kept;     /* tensors whose addresses must stay theirs; counted */
    cfx__arena arena;   /* texts of the signature */
    cfx_dict *state, *constants, *ranges; /* of the program; counted */
    cfx_value in_spec, out_spec;          /* counted */
    cfx_value guards;                     /* a list of texts, or None; counted */
    cfx_value probed;                     /* at which sizes forward was tried, or None; counted */
    cfx_value names;                      /* a list: what forward calls its arguments; counted */
    cfx_node *first_user; /* constants are put before it; NULL: there is none */
    int nconstants;       /* inputs before the user's */
    int lifted;           /* constants without a name so far */
    VEC(struct cfx__export_frame {
        cfx_module *module;
        const char *path;
        cfx_site at;
        int64_t number; /* of its call, from 0 on */
    })
    stack; /* modules that are running, outermost first */
    cfx_dict *entered;  /* path of a module to how often it was called; counted */
    cfx_value preserve; /* paths of modules whose signature is to be preserved: a list, or None */
    VEC(cfx_module_call) calls; /* of those; values are counted */
    cfx_mode mode;      /* which sees what functions are called */
    cfx_dict *counts;   /* "function.relu" to how often it was; counted */
    cfx_value torch_fn; /* ("relu_1", "function.relu"), the last one; counted */
    struct {
        const char *name;
        char *text;
    } file;               /* the source file that was read last */
} cfx__export;

/* What is to be exported. */
typedef struct cfx__request {
    cfx_module *module;
    cfx_value args, kwargs;
    cfx_value preserve; /* see cfx__export */
    cfx__dims dims;
    cfx__joints joints;
    cfx__export *first, *other; /* worlds 0 and 1 to CFX__WORLDS - 1 */
    bool merged;                /* first is the program of all worlds that were recorded */
    bool renamed;               /* a trial found that checks are others than it seemed */
    bool alike;                 /* what was tried last has the same calls */
    int way;                    /* how sizes near the example are chosen: number of a way */
    int first_way;              /* one that gave a program, counted from 1; 0: none yet */
    bool guessed;               /* that program has expressions that were guessed at */
    int64_t step;               /* the first step to try */
    bool stuck;                 /* no expression explains more worlds */
    const char *unexplained;    /* why recordings could not be merged, at last; scope. NULL: none */
    const char *broken_for;     /* the same when the last name of the caller's gave way */
    size_t nbroken;             /* names that had given way when worlds were last chosen anew */
    cfx__relations compared;   /* what forward asked, as the program knows it */
    cfx__probe probe;
} cfx__request;

/* What argument number i is called; scope. */
const char *cfx__export_argument(const cfx__signature *s, int64_t i);
/* Which sizes may vary, as `dynamic` says it, where that is said of tensors, or by other inputs
 * (shapes.c); scope. An error where it does not fit the arguments. */
cfx_value cfx__shapes_collected(cfx_module *m, cfx_value args, cfx_value kwargs, cfx_value shapes);
cfx_value cfx__shapes_inferred(cfx_module *m, cfx_value args, cfx_value kwargs, cfx_value inputs);
/* Notes which sizes the caller says may vary; an error where that does not fit the arguments. */
void cfx__export_note_dims(cfx__request *r, cfx_value dynamic);
/* One recording, in world k; false with an error. The caller ends it in any case. */
bool cfx__export_record(cfx__export *e, cfx__request *r, int k);

/* Runs the module and records, in several worlds where sizes vary (worlds.h); false with an error.
 * The caller ends it in any case. draft: what decides where data would; NULL: that is an error. */
bool cfx__export_run(cfx__export *e, cfx_module *m, cfx_value args, cfx_value kwargs,
                     cfx_value dynamic, cfx_value preserve, int64_t probe_ms,
                     struct cfx__draft *draft);
void cfx__export_end(cfx__export *e);

/* Where nodes come from (levels.c): begins to keep track of it, false with an error, and ends. */
bool cfx__levels_begin(cfx__export *e, cfx_value preserve);
void cfx__levels_end(cfx__export *e);
/* The metadata of a new node: modules around the call, source lines, the function. */
void cfx__export_note(cfx__recorder *r, cfx_site at, cfx_node *n);
/* Whether preserved modules took and gave the same plain values in another world; else an error. */
bool cfx__levels_agree(const cfx__export *e, const cfx__export *other);

/* The fake tensor that stands for a tensor of the module's; v itself where none does. */
cfx_value cfx__export_known(const cfx__export *e, cfx_value v);
/* What the modules of a model held before its forward ran (assigned.c). */
struct cfx__held {
    cfx_module *module;
    char *path;
    cfx_dict *buffers;
    cfx_dict *others[2]; /* parameters and plain attributes */
};
typedef VEC(struct cfx__held) cfx__before;
void cfx__assigned_begin(cfx__before *b, cfx_module *root);
/* Gives the modules back what they held, and records what was assigned to buffers as writes;
 * results that are what one was become copies. With an error where a tensor that was assigned to
 * another attribute would be lost. */
void cfx__assigned_end(cfx__export *e, cfx__before *b, cfx_list *results);
/* What the recorder asks of sizes and numbers that only running can tell (unknown.c). */
int64_t cfx__unknown_size(cfx__recorder *r);
int64_t cfx__unknown_part(cfx__recorder *r, int64_t n);
void cfx__unknown_sized(cfx__recorder *r, cfx_node *n);
cfx_value cfx__unknown_number(cfx__recorder *r, cfx_value like, cfx_node *n);
cfx_value cfx__unknown_either(cfx__recorder *r, int64_t a, int64_t b);
/* What the call that was refused in the recording asks of sizes that are data: kept with the worlds
 * as implied. False where nothing tells; the error is as it was. */
bool cfx__implied_find(cfx__request *r, const cfx__export *e);
/* Assumes what is implied of a new symbol and those that are there. */
void cfx__implied_assume(cfx__worlds *w, const char *symbol);
/* Whether some size that C looked at is another with other data, which is an error then, unless a
 * draft lets it be what it is in the example. */
bool cfx__marks_differ(cfx__export *e, const cfx__export *other);
/* Makes graphs of their own of what ran in other modes than the export (regions.c); false with an
 * error. */
bool cfx__regions_make(cfx__export *e);
/* Adds the place of a call, with its source line, to a stack trace; nothing where it has none. */
void cfx__export_put_frame(cfx__export *e, cfx__text *out, cfx_site at);

#endif
