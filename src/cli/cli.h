/* cli: the command `cfx`. main.c finds the subcommand; each is one file.
 *
 * Invariant: results go to stdout, words to stderr; the exit code is 0 done or same, 1 differs or a
 * check failed, 2 trouble. */
#ifndef CFX__CLI_H
#define CFX__CLI_H

#include <cfx.h>

enum { CLI_DONE = 0, CLI_DIFFERS = 1, CLI_TROUBLE = 2 };

typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
    const char *summary;               /* one line */
    const char *help;                  /* what --help prints */
} cli_command;

extern const cli_command cli_ops;

/* Prints the recorded error and says where to find help. Returns CLI_TROUBLE. */
int cli_trouble(void);
/* Prints a sentence about wrong usage. Returns CLI_TROUBLE. */
int cli_usage(const cli_command *command, const char *fmt, ...) CFX_PRINTF(2, 3);

/* Replays DIR/calls.jsonl (see cfx ops --help). Returns an exit code. */
int cli_check(const char *dir, const char *pattern);

#endif
