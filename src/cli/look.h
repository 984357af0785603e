/* What subcommands say of values and programs; see look.c. */
#ifndef CFX__LOOK_H
#define CFX__LOOK_H

#include "cli.h"

#include <cfx/image.h>
#include <cfx/pack.h>

#include "../tensor/tensor.h"

/* "f32[3, 4]", "int 3", "(f32[2], f32[2])"; scope. */
const char *cli_brief(cfx_value v);

/* The path of the module that a node is of; "" where it has none, or is NULL; scope. */
const char *cli_module_of(const cfx_node *n);
/* "min 0  max 1 ..." of what is finite; "" where there are no numbers. Scope. */
const char *cli_stats_text(const cfx_tensor *t);
/* "12,345" and "1.2 MB"; scope. */
const char *cli_count(int64_t n);
const char *cli_bytes(int64_t n);
const char *cli_large(int64_t n); /* "1.2 G" */
/* Statistics as facts of a row. */
void cli_put_stats(cfx_dict *row, const cfx_stats *s);

/* ---- cfx show -------------------------------------------------------------------------------- */

/* The tensors of a file, or the one called so; returns an exit code. */
int cli_show_tensors(const char *path, const char *name, const char *glob);

/* ---- cfx opt, cfx rewrite -------------------------------------------------------------------- */

/* A new folder for files that a command is given, where TMPDIR says; scope. NULL, with an error. */
const char *cli_folder(void);
/* A path as one word of the shell; scope. */
const char *cli_quoted(const char *path);
/* The caller's inputs in flattened order: those of a file, or where that is NULL the program's own,
 * or made-up ones. False, with an error. */
bool cli_choose_inputs(cfx_program *p, const char *inputs, cfx_list *flat);
/* Runs the program of a file and what it became on such inputs, and prints the largest error of
 * each result. Returns an exit code: CLI_DIFFERS where one is beyond the tolerance of its dtype,
 * which is `least` at least. */
int cli_verify(const char *model, const char *inputs, const cfx_program *changed, double least);
/* cfx opt --extract SELECTOR and --reduce: the part is written to `out`. Return an exit code. */
int cli_extract(const char *model, const char *selector, cli_out *out);
int cli_join(const char *model, const char *other, const char *const *wires, int n, cli_out *out);
/* cfx opt --dynamic: n sizes, "in0.0=batch", become symbols. */
int cli_dynamic(const char *model, const char *inputs, const char *const *sizes, int n,
                cli_out *out);
/* cfx opt --weights and --lora (NULL: none): puts them into a program and says what did not fit;
 * with --force weights may be missing. False with an error. */
bool cli_put_weights(cfx_program *p, const char *weights, const char *lora, const char *alpha,
                     const cli_out *out);
int cli_reduce(const char *model, const char *inputs, const char *command, cli_out *out);

/* ---- cfx run --------------------------------------------------------------------------------- */

/* What became of the prepared file beside a program: a fact, words where it was not used as it is,
 * and with `all` a line of what was. (prepare.c) */
void cli_tell_prepared(const cfx_program *p, bool all);

/* Compares flattened results with the file of a reference and prints a line for each. Returns
 * whether all are within the tolerance of their dtype, `least` at least. `names` are the results'
 * own names. */
bool cli_expect(const cfx_list *results, const cfx_list *names, const cfx_dict *expected,
                double least);

/* Whether the word is the option, which names tensors: "F", "NAME=F" or "F:f32[3,4]", once or more
 * often. All of it is one text. */
bool cli_tensors(cli_words *w, const char *name, const char **spec);
/* Whether tensors may be written to a file of this name, NULL being none: .safetensors, .npy, or a
 * name that tells of no format. False, with an error. */
bool cli_tensors_savable(const char *path);
/* Writes tensors by their names, as the file's name tells; a .npy has room for one. */
bool cli_tensors_save(const char *path, const cfx_dict *tensors);
/* --image size=224,mean=...: how pictures among such files become tensors, which is set at once. */
bool cli_image(cli_words *w);
/* Whether that option was given. */
bool cli_image_was_said(void);
/* Whether pictures become tensors of three channels, which that option says. */
bool cli_image_is_coloured(void);
#define CLI_IMAGE_HELP                                                                             \
    "  --image HOW      how PNG and JPEG files become tensors, as torchvision does it:\n"         \
    "                   size=224,mean=0.485,0.456,0.406,std=0.229,0.224,0.225; also resize=256\n" \
    "                   (the shorter side first; none), channels=rgb|bgr|grey,\n"                 \
    "                   layout=nchw|nhwc|chw|hwc, dtype=f32|u8\n"
