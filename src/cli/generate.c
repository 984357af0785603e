/* cfx run --generate: a language model goes on with a text, always by the token it thinks most
 * likely. Start at cli_generation_begin; next and take are asked in turn, by a loop here or by a
 * pipeline of ranks. */
#include "generate.h"

#include <cfx/ops.h>

#include <math.h>
#include <string.h>

/* ---- what the program takes ------------------------------------------------------------------ */

static bool is_ids(const cfx_result *r, int most) {
    return r->kind == CFX_RESULT_TENSOR && r->ndim >= 1 && r->ndim <= most &&
           (r->dtype == CFX_I64 || r->dtype == CFX_I32);
}

/* A size that is a number; -1: it varies. */
static int64_t size_of(const cfx_result *r, int dim) {
    cfx_value v = cfx_result_size(r, dim);
    return v.tag == CFX_TAG_INT ? cfx_integer(v) : -1;
}

static bool refuse(const char *why) {
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "--generate needs a program with an input of tokens (one, or a dynamic number), "
             "optionally a second one of their positions, and scores as result: %s", why);
    return false;
}

/* Which inputs are tokens and places, and how many tokens go at once. */
static bool look_at(cli_generation *g, const cfx_program *p) {
    cfx_result takes[2] = {0};
    int n = 0;
    for (int i = 0; i < p->ninputs; i++) {
        if (p->inputs[i].kind != CFX_IN_USER)
            continue;
        const cfx_node *node = cfx_graph_find(p->module->graph, p->inputs[i].name);
        if (n == 2 || !node)
            return refuse("this one has more inputs");
        takes[n++] = cfx_node_result(node);
    }
    if (!n || !is_ids(&takes[0], 2))
        return refuse("the first input of this one is not a row of integers");
    const int last = takes[0].ndim - 1;
    const int64_t rows = last ? size_of(&takes[0], 0) : 1, wide = size_of(&takes[0], last);
    if (rows > 1 || wide > 1 || !wide)
        return refuse(cfx__text_format("this one has tokens of the fixed size %lld x %lld",
                                       (long long)rows,
                                       (long long)wide));
    if (n == 2 && !is_ids(&takes[1], 2))
        return refuse("the second input of this one is not a row of integers");
    g->ndim = takes[0].ndim;
    g->dtype = takes[0].dtype;
    g->places = n == 2;
    g->places_ndim = takes[1].ndim;
    g->places_dtype = takes[1].dtype;
    g->keeps = g->places || wide == 1;
    g->single = wide == 1;
    return true;
}

/* ---- the text -------------------------------------------------------------------------------- */

static bool add_ids(cli_generation *g, const cfx_tensor *t) {
    if (cfx_failed(t))
        return false;
    if ((t->dtype != CFX_I64 && t->dtype != CFX_I32) || t->numel < 1 ||
        (t->ndim && t->shape[t->ndim - 1] != t->numel)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "a text to go on with is one row of tokens, integers, not %s",
                 cli_brief(cfx_tensor_value((cfx_tensor *)t)));
        return false;
    }
    for (int64_t i = 0; i < t->numel; i++)
        VEC_PUSH(g->ids, cfx__int64_of(cfx_tensor_get(t, i)));
    g->given = g->ids.len;
    return true;
}

static bool read_text(cli_generation *g, const cli_given *from) {
    if (from->ntexts > 1) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "--generate goes on with one --text, not %d",
                 from->ntexts);
        return false;
    }
    if (from->tokenizer) {
        cfx_tokenizer *t = cfx_tokenizer_open(from->tokenizer);
        g->tokenizer = cfx_failed(t) ? NULL : cfx_keep(t);
        return g->tokenizer && add_ids(g, cfx_tokenizer_encode(t, from->texts[0], true));
    }
    cfx_dict *file = from->inputs ? cli_read_tensors(from->inputs, "in") : NULL;
    if (cfx_ok() && (!file || !file->len))
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "which text? --inputs F has its tokens as in0, or --text and --tokenizer");
    if (!cfx_ok())
        return false;
    const cfx_value *first = cfx_dict_find(file, cfx_string_value("in0"));
    const cfx_value v = first ? *first : file->entries[0].value;
    return v.tag == CFX_TAG_TENSOR && add_ids(g, cfx_as_tensor(v));
}

