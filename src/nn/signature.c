/* Signatures: "x, y : int = 2, *args, **kwargs -> torch.Tensor" to parameters, and the binding of
 * arguments to them with Python's rules and words. */
#include "nn.h"

#include "../value/cursor.h"

#include <ctype.h>

static const char *read_name(cfx__cursor *r) {
    cfx__cursor_skip(r);
    const char *start = r->p;
    while (isalnum((unsigned char)*r->p) || *r->p == '_')
        r->p++;
    if (r->p == start || isdigit((unsigned char)*start)) {
        r->p = start;
        cfx__cursor_fail(r, "expected a name");
        return "";
    }
    return cfx__arena_copy(r->arena, start, (size_t)(r->p - start));
}

/* An annotation: up to a comma, an = or the arrow outside of brackets. */
static const char *read_type(cfx__cursor *r) {
    cfx__cursor_skip(r);
    const char *start = r->p;
    int depth = 0;
    for (; *r->p; r->p++) {
        if (*r->p == '[' || *r->p == '(')
            depth++;
        else if (*r->p == ']' || *r->p == ')')
            depth--;
        else if (!depth && (*r->p == ',' || *r->p == '=' || !strncmp(r->p, "->", 2)))
            break;
    }
    const char *end = r->p;
    while (end > start && end[-1] == ' ')
        end--;
    if (end == start || depth)
        cfx__cursor_fail(r, "expected a type");
    return cfx__arena_copy(r->arena, start, (size_t)(end - start));
}

static void read_param(cfx__cursor *r, const cfx__signature *s, cfx__signature_param *p) {
    p->name = read_name(r);
    if (r->failed)
        return;
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->params[i].name, p->name)) {
            cfx__cursor_fail(r, "duplicate argument in function definition");
            return;
        }
    if (cfx__cursor_eat(r, ":"))
        p->type = read_type(r);
    if (!r->failed && cfx__cursor_eat(r, "=")) {
        p->has_default = true;
        cfx__cursor_skip(r);
        if (p->kind == CFX__VAR_ARGS || p->kind == CFX__VAR_KEYWORDS)
            cfx__cursor_fail(r, "a parameter with a star cannot have a default");
        else if (cfx__value_literal(&r->p, &p->fallback))
            cfx_value_keep(p->fallback);
        else
            p->fallback = cfx_none(), cfx__cursor_fail(r, "expected a Python literal");
    }
}

static void count(cfx__signature *s) {
    for (int i = 0; i < s->n; i++) {
        s->npositional += s->params[i].kind == CFX__POSITIONAL;
        s->nrequired += s->params[i].kind == CFX__POSITIONAL && !s->params[i].has_default;
        s->has_keyword_only |= s->params[i].kind == CFX__KEYWORD_ONLY;
    }
}

static void read_params(cfx__cursor *r, cfx__signature *s) {
    VEC(cfx__signature_param) params = {0};
    bool star = false, defaults = false;
    cfx__cursor_skip(r);
    while (!r->failed && *r->p && strncmp(r->p, "->", 2)) {
        cfx__signature_param p = {.kind = star ? CFX__KEYWORD_ONLY : CFX__POSITIONAL};
        if (params.len && params.data[params.len - 1].kind == CFX__VAR_KEYWORDS) {
            cfx__cursor_fail(r, "nothing may follow a parameter with two stars");
            break;
        }
        if (cfx__cursor_eat(r, "**")) {
            p.kind = CFX__VAR_KEYWORDS;
        } else if (cfx__cursor_eat(r, "*")) {
            if (star)
                cfx__cursor_fail(r, "only one star is allowed");
            star = true;
            cfx__cursor_skip(r);
            if (*r->p == ',') {
                r->p++;
                cfx__cursor_skip(r);
                continue; /* a bare star: keyword-only parameters follow */
            }
            p.kind = CFX__VAR_ARGS;
        }
        s->params = params.data;
        s->n = (int)params.len;
        read_param(r, s, &p);
        VEC_PUSH(params, p);
        if (p.kind == CFX__POSITIONAL && defaults && !p.has_default)
            cfx__cursor_fail(r, "non-default argument follows default argument");
        defaults |= p.has_default;
        cfx__cursor_skip(r);
        if (!cfx__cursor_eat(r, ",") && *r->p && strncmp(r->p, "->", 2))
            cfx__cursor_fail(r, "expected ','");
        cfx__cursor_skip(r);
    }
    s->n = (int)params.len;
    s->params = params.data;
}

cfx__signature *cfx__signature_parse(const char *text) {
    size_t mark = cfx_scope_open();
    cfx__signature *s = cfx__alloc0(sizeof *s);
    cfx__cursor r = {"signature", CFX_VALUE_ERROR, text, text, &s->arena, false};
    read_params(&r, s);
    if (!r.failed && cfx__cursor_eat(&r, "->"))
        s->returns = read_type(&r);
    cfx__cursor_skip(&r);
    if (!r.failed && *r.p)
        cfx__cursor_fail(&r, "expected the end");
    cfx_scope_close(mark);
    if (r.failed) {
        cfx__signature_free(s);
        return NULL;
    }
    count(s);
    return s;
}

void cfx__signature_free(cfx__signature *s) {
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        cfx_value_drop(s->params[i].fallback);
    cfx__free(s->params);
    cfx__arena_release(&s->arena);
    cfx__free(s);
}

/* ---- binding -------------------------------------------------------------------------------- */

