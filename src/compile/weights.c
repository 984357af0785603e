/* Weights: each array is stored once, as a member of a struct of pointers, with the arrays in
 * the source or one after the other in a file. */
#include <cfx/version.h>

#include "compile.h"

enum { ALIGN = 64 };

static int64_t bytes_of(const cfx__c_weight *w) { return w->count * cfx_dtype_size(w->dtype); }

void *cfx__c_block_of(cfx__c *c, int64_t bytes) {
    void *block = cfx__alloc((size_t)bytes + 1);
    VEC_PUSH(c->blocks, block);
    return block;
}

/* Other weights of the same numbers are told beside the one that is kept, some of them. */
static void note_name(cfx__c_weight *w, const char *name) {
    enum { LONGEST = 200 };
    const size_t n = strlen(w->note);
    if (!strcmp(w->name, name) || strstr(w->note, name) ||
        (n > 5 && !strcmp(w->note + n - 5, ", ...")))
        return;
    const bool first = !strstr(w->note, "; also ");
    w->note = n > LONGEST ? cfx__text_format("%s, ...", w->note)
                          : cfx__text_format("%s%s%s", w->note, first ? "; also " : ", ", name);
}

/* Whether an array is kept once where others have the same numbers: one that memory is saved by.
 * Others have their own names, so that the text does not depend on what numbers they have. */
static bool is_shared(int64_t bytes, const char *note) {
    enum { LEAST = 1024 };
    const size_t n = strlen(note), end = strlen(", packed");
    return bytes >= LEAST || !bytes || (n > end && !strcmp(note + n - end, ", packed"));
}

int cfx__c_weight_add(cfx__c *c, const char *name, cfx_dtype d, int64_t count, const void *data,
                      const char *note) {
    const bool shared = is_shared(count * cfx_dtype_size(d), note);
    const int64_t bytes = count * cfx_dtype_size(d);
    for (size_t i = 0; i < c->weights.len; i++) {
        cfx__c_weight *w = &c->weights.data[i];
        if (w->dtype == d && w->count == count &&
            (w->data == data || (shared && (!bytes || !memcmp(w->data, data, (size_t)bytes))))) {
            note_name(w, cfx__c_identifier(name));
            return (int)i;
        }
    }
    cfx__c_weight w = {.name = cfx__c_unique(&c->names, "weights", name),
                       .dtype = d,
                       .data = data,
                       .count = count,
                       .note = note};
    if (c->weights.len) {
        const cfx__c_weight *last = &c->weights.data[c->weights.len - 1];
        w.at = (last->at + bytes_of(last) + ALIGN - 1) / ALIGN * ALIGN;
    }
    VEC_PUSH(c->weights, w);
    return (int)c->weights.len - 1;
}

const char *cfx__c_weight_text(cfx__c *c, const char *stem, const char *what, cfx_dtype d,
                               int64_t count, const void *data, const char *note) {
    const int number =
        cfx__c_weight_add(c, cfx__text_format("%s_%s", stem, what), d, count, data, note);
    return cfx__text_format("c->w->%s", c->weights.data[number].name);
}

const char *cfx__c_packed_note(cfx_dtype d, const cfx_tensor *of) {
    return cfx__text_format("%s%s, packed", cfx_dtype_brief(d),
                            cfx__shape_text(of->ndim, of->shape));
}

int64_t cfx__c_weights_bytes(const cfx__c *c) {
    if (!c->weights.len)
        return 0;
    const cfx__c_weight *last = &c->weights.data[c->weights.len - 1];
    return last->at + bytes_of(last);
}

/* A number that tells weights from others: of their bytes, 4096 of each. */
uint64_t cfx__c_weights_number(const cfx__c *c) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < c->weights.len; i++) {
        const cfx__c_weight *w = &c->weights.data[i];
        const unsigned char *at = (const unsigned char *)w->data;
        const int64_t n = bytes_of(w);
        for (int64_t k = 0; k<n; k += n> 4096 ? n / 4096 : 1)
            h = (h ^ at[k]) * 0x100000001b3u;
        h = (h ^ (uint64_t)n) * 0x100000001b3u;
    }
    return h;
}

/* A number that tells the weights of one source from those of another: of all that says how they
 * are read. Other numbers in the same arrays, as training gives, are for the same source. */
static uint64_t source_number(const cfx__c *c) {
    uint64_t h = 0xcbf29ce484222325u;
    const char *const texts[] = {CFX_VERSION, c->helpers.len ? c->helpers.data : "",
                                 c->out.len ? c->out.data : ""};
    for (int i = 0; i < COUNT(texts); i++)
        for (const char *at = texts[i]; *at; at++)
            h = (h ^ (unsigned char)*at) * 0x100000001b3u;
    for (size_t i = 0; i < c->weights.len; i++) {
        const cfx__c_weight *w = &c->weights.data[i];
        h = (h ^ (uint64_t)bytes_of(w)) * 0x100000001b3u;
        for (const char *at = w->name; *at; at++)
            h = (h ^ (unsigned char)*at) * 0x100000001b3u;
    }
    return h;
}

