/* cli: the command `cfx`. main.c finds the subcommand; each is one file.
 *
 * Invariant: results go to stdout, words to stderr; the exit code is 0 done or same, 1 differs or a
 * check failed, 2 trouble. */
#ifndef CFX__CLI_H
#define CFX__CLI_H

#include <stdarg.h>

#include <cfx.h>

enum { CLI_DONE = 0, CLI_DIFFERS = 1, CLI_TROUBLE = 2 };

typedef struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name */
    const char *summary;               /* one line */
    const char *help;                  /* what --help prints */
} cli_command;

extern const cli_command cli_bench, cli_compare, cli_compile, cli_convert, cli_decompose, cli_draw,
    cli_ops, cli_opt, cli_prepare, cli_quantize, cli_rewrite, cli_run, cli_show, cli_split;

/* What cfx --version prints. */
void cli_print_version(void);

/* ---- words ----------------------------------------------------------------------------------- */

/* Names that a word may have meant. */
typedef struct cli_nearest {
    const char *name; /* the nearest so far; NULL: none is near */
    int far;
} cli_nearest;

/* Whether `name` is what `word` meant, letters aside; NULL is no name. */
void cli_near(cli_nearest *n, const char *word, const char *name);
/* " (did you mean 'show'?)", or "" where nothing is near; scope. */
const char *cli_meant(const cli_nearest *n);

/* The number of an option's word in a list of names; -1, with a message that has the nearest. */
int cli_one_of(const cli_command *command, const char *option, const char *word,
               const char *const *names, int n);

/* A walk over the words of a subcommand:
 *     cli_words w = {argc, argv, .command = &cli_run};
 *     while (cli_more(&w))
 *         if (!cli_flag(&w, "--stats", &stats) && !cli_value(&w, "--save", &save))
 *             cli_rest(&w, &model);
 *     if (w.wrong)
 *         return CLI_TROUBLE; */
typedef struct cli_words {
    int argc;
    char **argv;
    int at;
    const cli_command *command;
    bool wrong; /* a mistake has been told */
    cli_nearest near; /* the option that the word is nearest to */
} cli_words;

bool cli_more(cli_words *w); /* limits, which every subcommand takes, are set on the way */
/* Whether the word is the option; what it is set to goes to the last argument. "--save F" and
 * "--save=F" are the same. */
bool cli_flag(cli_words *w, const char *name, bool *flag);
bool cli_value(cli_words *w, const char *name, const char **value);
bool cli_number(cli_words *w, const char *name, int *number); /* from 1 on */
/* --precision f32|bf16|f16, which is set at once. */
bool cli_precision(cli_words *w);
/* --device cpu|cuda[:N], whose executor is chosen at once. */
bool cli_device(cli_words *w);
/* What the program writes to goes where it runs; false, with an error. */
bool cli_go_to_device(cfx_program *p);
/* What runs on a device: NULL for the CPU. False, told, where there is no such. */
bool cli_executor_of(cli_words *w, const char *name, const cfx_executor **x);
/* Takes the word as the argument that is no option; a mistake when there is one already. */
void cli_rest(cli_words *w, const char **argument);

/* ---- programs that are written --------------------------------------------------------------- */

/* -o FILE, where a program goes, a .pt2 or a .fx; with --force whatever is wrong with it. */
typedef struct cli_out {
    const char *path;
    bool force;
    bool told; /* problems have been printed */
} cli_out;
bool cli_program_out(cli_words *w, cli_out *out);
/* What --help prints of both. */
#define CLI_OUT_HELP                                                                               \
    "  -o OUT           the file to write: .pt2, or .fx for text\n"                                \
    "  --force          writes the program in spite of problems, which are listed as in\n"         \
    "                   'cfx show --check'; without it a program with problems is not written\n"
/* Opens a program that is to be changed and written. Its problems are printed, and are an error
 * without --force. */
cfx_program *cli_read(const char *path, cli_out *out);
/* Writes a program; its problems are printed, and it is not written then without --force. Returns
 * the exit code. */
