/* Quantizing: a program with options and batches of any kind; then its scales, zero points and
 * integers become others, in the calls and in the tensors, as a liar's file has them. */
#include "fuzz.h"

#include "tensor/tensor.h"

#include <string.h>

static const char *const programs[] = {
    "tests/data/zoo/seed_mlp/model.pt2", "tests/data/zoo/dyn_conv/model.pt2",
    "tests/data/zoo/bf16_linear/model.pt2", "fuzz/seeds/quant_static.pt2",
    "fuzz/seeds/quant_conv.pt2", "fuzz/seeds/quant_dynamic.pt2", "fuzz/seeds/quant_int4.pt2"};

/* Some of its numbers become others. */
static void change_tensor(fuzz_bytes *b, cfx_tensor *t) {
    bool whole = !cfx__dtype_is_float((cfx_dtype)t->dtype);
    for (uint32_t n = t->numel ? fuzz_below(b, 4) : 0; n > 0; n--)
        cfx__tensor_set(t, fuzz_below(b, 256) % t->numel,
                        whole ? cfx_int(fuzz_int(b)) : cfx_float(fuzz_float(b)));
    t->storage->version++; /* as operators do that write */
}

static cfx_value batches(fuzz_bytes *b, cfx_program *p) {
    cfx_value all = cfx_list_value(0, NULL);
    for (uint32_t n = fuzz_below(b, 4); n > 0; n--) {
        cfx_list *fit = cfx_as_list(fuzz_inputs(p));
        cfx_value batch = cfx_list_value(0, NULL);
        for (int64_t i = 0; i < fit->len; i++) {
            if (fit->items[i].tag == CFX_TAG_TENSOR)
                change_tensor(b, cfx_as_tensor(fit->items[i]));
            cfx_value v = fuzz_below(b, 32) ? fit->items[i] : fuzz_value(b, 1);
            cfx_list_append(cfx_as_list(batch), v);
        }
        cfx_list_append(cfx_as_list(all), batch);
    }
    fuzz_fine();
    return all;
}

static cfx_quantize_options options(fuzz_bytes *b) {
    static const int bits[] = {0, 8, 4, 3}, groups[] = {0, 4, 2, 3, 8, 1, -1, 1 << 30};
    return (cfx_quantize_options){
        .scheme = (cfx_quantize_scheme)fuzz_below(b, 3),
        .bits = bits[fuzz_below(b, 4)],
        .per = (cfx_quantize_per)fuzz_below(b, 3),
        .group = groups[fuzz_below(b, 8)],
        .range = (cfx_quantize_range)fuzz_below(b, 4),
        .percentile = fuzz_below(b, 2) ? fuzz_float(b) * 30 : 0,
        .smooth = fuzz_below(b, 2) ? fuzz_float(b) : 0,
        .keep_bias = fuzz_below(b, 2),
    };
}

/* Some arguments of calls to quantized_decomposed become others. */
static void change_calls(fuzz_bytes *b, cfx_program *p) {
    cfx_each_node(p->module->graph, n) {
        if (n->op != CFX_CALL_FUNCTION || !strstr(n->target.name, "quantize"))
            continue;
        cfx_value args = n->args;
        int64_t len = cfx_as_list(args)->len;
        if (len < 2 || fuzz_below(b, 3))
            continue;
        int64_t at = 1 + (int64_t)fuzz_below(b, (uint32_t)len - 1);
        cfx_value old = cfx_as_list(args)->items[at], v = fuzz_value(b, 1);
        if (fuzz_below(b, 4))
            v = old.tag == CFX_TAG_FLOAT ? cfx_float(fuzz_float(b)) : cfx_int(fuzz_int(b));
        if (v.tag != CFX_TAG_TENSOR && (old.tag != CFX_TAG_NODE || fuzz_below(b, 4) == 0))
            cfx_node_set_arg(n, (int)at, v);
    }
    fuzz_fine();
}

static void change_tensors(fuzz_bytes *b, cfx_dict *d) {
    for (uint32_t n = fuzz_below(b, 3); n > 0 && d->len; n--) {
        cfx_value v = d->entries[fuzz_below(b, 256) % d->len].value;
        if (v.tag == CFX_TAG_TENSOR)
            change_tensor(b, cfx_as_tensor(v));
    }
    fuzz_fine();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes b = {data, data + size};
    fuzz_begin();
    cfx_program *p =
        cfx_open(fuzz_file(programs[fuzz_below(&b, sizeof programs / sizeof *programs)]));
    if (!fuzz_fine() || !p)
        return fuzz_end();
    cfx_value all = batches(&b, p);
    if (fuzz_below(&b, 4)) {
        cfx_quantized *q = cfx_quantize(p, all, options(&b));
        bool fine = fuzz_fine();
        if (cfx_failed(q) && fine)
            fuzz_wrong("neither a quantized program nor an error");
        if (!cfx_failed(q))
            cfx_quantize_compare(q, all);
        fuzz_fine();
        p = cfx_failed(q) ? p : q->program;
    }
    change_calls(&b, p);
    change_tensors(&b, p->state);
    change_tensors(&b, p->constants);
    fuzz_use(p);
    return fuzz_end();
}