void cfx__c_weights_struct(cfx__c *c, cfx__text *header) {
    cfx__text_printf(header,
                     "/* The weights: pointers, to arrays of %s.\n"
                     " * Many threads may use them at once. */\nstruct %s_weights {\n",
                     c->o.weights == CFX_WEIGHTS_INLINE ? "the source" : "a file", c->name);
    for (size_t i = 0; i < c->weights.len; i++)
        cfx__text_printf(header, "    const %s *%s; /* %s */\n",
                         cfx__c_type(c->weights.data[i].dtype), c->weights.data[i].name,
                         c->weights.data[i].note);
    if (!c->weights.len)
        cfx__text_puts(header, "    const void *none;\n");
    cfx__text_puts(header, "};\n");
}

static void put_numbers(cfx__text *t, const cfx__c_weight *w) {
    const cfx_dtype d = cfx__c_part(w->dtype);
    const int64_t size = cfx_dtype_size(d), n = w->count * (d == w->dtype ? 1 : 2);
    const bool half = cfx__dtype_is_half(d);
    size_t line = t->len;
    for (int64_t i = 0; i < n; i++) {
        size_t mark = cfx_scope_open();
        if (t->len - line > 84 || !i) {
            cfx__text_puts(t, "\n    ");
            line = t->len;
        } else {
            cfx__text_putc(t, ' ');
        }
        double f = 0;
        int64_t whole = 0;
        const char *from = w->data + i * size;
        if (half)
            cfx__text_printf(t, "0x%04x,", *(const uint16_t *)from);
        else if (cfx__dtype_is_float(d)) {
            cfx__convert((char *)&f, 8, CFX_F64, from, 0, d, 1);
            cfx__text_printf(t, "%s,", cfx__c_listed(cfx__c_number(d, f, 0)));
        } else {
            cfx__convert((char *)&whole, 8, CFX_I64, from, 0, d, 1);
            cfx__text_printf(t, "%s,", cfx__c_listed(cfx__c_number(d, 0, whole)));
        }
        cfx_scope_close(mark);
    }
}

void cfx__c_weights_inline(cfx__c *c, cfx__text *source) {
    for (size_t i = 0; i < c->weights.len; i++) {
        const cfx__c_weight *w = &c->weights.data[i];
        const cfx_dtype part = cfx__c_part(w->dtype); /* complex numbers are written in two */
        cfx__text_printf(source, "/* %s */\n%s_WEIGHTS static const %s %s_w_%s[%lld] = {", w->note,
                         c->upper, cfx__c_type(part), c->name, w->name,
                         (long long)(w->count ? w->count * (part == w->dtype ? 1 : 2) : 1));
        if (w->count)
            put_numbers(source, w);
        else
            cfx__text_puts(source, "0");
        cfx__text_puts(source, "\n};\n\n");
    }
    cfx__text_printf(source, "const struct %s_weights %s_weights = {", c->name, c->name);
    for (size_t i = 0; i < c->weights.len; i++) {
        const cfx__c_weight *w = &c->weights.data[i];
        const char *as = cfx__dtype_is_complex(w->dtype)
                             ? cfx__text_format("(const %s *)", cfx__c_type(w->dtype))
                             : "";
        cfx__text_printf(source, "%s\n    %s%s_w_%s", i ? "," : "", as, c->name, w->name);
    }
    cfx__text_printf(source, "%s};\n\n", c->weights.len ? "\n" : "0");
}

void cfx__c_weights_loader(cfx__c *c, cfx__text *source) {
    cfx__text_printf(source,
                     "int %s_weights_load(struct %s_weights *w, const void *file, size_t bytes) {\n"
                     "    const unsigned char *at = (const unsigned char *)file;\n"
                     "    uint64_t is = 0;\n"
                     "    if (!file || bytes != %s_WEIGHTS_BYTES || ((uintptr_t)file & 7) != 0)\n"
                     "        return 1;\n"
                     "    memcpy(&is, at, sizeof is);\n"
                     "    if (is != UINT64_C(0x%016llx))\n"
                     "        return 2;\n",
                     c->name, c->name, c->upper, (unsigned long long)source_number(c));
    for (size_t i = 0; i < c->weights.len; i++) {
        const cfx__c_weight *w = &c->weights.data[i];
        cfx__text_printf(source, "    w->%s = (const %s *)(const void *)(at + %lld);\n", w->name,
                         cfx__c_type(w->dtype), (long long)(ALIGN + w->at));
    }
    if (!c->weights.len)
        cfx__text_puts(source, "    w->none = file;\n");
    cfx__text_puts(source, "    return 0;\n}\n\n");
}

void cfx__c_weights_file(const cfx__c *c, FILE *file) {
    const uint64_t is = source_number(c);
    char pad[ALIGN] = {0};
    int64_t end = ALIGN;
    memcpy(pad, &is, sizeof is);
    fwrite(pad, 1, sizeof pad, file);
    memset(pad, 0, sizeof pad);
    for (size_t i = 0; i < c->weights.len; i++) {
        const cfx__c_weight *w = &c->weights.data[i];
        fwrite(pad, 1, (size_t)(ALIGN + w->at - end), file);
        if (w->count)
            fwrite(w->data, 1, (size_t)bytes_of(w), file);
        end = ALIGN + w->at + bytes_of(w);
    }
}
