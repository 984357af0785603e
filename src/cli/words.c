/* The words of a command line: options with and without a value, and the rest. A subcommand asks of
 * each word whether it is this or that; the first mistake is told once and ends the walk. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include <cfx/cuda.h>

#include "../value/value.h"

void cli_near(cli_nearest *n, const char *word, const char *name) {
    const size_t len = strlen(word);
    const int most = n->name ? n->far - 1 : (int)len / 3 + (len > 1);
    int far = name ? cfx__text_distance(word, name, most) : most + 1;
    if (name && len > 2 && !strncmp(word, name, len) && far > 1)
        far = 1; /* it begins so */
    if (far <= most)
        *n = (cli_nearest){name, far};
}

const char *cli_meant(const cli_nearest *n) {
    return n->name ? cfx__text_format(" (did you mean '%s'?)", n->name) : "";
}

int cli_one_of(const cli_command *command, const char *option, const char *word,
               const char *const *names, int n) {
    cfx__text all = {0};
    cli_nearest near = {0};
    for (int i = 0; i < n; i++) {
        if (!strcmp(word, names[i])) {
            cfx__text_release(&all);
            return i;
        }
        cli_near(&near, word, names[i]);
        cfx__text_printf(&all, "%s%s", !i ? "" : i == n - 1 ? " or " : ", ", names[i]);
    }
    cli_usage(command, "%s is %s, not '%s'%s", option, cfx__text_take(&all), word,
              cli_meant(&near));
    return -1;
}

/* The part of an option before its value. */
static void near_option(cli_words *w, const char *name) {
    const char *word = w->argv[w->at];
    if (word[0] == '-')
        cli_near(&w->near, cfx__text_format("%.*s", (int)strcspn(word, "="), word), name);
}

bool cli_more(cli_words *w) {
    w->near = (cli_nearest){0};
    while (!w->wrong && ++w->at < w->argc)
        if (!cli_limits(w) && !cli_answer_option(w))
            return true;
    return false;
}

bool cli_flag(cli_words *w, const char *name, bool *flag) {
    if (strcmp(w->argv[w->at], name)) {
        near_option(w, name);
        return false;
    }
    *flag = true;
    return true;
}

bool cli_value(cli_words *w, const char *name, const char **value) {
    const char *word = w->argv[w->at];
    size_t n = strlen(name);
    if (strncmp(word, name, n) || (word[n] && word[n] != '=')) {
        near_option(w, name);
        return false;
    }
    if (word[n] == '=') {
        *value = word + n + 1;
    } else if (w->at + 1 < w->argc) {
        *value = w->argv[++w->at];
    } else {
        cli_usage(w->command, "%s needs a value", name);
        w->wrong = true;
    }
    return true;
}

bool cli_number(cli_words *w, const char *name, int *number) {
    const char *text = NULL;
    if (!cli_value(w, name, &text))
        return false;
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : 0;
    if (text && (end == text || *end || n < 1 || n > 1000000000)) {
        cli_usage(w->command, "%s wants a number from 1 on, not '%s'", name, text);
        w->wrong = true;
    }
    *number = (int)n;
    return true;
}

bool cli_precision(cli_words *w) {
    static const char *const names[] = {"f32", "bf16", "f16", "tf32"}; /* by precision */
    const char *name = NULL;
    if (!cli_value(w, "--precision", &name))
        return false;
    const int i = name ? cli_one_of(w->command, "--precision", name, names, COUNT(names)) : -1;
    if (i >= 0)
        cfx_set_precision((cfx_precision)i);
    w->wrong |= i < 0;
    return true;
}

bool cli_executor_of(cli_words *w, const char *name, const cfx_executor **x) {
    cfx_device d;
    *x = NULL;
    if (!cfx__device_parse(name, &d) || d.type == CFX_META) {
        cli_usage(w->command, "a device is cpu, cuda or cuda:N, not '%s'", name);
        return false;
    }
    if (d.type != CFX_CUDA)
        return true;
    *x = cfx_cuda_executor(d.index);
    if (!*x)
        cli_trouble();
    return *x != NULL;
}

bool cli_device(cli_words *w) {
    const char *name = NULL;
    const cfx_executor *x = NULL;
    if (!cli_value(w, "--device", &name))
        return false;
    if (!name || !cli_executor_of(w, name, &x))
        w->wrong = true;
    else if (x)
        cfx_set_executor(x);
    return true;
}

bool cli_go_to_device(cfx_program *p) {
    const cfx_executor *x = cfx_set_executor(NULL);
    cfx_set_executor(x);
    return !x || strncmp(x->name, "cuda", 4) != 0 || cfx_program_to(p, x->name);
}

void cli_rest(cli_words *w, const char **argument) {
    const char *word = w->argv[w->at];
    if (word[0] == '-' && word[1])
        cli_usage(w->command, "unknown option '%s'%s", word, cli_meant(&w->near));
    else if (*argument)
        cli_usage(w->command, "one argument too many: '%s'", word);
    else {
        *argument = word;
        return;
    }
    w->wrong = true;
}