int cli_write(const cfx_program *p, const cli_out *out);
/* Notes for --json that a program, or what was made of it, is in a file. */
void cli_wrote(const char *path, const cfx_program *p);
/* Prints what is wrong with a program: by its own dialect, or by the one named alone. Returns the
 * exit code. */
int cli_show_problems(const cfx_program *p, const char *path, const char *dialect);
/* Says which operators of a program are not known, on stderr: it can be looked at, not run. */
void cli_tell_unknown(const cfx_program *p, const char *path);

/* ---- limits ---------------------------------------------------------------------------------- */

extern const char cli_limits_help[]; /* what --help prints of them */
/* Before all: no more memory than the machine has, which would end the process otherwise. */
void cli_limits_begin(void);
/* Whether the word is a limit, which is set at once. */
bool cli_limits(cli_words *w);

/* ---- answers for machines -------------------------------------------------------------------- */

extern const char cli_answer_help[]; /* what --help prints of --json and --tsv */
/* Before all words are walked through, for mistakes are answered too. */
void cli_answer_begin(int argc, char **argv);
/* Whether the word is one of them, which every subcommand takes. */
bool cli_answer_option(cli_words *w);
/* Whether facts are wanted in place of words; as JSON. What is printed meanwhile is not seen. */
bool cli_answers(void);
bool cli_answers_json(void);
void cli_answer_as_json(void); /* as --json */
void cli_answer_leave(void); /* another process answers: of ranks the first */
/* The keys of an object that is JSON already. */
void cli_answer_object(const char *json);
/* Notes a fact, or a row of a table: a dict of the same keys in each. */
void cli_answer(const char *key, cfx_value v);
void cli_answer_row(const char *table, cfx_value row);
/* A number; None where it is not finite. The sizes of a tensor. Scope. */
cfx_value cli_fact(double x);
cfx_value cli_shape(const cfx_tensor *t);
/* Prints the facts. */
void cli_answer_end(const char *command, int code);

/* ---- output ---------------------------------------------------------------------------------- */

/* From here on stdout holds no characters that a terminal would obey: what is printed may come from
 * a file. */
void cli_output_begin(void);
/* Results, to stdout, and words, to stderr: printf, but what %s brings stays on its line, since it
 * may come from a file. Nothing else is used to print; for a text of several lines there is
 * cli_lines, which ends the last one. */
void cli_print(const char *fmt, ...) CFX_PRINTF(1, 2);
void cli_lines(const char *text);
void cli_say(const char *fmt, ...) CFX_PRINTF(1, 2);
/* What is printed from here on stands back on a terminal, or no more. */
void cli_dim(bool on);
/* Words go to stderr from here on: a file goes to stdout. */
void cli_output_aside(void);
/* Writes what is left. Returns the exit code; another, with a sentence, where output was lost. */
int cli_output_end(int code);
/* Whether nobody reads what stdout is any more; a file that goes there may find out, too. */
bool cli_output_closed(void);
void cli_output_close(void);

/* Puts files in the place of each "-" among the words, where a file stands: stdin for what is read,
 * stdout for what is written. False, with words, where that cannot be. */
bool cli_streams_begin(int argc, char **argv);
/* A text in which the files that stand for stdin and stdout are called so; scope. */
const char *cli_streams_named(const char *text);
/* Writes what goes to stdout. Returns the exit code. */
int cli_streams_end(int code);

/* ---- progress -------------------------------------------------------------------------------- */

/* A bar on stderr, for work that takes longer than a second; only where stderr is a terminal. What
 * was there before is replaced. */
void cli_progress(const char *what, int64_t done, int64_t all);
/* Takes it away. */
void cli_progress_end(void);

/* ---- trouble --------------------------------------------------------------------------------- */

/* Prints the recorded error and says where to find help. Returns CLI_TROUBLE. */
int cli_trouble(void);
/* Prints a sentence of which no error is recorded. Returns CLI_TROUBLE. */
int cli_wrong(const char *fmt, ...) CFX_PRINTF(1, 2);
/* Prints a sentence about wrong usage. Returns CLI_TROUBLE. */
int cli_usage(const cli_command *command, const char *fmt, ...) CFX_PRINTF(2, 3);


#endif
