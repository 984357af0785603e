/* Answers for other programs: with --json what a command found is one object on stdout in place
 * of its words, with --tsv its tables. Commands note facts beside what they print; see
 * docs/JSON.md. */
#include "cli.h"

#include <math.h>
#include <string.h>

#include "../tensor/tensor.h"
#include "../value/json.h"

static struct {
    bool json, tsv, left; /* left: to another process */
    cfx_dict *facts; /* counted; NULL: none yet */
} answer;

const char cli_answer_help[] =
    "\nMachine-readable output, with any command (docs/JSON.md):\n"
    "  --json           prints the result as one JSON object\n"
    "  --tsv            prints its tables as tab-separated lines\n";

void cli_answer_begin(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        answer.json |= !strcmp(argv[i], "--json");
        answer.tsv |= !strcmp(argv[i], "--tsv");
    }
}

bool cli_answer_option(cli_words *w) {
    bool known;
    return cli_flag(w, "--json", &known) || cli_flag(w, "--tsv", &known);
}

bool cli_answers(void) { return answer.json || answer.tsv; }
bool cli_answers_json(void) { return answer.json; }

void cli_answer_as_json(void) { answer.json = true; }

void cli_answer_leave(void) { answer.left = true; }


cfx_value cli_fact(double x) { return isfinite(x) ? cfx_float(x) : cfx_none(); }

/* What was made while an error was waiting is no value: the error is the answer then. */
void cli_answer(const char *key, cfx_value v) {
    if (!cli_answers() || cfx_is_bad(v))
        return;
    if (!answer.facts)
        answer.facts = cfx_keep(cfx_dict_new());
    cfx_dict_set(answer.facts, key, v);
}

void cli_answer_row(const char *table, cfx_value row) {
    cfx_value rows = answer.facts ? cfx_dict_get(answer.facts, table) : cfx_none();
    if (!cli_answers() || cfx_is_bad(row))
        return;
    if (rows.tag != CFX_TAG_LIST)
        cli_answer(table, rows = cfx_list_value(0, NULL));
    cfx_list_append(cfx_as_list(rows), row);
}

void cli_answer_object(const char *json) {
    const cfx_value all = json ? cfx__json_parse(json, strlen(json), "what was found") : cfx_none();
    for (int64_t i = 0; all.tag == CFX_TAG_DICT && i < cfx_as_dict(all)->len; i++)
        cli_answer(cfx_text(cfx_as_dict(all)->entries[i].key), cfx_as_dict(all)->entries[i].value);
}

cfx_value cli_shape(const cfx_tensor *t) {
    cfx_value shape = cfx_list_value(0, NULL);
    for (int i = 0; i < t->ndim; i++)
        cfx_list_append(cfx_as_list(shape), cfx_int(t->shape[i]));
    return shape;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* What stands in one column: JSON, but texts without quotes, and nothing for null. */
static void put_cell(cfx__text *out, cfx_value v) {
    if (v.tag == CFX_TAG_STR)
        for (const char *p = cfx_text(v); *p; p++)
            cfx__text_putc(out, *p == '\t' || *p == '\n' ? ' ' : *p);
    else if (!cfx_is_none(v))
        cfx__json_value(out, v);
}

static void put_table(cfx__text *out, const cfx_list *rows) {
    const cfx_dict *first = cfx_as_dict(rows->items[0]);
    for (int64_t k = 0; k < first->len; k++)
        cfx__text_printf(out, "%s%s", k ? "\t" : "", cfx_text(first->entries[k].key));
    cfx__text_putc(out, '\n');
    for (int64_t i = 0; i < rows->len; i++) {
        for (int64_t k = 0; k < first->len; k++) {
            const cfx_value *v = cfx_dict_find(cfx_as_dict(rows->items[i]), first->entries[k].key);
            cfx__text_puts(out, k ? "\t" : "");
            put_cell(out, v ? *v : cfx_none());
        }
        cfx__text_putc(out, '\n');
    }
}

/* All tables, an empty line between two. */
static void put_tables(cfx__text *out) {
    for (int64_t i = 0; answer.facts && i < answer.facts->len; i++) {
        cfx_value v = answer.facts->entries[i].value;
        if (v.tag != CFX_TAG_LIST || !cfx_as_list(v)->len ||
            cfx_as_list(v)->items[0].tag != CFX_TAG_DICT)
            continue;
        cfx__text_puts(out, out->len ? "\n" : "");
        put_table(out, cfx_as_list(v));
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void put_object(cfx__text *out, const char *command, int code) {
    cfx_value all = cfx_dict_of("command", command, "exit", code);
    for (int64_t i = 0; answer.facts && i < answer.facts->len; i++)
        cfx_dict_put(cfx_as_dict(all), answer.facts->entries[i].key,
                     answer.facts->entries[i].value);
    cfx__json_value(out, all);
    cfx__text_putc(out, '\n');
}

void cli_answer_end(const char *command, int code) {
    size_t mark = cfx_scope_open();
    cfx__text out = {0};
    const bool asked = cli_answers();
    if (answer.tsv)
        put_tables(&out);
    else if (answer.json)
        put_object(&out, command, code);
    answer.json = answer.tsv = false; /* from here on words are printed again */
    if (asked && out.len && !answer.left)
        fputs(cli_streams_named(out.data), stdout);
    cfx__text_release(&out);
    cfx_drop(answer.facts);
    answer.facts = NULL;
    cfx_scope_close(mark);
}
