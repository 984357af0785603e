/* The command `cfx`: finds the subcommand and runs it. */
#include "cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/base.h"
#include "../base/spare.h"

static const cli_command *const commands[] = {
    &cli_show,     &cli_run, &cli_compare, &cli_convert,  &cli_compile,
    &cli_decompose, &cli_opt, &cli_rewrite, &cli_quantize, &cli_split,
    &cli_prepare,  &cli_draw, &cli_bench,   &cli_ops};

int cli_trouble(void) {
    char *words = NULL;
    size_t len = 0;
    FILE *report = open_memstream(&words, &len);
    if (!cfx_ok())
        cli_answer("error", cfx_string_value(cli_streams_named(cfx_error_last()->message)));
    if (report)
        fputs("cfx: ", report); /* all is one write, for ranks share a terminal */
    const bool fine = !report || cfx_report(report);
    if (report)
        fclose(report);
    fputs(fine || !words ? "cfx: something went wrong\n" : cli_streams_named(words), stderr);
    free(words);
    return CLI_TROUBLE;
}

/* What is wrong, in words, which are the answer too; the caller frees the text. */
static cfx__text worded(const char *fmt, va_list ap) {
    cfx__text t = {0};
    cfx__text_vshow(&t, fmt, ap);
    cli_answer("error", cfx_string_value(t.data));
    return t;
}

int cli_wrong(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__text t = worded(fmt, ap);
    va_end(ap);
    cli_say("cfx: %s\n", t.data);
    cfx__text_release(&t);
    return CLI_TROUBLE;
}

int cli_usage(const cli_command *command, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    cfx__text t = worded(fmt, ap);
    va_end(ap);
    cli_say("cfx %s: %s; see 'cfx %s --help'\n", command->name, t.data, command->name);
    cfx__text_release(&t);
    return CLI_TROUBLE;
}

/* Where it was asked for it is a result, else words. */
static int help(bool asked) {
    void (*print)(const char *fmt, ...) = asked ? cli_print : cli_say;
    print("cfx: PyTorch programs without Python\n\nusage: cfx COMMAND ...\n\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        print("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    print("\n'cfx help COMMAND' shows the options of each.\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        CFX_SCOPE
        cli_answer_row("commands", cfx_dict_of("name", commands[i]->name, "summary",
                                               commands[i]->summary));
    return asked ? CLI_DONE : CLI_TROUBLE;
}

static int help_of(const cli_command *command) {
    CFX_SCOPE {
        const char *words =
            cfx__text_format("%s%s%s", command->help, cli_answer_help, cli_limits_help);
        cli_answer("help", cfx_string_value(words));
        if (!cli_answers())
            fputs(words, stdout);
    }
    return CLI_DONE;
}

/* NULL, with words, where there is none. */
static const cli_command *find(const char *name) {
    cli_nearest near = {0};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (!strcmp(name, commands[i]->name))
            return commands[i];
        cli_near(&near, name, commands[i]->name);
    }
    cli_wrong("no command '%s'%s; see 'cfx --help'", name, cli_meant(&near));
    return NULL;
}

/* A file that is mapped was cut short by somebody else: its pages are no more. */
static void on_lost_page(int signal) {
    static const char words[] =
        "cfx: a file became shorter while it was in use; nothing was written\n";
    (void)signal;
    (void)!write(2, words, sizeof words - 1);
    _exit(CLI_TROUBLE);
}

static void on_no_memory(void) {
    static const char words[] = "cfx: MemoryError: no memory is left to go on with, nor to say for "
                                "what; nothing was written\n";
    (void)!write(2, words, sizeof words - 1);
    _exit(CLI_TROUBLE);
}

static bool is_help(const char *word) {
    return !strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help");
}

static bool is_form(const char *word) { return !strcmp(word, "--json") || !strcmp(word, "--tsv"); }

/* What an answer calls the command. */
static const char *called(int argc, char **argv) {
    if (argc < 2 || is_form(argv[1]))
        return "";
    return is_help(argv[1]) ? "help" : !strcmp(argv[1], "--version") ? "version" : argv[1];
}

static int run(int argc, char **argv) {
    if (argc < 2)
        return help(false);
    const bool asks = is_help(argv[1]);
    if (asks && (argc == 2 || is_form(argv[2])))
        return help(true);
    if (is_form(argv[1]))
        return cli_wrong("the command comes first: 'cfx %s %s'; see 'cfx --help'",
                         argc > 2 ? argv[2] : "COMMAND", argv[1]);
    if (!strcmp(argv[1], "--version")) {
        cli_print_version();
        return CLI_DONE;
    }
    const cli_command *command = find(argv[asks ? 2 : 1]);
    if (!command)
        return CLI_TROUBLE;
    if (asks)
        return help_of(command);
    for (int k = 2; k < argc; k++)
        if (!strcmp(argv[k], "--help"))
            return help_of(command);
    int code = command->run(argc - 1, argv + 1);
    return cfx_ok() ? code : cli_trouble(); /* nobody told it */
}

int main(int argc, char **argv) {
    void (*on_pipe)(int) = signal(SIGPIPE, SIG_IGN); /* what is written is told to be lost, */
    signal(SIGXFSZ, SIG_IGN);                        /* also to a file that may not grow */
    signal(SIGBUS, on_lost_page);
    cfx__memory_spent(on_no_memory);
    cli_output_begin();
    cli_limits_begin();
    cli_answer_begin(argc, argv);
    int code = cli_streams_begin(argc, argv) ? run(argc, argv) : CLI_TROUBLE;
    cli_answer_end(called(argc, argv), code);
    code = cli_streams_end(cli_output_end(code));
    cfx_finish(stderr);
    if (cli_output_closed()) { /* ends as it would have at once, now that files are whole */
        signal(SIGPIPE, on_pipe);
        raise(SIGPIPE);
    }
    return code;
}
