/* What the files of cfx split share. */
#ifndef CFX__CLI_SPLIT_H
#define CFX__CLI_SPLIT_H

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

/* Writes programs as NAME0.pt2, NAME1.pt2, ... and `plan` as plan.json into the folder. An exit
 * code. */
int cli_split_write(const cli_split_job *j, const char *name, cfx_program *const *programs, int n,
                    cfx_value plan);

#endif