/* The tensors that such a text (NULL: none) names; scope. Those without a name are called
 * prefix0, prefix1. NULL, with an error. */
cfx_dict *cli_read_tensors(const char *spec, const char *prefix);
/* The one that is called so, or, by its number, prefix0 or arr_0, as NumPy does; None: there is
 * none. */
cfx_value cli_find_tensor(const cfx_dict *file, const char *name, const char *prefix, int64_t i);

/* What input or result number i of the caller's is called in the ONNX file that the program came
 * from, where its node could not be called so ("input.1"); else `name`. */
const char *cli_file_name(const cfx_program *p, bool input, int64_t i, const char *name);
/* Input i of a program, the k-th of the caller's, by either name or by its number; None: there is
 * none. */
cfx_value cli_find_input(const cfx_program *p, int i, int64_t k, const cfx_dict *file);

/* The values of all inputs of a program, as a tuple, the caller's from files of tensors (NULL:
 * none); scope. Bad, with an error, where the file does not fit. */
cfx_value cli_inputs(cfx_program *p, const char *path);
/* The caller's alone, in flattened order; false with the error. */
bool cli_read_inputs(const cfx_program *p, const char *path, cfx_list *flat);
/* The same from tensors by name, which `from` stands for in errors. */
bool cli_gather_inputs(const cfx_program *p, const char *from, const cfx_dict *tensors,
                       cfx_list *flat);
/* The values of all inputs, of the caller's in flattened order; scope. */
cfx_value cli_call_inputs(cfx_program *p, cfx_value flat);
/* The files of a folder in order of their names, hidden ones left out, as lines; NULL, with an
 * error, where it has none. Whether a path is a folder. Scope. */
const char *cli_folder_files(const char *path);
bool cli_is_folder(const char *path);

/* The same without a file: the samples that the program was saved with, or, where it has none or
 * `random` says so, made-up ones, the same each time. Says which on stderr. */
cfx_value cli_own_inputs(cfx_program *p, bool random);
/* Those of the caller alone, in flattened order. */
cfx_value cli_own_leaves(cfx_program *p, bool random);
/* The program's samples in flattened order; false where it has none. */
bool cli_sample_inputs(cfx_program *p, cfx_list *flat);

/* The caller's inputs in flattened order: those that a file has (as "in0", or by name), made-up
 * ones for the others. False, with an error, where it is not told what an input is. */
bool cli_make_inputs(const cfx_program *p, const cfx_dict *file, cfx_list *flat);

/* How far two tensors are from each other. */
typedef struct cli_difference {
    double error; /* the largest, INFINITY where one is finite and the other is not */
    double scale; /* the largest expected value */
    int64_t at;   /* where, in row-major order */
    double got, want;
    int64_t wrong;        /* how many differ at all */
    double signal, noise; /* sums of squares: of what is expected, of the errors */
} cli_difference;

/* False where dtypes or sizes are not comparable; tensors of different float dtypes are. */
bool cli_differ(const cfx_tensor *got, const cfx_tensor *want, cli_difference *d);
/* The share of the largest value that an error may be. */
double cli_tolerance(cfx_dtype d);
/* The signal above the noise in dB; INFINITY where there is none. */
double cli_decibels(const cli_difference *d);
/* The milliseconds that each of n runs takes. Errors are the library's. */
void cli_time_runs(cfx_program *p, cfx_args args, int n, double *ms);
/* Sorts them, and gives the one in the middle. */
double cli_median(double *ms, int n);

/* ---- cfx show -------------------------------------------------------------------------------- */

/* With costs where these are not NULL. */
struct cli_costs;
void cli_show_tree(const cfx_program *p, const struct cli_costs *costs);
/* Returns an exit code: trouble where no node is called so. */
int cli_show_node(const cfx_program *p, const char *name, bool json);
/* The shortest way from one node to another; CLI_DIFFERS where there is none. */
int cli_show_path(const cfx_program *p, const char *from, const char *to);
/* Nodes at most so many steps above and below one. */
int cli_show_around(const cfx_program *p, const char *name, int hops);

#endif
