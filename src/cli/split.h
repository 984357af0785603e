/* What the files of cfx split share. */
#ifndef CFX__CLI_SPLIT_H
#define CFX__CLI_SPLIT_H

#include <cfx/group.h>

#include "look.h"

enum { CLI_SPLIT_SIZES = 16, CLI_SPLIT_BESIDE = 64 };

typedef struct cli_split {
    const char *model, *folder, *inputs, *machine;
    const char *sizes[CLI_SPLIT_SIZES]; /* --size s0=8 */
    int nsizes;
    int stages, tensor, batches, threads;
    int beside;         /* ranks that run at once while it is measured; 0: one */
    const char *memory;
    bool force, simulate, report, measure;
    cfx_program *program;
    cfx_value flat;     /* the caller's inputs; None until they are asked for */
} cli_split_job;

/* The caller's inputs, chosen once; false with an error. */
bool cli_split_inputs(cli_split_job *j);
/* Copies of them, a list: what runs may write to its inputs. */
cfx_value cli_split_copies(const cli_split_job *j);

/* Runs the stages one after the other and the whole beside them, and prints whether they give the
 * same. An exit code. (split_simulate.c) */
int cli_split_simulate_stages(cli_split_job *j, const cfx_stages *s);
/* Seconds of each node, by name, measured; NULL with an error. (split_measure.c) */
cfx_dict *cli_split_measure(cli_split_job *j);

/* cfx split --tensor; an exit code. (split_tensor.c) */
int cli_split_tensor(cli_split_job *j, cfx_stage_options o);

/* Prints what a machine of many ranks would make of the program. An exit code. (split_report.c) */
int cli_split_report(cli_split_job *j, cfx_stage_options o);

/* Writes programs as KIND0.pt2, KIND1.pt2, ... and `plan` as plan.json into the folder; `rows` of
 * the plan, one for each, are told the name and the hash of its file. An exit code.
 * (split_folder.c) */
int cli_split_write(const cli_split_job *j, const char *kind, cfx_program *const *programs, int n,
                    cfx_value plan, cfx_list *rows);

/* Such a folder, as ranks find it. */
typedef struct cli_parts {
    const char *folder;
    const char *kind;     /* "stage" of a pipeline, or "rank" of ranks that share layers */
    int n;                /* files, one for each rank */
    const cfx_list *rows; /* of plan.json; NULL: there is none, and names tell */
} cli_parts;

/* False, with an error, where the folder is none of cfx split's. */
bool cli_parts_find(const char *folder, cli_parts *p);
/* The path of one file, whose hash is the plan's; scope. NULL with an error. */
const char *cli_parts_file(const cli_parts *p, int i);
/* Whether all ranks have found the same plan; else an error on all of them. */
bool cli_parts_agree(const cli_parts *p, cfx_group *g);
/* Whether a file is one of a folder for ranks that share layers, so that it is no program for all
 * of them; with an error that says so. */
bool cli_is_part(const char *path);

#endif
