/* Prints a loop: a line for each computed value, with the operands substituted into the
 * expressions of the steps, then the stores. */
#include <ctype.h>

#include "loop.h"

/* The value whose elements these are: widening repeats them. */
static int source_of(const cfx__loop *l, int v) {
    while (l->values[v].made >= 0 && l->steps[l->values[v].made].kind == CFX__STEP_WIDEN)
        v = l->steps[l->values[v].made].in[0];
    return v;
}

static void put_number(cfx__text *t, cfx_dtype dtype, const char *bytes) {
    cfx_tensor *one = cfx__tensor_empty((cfx_site){0}, dtype, false, 0, NULL, NULL);
    if (cfx__obj_is_bad(one))
        return;
    memcpy(one->data, bytes, (size_t)cfx_dtype_size(dtype));
    cfx__text_puts(t, cfx_value_repr(cfx__tensor_get(one, 0)));
}

/* The name of a value: that of the memory it is read from, a number, or that of its step. */
static void put_name(cfx__text *t, const cfx__loop *l, int v, const char *const *names) {
    const cfx__loop_value *value = &l->values[source_of(l, v)];
    if (value->lane >= 0)
        cfx__text_puts(t, names[value->lane]);
    else if (value->number)
        put_number(t, value->dtype, value->number);
    else
        cfx__text_printf(t, "v%d", value->made);
}

/* The expression of a step with its operands in place of x, y, z and its numbers in place of p0 to
 * p7. */
static void put_expr(cfx__text *t, const cfx__loop *l, const cfx__loop_step *s,
                     const char *const *names) {
    const bool integer = s->n && !cfx__dtype_is_float(l->values[s->in[0]].dtype) &&
                         !cfx__dtype_is_complex(l->values[s->in[0]].dtype);
    for (const char *at = s->says.expr; *at;) {
        size_t len = 0;
        while (isalnum((unsigned char)at[len]) || at[len] == '_')
            len++;
        const int operand = len == 1 ? at[0] - 'x' : -1;
        if (operand >= 0 && operand < s->n) {
            put_name(t, l, s->in[operand], names);
        } else if (len == 2 && at[0] == 'p' && at[1] >= '0' && at[1] < '0' + CFX__LOOP_NUMBERS) {
            const int i = at[1] - '0';
            cfx__text_puts(t, cfx_value_repr(integer ? cfx_int(s->says.i[i])
                                                     : cfx_float(s->says.f[i])));
        } else {
            cfx__text_add(t, at, len ? len : 1);
        }
        at += len ? len : 1;
    }
}

static const char *fold_name(cfx__loop_fold f) {
    static const char *const names[] = {
        [CFX__FOLD_SUM] = "sum",   [CFX__FOLD_NANSUM] = "nansum", [CFX__FOLD_MEAN] = "mean",
        [CFX__FOLD_PROD] = "prod", [CFX__FOLD_MAX] = "max",       [CFX__FOLD_MIN] = "min",
        [CFX__FOLD_COUNT] = "count_nonzero", [CFX__FOLD_ANY] = "any", [CFX__FOLD_ALL] = "all"};
    return names[f];
}

static const char *row_name(cfx__loop_row r) {
    static const char *const names[] = {[CFX__ROW_SOFTMAX] = "softmax",
                                        [CFX__ROW_LOG_SOFTMAX] = "log_softmax",
                                        [CFX__ROW_SAFE_SOFTMAX] = "safe_softmax",
                                        [CFX__ROW_LAYER_NORM] = "layer_norm",
                                        [CFX__ROW_RMS_NORM] = "rms_norm"};
    return names[r];
}

static void put_call(cfx__text *t, const cfx__loop *l, const cfx__loop_step *s, const char *name,
                     const char *const *names) {
    cfx__text_printf(t, "%s(", name);
    for (int i = 0; i < s->n; i++) {
        cfx__text_puts(t, i ? ", " : "");
        put_name(t, l, s->in[i], names);
    }
    if (s->kind == CFX__STEP_ROW && s->says.row >= CFX__ROW_LAYER_NORM)
        cfx__text_printf(t, ", eps=%s", cfx_value_repr(cfx_float(s->says.f[0])));
    cfx__text_putc(t, ')');
}

static void put_step(cfx__text *t, const cfx__loop *l, const cfx__loop_step *s,
                     const char *const *names) {
    const cfx_dtype dtype = l->values[s->out].dtype;
    cfx__text_printf(t, "v%d = ", (int)(s - l->steps));
    if (s->kind == CFX__STEP_EACH)
        put_expr(t, l, s, names);
    else
        put_call(t, l, s,
                 s->kind == CFX__STEP_FOLD  ? fold_name(s->says.fold)
                 : s->kind == CFX__STEP_ROW ? row_name(s->says.row)
                                            : cfx_dtype_brief(dtype),
                 names);
    if (s->kind == CFX__STEP_FOLD)
        cfx__text_puts(t, " of the row");
    cfx__text_printf(t, " : %s\n", cfx_dtype_brief(dtype));
}

void cfx__loop_put(cfx__text *t, const cfx__loop *l, const char *indent,
                   const char *const *names) {
    cfx__text_printf(t, "%sfor each of %s", indent, cfx__shape_text(l->ndim, l->shape));
    if (l->row)
        cfx__text_printf(t, ", rows of %lld", (long long)cfx__loop_row_length(l));
    cfx__text_putc(t, '\n');
    for (int i = 0; i < l->nsteps; i++)
        if (l->steps[i].kind != CFX__STEP_WIDEN) {
            cfx__text_printf(t, "%s    ", indent);
            put_step(t, l, &l->steps[i], names);
        }
    for (int i = 0; i < l->nlanes; i++)
        if (l->lanes[i].write) {
            cfx__text_printf(t, "%s    %s = ", indent, names[i]);
            put_name(t, l, l->lanes[i].value, names);
            cfx__text_putc(t, '\n');
        }
}