/* "MLP.forward() takes from 2 to 3 positional arguments but 4 were given" */
static void fail_too_many(const cfx__signature *s, cfx_site at, const char *fn, int self,
                          cfx_args a) {
    int most = s->npositional + self, least = s->nrequired + self, keywords = 0;
    for (int i = 0; i < s->n && a.kw; i++)
        if (s->params[i].kind == CFX__KEYWORD_ONLY)
            keywords += cfx_dict_find(a.kw, cfx_string_value(s->params[i].name)) != NULL;
    cfx__text t = {0};
    cfx__text_puts(&t, "takes ");
    if (least < most)
        cfx__text_printf(&t, "from %d to ", least);
    cfx__text_printf(&t, "%d positional argument%s but %d ", most, most == 1 ? "" : "s",
                     a.n + self);
    if (keywords)
        cfx__text_printf(&t, "positional argument%s (and %d keyword-only argument%s) ",
                         a.n + self == 1 ? "" : "s", keywords, keywords == 1 ? "" : "s");
    cfx__text_puts(&t, a.n + self == 1 && !keywords ? "was given" : "were given");
    cfx_fail(CFX_TYPE_ERROR, at, "%s() %s", fn, t.data);
    cfx__text_release(&t);
}

/* "MLP.forward() missing 2 required positional arguments: 'x' and 'y'" */
static void fail_missing(const cfx__signature *s, cfx_site at, const char *fn,
                         cfx__signature_param_kind kind, const bool *set) {
    int n = 0, k = 0;
    for (int i = 0; i < s->n; i++)
        n += s->params[i].kind == kind && !set[i];
    cfx__text t = {0};
    for (int i = 0; i < s->n; i++) {
        if (s->params[i].kind != kind || set[i])
            continue;
        if (k)
            cfx__text_puts(&t, k < n - 1 ? ", " : n == 2 ? " and " : ", and ");
        cfx__text_printf(&t, "'%s'", s->params[i].name);
        k++;
    }
    cfx_fail(CFX_TYPE_ERROR, at, "%s() missing %d required %s argument%s: %s", fn, n,
             kind == CFX__POSITIONAL ? "positional" : "keyword-only", n == 1 ? "" : "s", t.data);
    cfx__text_release(&t);
}

/* Puts the keywords where they belong, surplus ones into the dict of **kwargs. */
static bool bind_keywords(const cfx__signature *s, cfx_site at, const char *fn, const cfx_dict *kw,
                          cfx_value *out, bool *set) {
    cfx_dict *rest = NULL;
    if (s->n && s->params[s->n - 1].kind == CFX__VAR_KEYWORDS) {
        rest = cfx_dict_new();
        out[s->n - 1] = cfx_dict_value(rest);
        set[s->n - 1] = true;
    }
    for (int64_t k = 0; kw && k < kw->len; k++) {
        const char *name = cfx_text(kw->entries[k].key);
        int i = 0;
        while (i < s->n && (!name || strcmp(name, s->params[i].name) ||
                            s->params[i].kind == CFX__VAR_ARGS ||
                            s->params[i].kind == CFX__VAR_KEYWORDS))
            i++;
        if (i == s->n && rest) {
            cfx_dict_put(rest, kw->entries[k].key, kw->entries[k].value);
            continue;
        }
        if (i == s->n || set[i]) {
            cfx_fail(CFX_TYPE_ERROR, at,
                     i == s->n ? "%s() got an unexpected keyword argument '%s'"
                               : "%s() got multiple values for argument '%s'",
                     fn, cfx_value_str(kw->entries[k].key));
            return false;
        }
        out[i] = kw->entries[k].value;
        set[i] = true;
    }
    return true;
}

/* What nobody gave: defaults, or an error that names all that is missing. */
static bool bind_rest(const cfx__signature *s, cfx_site at, const char *fn, cfx_value *out,
                      bool *set) {
    bool missing[2] = {false, false};
    for (int i = 0; i < s->n; i++) {
        const cfx__signature_param *p = &s->params[i];
        if (set[i])
            continue;
        if (p->has_default) {
            out[i] = p->fallback;
            set[i] = true;
        } else {
            missing[p->kind == CFX__KEYWORD_ONLY] = true;
        }
    }
    if (missing[0] || missing[1])
        fail_missing(s, at, fn, missing[0] ? CFX__POSITIONAL : CFX__KEYWORD_ONLY, set);
    return !missing[0] && !missing[1];
}

bool cfx__signature_bind(const cfx__signature *s, cfx_site at, const char *fn, bool self,
                         cfx_args a, cfx_value *out) {
    bool small[32] = {false};
    bool *set = s->n > COUNT(small) ? cfx__alloc0((size_t)s->n) : small;
    bool good = true, star = false;
    for (int i = 0, k = 0; i < s->n; i++) {
        if (s->params[i].kind == CFX__POSITIONAL && k < a.n) {
            out[i] = a.v[k++];
            set[i] = true;
        } else if (s->params[i].kind == CFX__VAR_ARGS) {
            out[i] = cfx_tuple_value(a.n - k, a.v + k);
            set[i] = star = true;
        }
    }
    good = bind_keywords(s, at, fn, a.kw, out, set);
    if (good && !star && a.n > s->npositional) {
        fail_too_many(s, at, fn, self, a);
        good = false;
    }
    good = good && bind_rest(s, at, fn, out, set);
    if (set != small)
        cfx__free(set);
    return good;
}