bool cli_generation_begin(cli_generation *g, const cfx_program *p, const cli_given *from,
                          int tokens) {
    *g = (cli_generation){.tokens = tokens};
    return look_at(g, p) && read_text(g, from);
}

void cli_generation_again(cli_generation *g) {
    g->ids.len = g->given;
    g->seen = 0;
}

void cli_generation_end(cli_generation *g) {
    VEC_FREE(g->ids);
    cfx_drop(g->tokenizer);
}

/* ---- in turn --------------------------------------------------------------------------------- */

static size_t wanted(const cli_generation *g) { return g->given + (size_t)g->tokens; }

static cfx_tensor *row(cfx_dtype dtype, int ndim, const int64_t *from, int64_t n) {
    const int64_t shape[] = {1, n};
    cfx_tensor *t = cfx_tensor_new(CFX_I64, ndim, ndim == 2 ? shape : shape + 1, from);
    return dtype == CFX_I64 ? t : cfx_to(t, dtype);
}

cfx_value cli_generation_next(void *user) {
    cli_generation *g = user;
    if (g->ids.len >= wanted(g))
        return cfx_none();
    const size_t from = g->keeps ? g->seen : 0, to = g->single ? from + 1 : g->ids.len;
    cfx_value args = cfx_list_value(0, NULL);
    cfx_list_append(cfx_as_list(args),
                    cfx_tensor_value(row(g->dtype, g->ndim, g->ids.data + from,
                                         (int64_t)(to - from))));
    if (g->places) {
        VEC(int64_t) at = {0};
        for (size_t i = from; i < to; i++)
            VEC_PUSH(at, (int64_t)i);
        cfx_list_append(cfx_as_list(args),
                        cfx_tensor_value(row(g->places_dtype, g->places_ndim, at.data,
                                             (int64_t)(to - from))));
        VEC_FREE(at);
    }
    g->seen = to;
    return args;
}

bool cli_generation_take(cfx_value result, void *user) {
    cli_generation *g = user;
    if (g->seen < g->ids.len) /* the text that was given goes on */
        return true;
    cfx_list *leaves = cfx_as_list(cfx_list_value(0, NULL));
    cfx_tree_flatten(result, leaves);
    const cfx_tensor *t = leaves->len && leaves->items[0].tag == CFX_TAG_TENSOR
                              ? cfx_as_tensor(leaves->items[0]) : NULL;
    if (!t || !t->ndim || !t->numel || !cfx__dtype_is_float((cfx_dtype)t->dtype))
        return refuse("the result of this one is not scores of tokens");
    const int64_t words = t->shape[t->ndim - 1];
    int64_t best = 0;
    double most = -INFINITY;
    for (int64_t i = 0; i < words; i++) {
        const double score = cfx_tensor_get(t, t->numel - words + i);
        if (isnan(score)) {
            cfx_fail(CFX_RUNTIME_ERROR, (cfx_site){0}, "the score of token %lld is no number, "
                     "after %zu tokens", (long long)i, g->ids.len);
            return false;
        }
        if (score > most)
            best = i, most = score;
    }
    VEC_PUSH(g->ids, best);
    return true;
}

cfx_value cli_generation_made(const cli_generation *g) {
    return cfx_tensor_value(row(CFX_I64, 1, g->ids.data + g->given,
                                (int64_t)(g->ids.len - g->given)));
}

void cli_generation_print(const cli_generation *g) {
    if (!g->tokenizer)
        return;
    const char *text = cfx_tokenizer_decode(
        g->tokenizer, row(CFX_I64, 1, g->ids.data, (int64_t)g->ids.len), true);
    cli_lines(text);
    cli_answer("text", cfx_string_value(text));
}

bool cli_generation_run(cli_generation *g, cfx_session *s, cfx_program *p) {
    bool going = true;
    while (going && cfx_ok()) CFX_SCOPE {
        cfx_value args = cli_generation_next(g);
        going = args.tag == CFX_TAG_LIST;
        if (going) {
            cfx_value result = cfx_session_run_from(
                (cfx_site){0}, s, p,
                (cfx_args){(int)cfx_as_list(args)->len, cfx_as_list(args)->items, NULL});
            going = !cfx_is_bad(result) && cli_generation_take(result, g);
        }
    }
    return cfx_ok();
}
