/* Tokenizers: opened, and texts taken through their steps both ways. Start at
 * cfx_tokenizer_encode. */
#include "tokenizer.h"

/* ---- opening --------------------------------------------------------------------------------- */

static void free_tokenizer(void *obj) {
    cfx_tokenizer *t = obj;
    cfx__free(t->name);
    cfx__json_release(&t->json);
    cfx__map_release(&t->vocab);
    cfx__free(t->tokens);
    cfx__free(t->merges);
    cfx__free(t->added);
    cfx__arena_release(&t->texts);
    cfx__steps_free(&t->normalizers);
    cfx__steps_free(&t->pretokenizers);
    cfx__steps_free(&t->decoders);
    VEC_FREE(t->before);
    VEC_FREE(t->after);
}

static const cfx__obj_type tokenizer_type = {.name = "tokenizer", .free = free_tokenizer};

/* {"max_length": 512, "direction": "Right"}. */
static void read_length(cfx_tokenizer *t, const cfx__json *j) {
    const cfx__json *most = cfx__json_get(j, "max_length");
    const char *direction = cfx__steps_text(j, "direction");
    t->most = cfx__json_is(most, CFX__JSON_INT) && most->i > 0 ? most->i : 0;
    t->cut_left = direction && !strcmp(direction, "Left");
}

/* What the file says, else a token that is named like one. */
static int64_t find_padding(const cfx_tokenizer *t, const cfx__json *j) {
    static const char *const names[] = {"[PAD]", "<pad>", "<|pad|>", "<|endoftext|>", "</s>"};
    const cfx__json *id = cfx__json_get(j, "pad_id");
    if (cfx__json_is(id, CFX__JSON_INT) && id->i >= 0 && id->i < t->size)
        return id->i;
    for (int i = 0; i < COUNT(names); i++)
        if (cfx__vocab_get(t, names[i], strlen(names[i])) >= 0)
            return cfx__vocab_get(t, names[i], strlen(names[i]));
    return -1;
}

static bool read_root(cfx_tokenizer *t, const cfx__json *j) {
    if (!cfx__json_is(j, CFX__JSON_OBJECT) || !cfx__json_get(j, "model")) {
        cfx_fail(CFX_FILE_ERROR, (cfx_site){0}, "'%s' is no tokenizer.json: it has no model",
                 t->name);
        return false;
    }
    if (!cfx__model_read(t, cfx__json_get(j, "model")) ||
        !cfx__steps_read(&t->normalizers, cfx__json_get(j, "normalizer"), "normalizer",
                         cfx__normalizers, t->name) ||
        !cfx__steps_read(&t->pretokenizers, cfx__json_get(j, "pre_tokenizer"), "pre-tokenizer",
                         cfx__pretokenizers, t->name) ||
        !cfx__steps_read(&t->decoders, cfx__json_get(j, "decoder"), "decoder", cfx__decoders,
                         t->name) ||
        !cfx__added_read(t, cfx__json_get(j, "added_tokens")) ||
        !cfx__template_read(t, cfx__json_get(j, "post_processor")))
        return false;
    read_length(t, cfx__json_get(j, "truncation"));
    t->padding = find_padding(t, cfx__json_get(j, "padding"));
    return cfx_ok();
}

static cfx_tokenizer *parse(const char *text, size_t len, const char *name) {
    cfx_tokenizer *t = cfx__obj_new(&tokenizer_type, sizeof *t);
    t->name = cfx__text_copy(name, strlen(name));
    return cfx__json_read(&t->json, text, len, name) && read_root(t, t->json.items.data) ? t : NULL;
}

cfx_tokenizer *cfx_tokenizer_parse(const char *json, const char *name) {
    if (cfx_ok() && !json)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "NULL is no tokenizer.json");
    return cfx_ok() ? parse(json, strlen(json), name ? name : "tokenizer.json") : NULL;
}

cfx_tokenizer *cfx_tokenizer_open(const char *path) {
    if (cfx_ok() && !path)
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "which file? NULL is none");
    cfx__file_mapping *m = cfx_ok() ? cfx__file_map(path) : NULL;
    cfx_tokenizer *t = m ? parse(m->size ? m->data : "", m->size, path) : NULL;
    if (m)
        cfx_drop(m);
    return t;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static bool check_text(const char *text, size_t len) {
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c = 0;
        n = cfx__utf8_get(text + i, len - i, &c);
        if (!n || (c >= 0xd800 && c < 0xe000)) {
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "the text is no UTF-8 at byte %zu", i);
            return false;
        }
    }
    return true;
}

static bool pretokenize(const cfx_tokenizer *t, cfx__encoding *e) {
    for (size_t i = 0; i < t->pretokenizers.len && cfx_ok(); i++) {
        const cfx__step *s = &t->pretokenizers.data[i];
        cfx__pieces all = {0};
        for (size_t k = 0; k < e->pieces.len && cfx_ok(); k++) {
            if (e->pieces.data[k].id < 0)
                s->type->cut(s, e, &e->pieces.data[k], &all);
            else if (VEC_TRY(all, 1))
                all.data[all.len++] = e->pieces.data[k];
        }
        VEC_FREE(e->pieces);
        e->pieces = all;
    }
    return cfx_ok();
}

/* No more tokens than the file allows, those around them counted. */
static void shorten(const cfx_tokenizer *t, cfx__ids *ids, bool special) {
    const size_t around = special ? t->before.len + t->after.len : 0;
    const size_t most = (size_t)t->most > around ? (size_t)t->most - around : 0;
    if (!t->most || ids->len <= most)
        return;
    if (t->cut_left)
        memmove(ids->data, ids->data + ids->len - most, most * sizeof *ids->data);
    ids->len = most;
}

static void encode(const cfx_tokenizer *t, const char *text, size_t len, cfx__ids *to) {
    cfx__encoding e = {.pieces = {0}};
    VEC_PUSH(e.pieces, ((cfx__piece){text, len, -1, true}));
    if (cfx__unicode_open(&e.unicode, text, len)) {
        cfx__added_cut(t, &e, false);
        if (cfx__normalize(t, &e)) {
            cfx__added_cut(t, &e, true);
            pretokenize(t, &e);
        }
    }
    for (size_t i = 0; i < e.pieces.len && cfx_ok() && cfx__limit_time(); i++) {
        const cfx__piece *p = &e.pieces.data[i];
        if (p->id < 0)
            cfx__model_encode(t, p, to);
        else if (VEC_TRY(*to, 1))
            to->data[to->len++] = p->id;
    }
    VEC_FREE(e.pieces);
    cfx__arena_release(&e.texts);
}

static cfx_tensor *tensor_of(const cfx__ids *before, const cfx__ids *ids, const cfx__ids *after) {
    const int64_t n = (int64_t)(before->len + ids->len + after->len);
    cfx_tensor *t = cfx_tensor_new(CFX_I64, 1, &n, NULL);
    if (cfx_failed(t))
        return t;
    int64_t *to = (int64_t *)t->data;
    const cfx__ids *const parts[] = {before, ids, after};
    for (int i = 0; i < 3; i++) {
        if (parts[i]->len)
            memcpy(to, parts[i]->data, parts[i]->len * sizeof *to);
        to += parts[i]->len;
    }
    return t;
}

cfx_tensor *cfx_tokenizer_encode(const cfx_tokenizer *t, const char *text, bool special) {
    cfx__ids ids = {0}, none = {0};
    if (!cfx_ok())
        return &cfx__tensor_bad;
    if (!t || !text) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "a tokenizer and a text are needed, not NULL");
        return &cfx__tensor_bad;
    }
    const size_t len = strlen(text);
    if (check_text(text, len) && len)
        encode(t, text, len, &ids);
    shorten(t, &ids, special);
    cfx_tensor *all = cfx_ok() ? tensor_of(special ? &t->before : &none, &ids,
                                           special ? &t->after : &none)
                               : &cfx__tensor_bad;
    VEC_FREE(ids);
    return all;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static bool is_special(const cfx_tokenizer *t, int64_t id) {
    for (size_t i = 0; i < t->nadded; i++)
        if (t->added[i].id == id && t->added[i].special)
            return true;
    return false;
}

static bool add_tokens(const cfx_tokenizer *t, const cfx_tensor *ids, bool plain,
                       cfx__encoding *e) {
    for (int64_t i = 0; i < ids->numel && cfx_ok(); i++) {
        const int64_t id = cfx_integer(cfx__tensor_get(ids, i));
        const char *token = cfx_tokenizer_token(t, id);
        if (!token)
            cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%lld is no token of '%s'", (long long)id,
                     t->name);
        else if (!(plain && is_special(t, id)) && VEC_TRY(e->pieces, 1))
            e->pieces.data[e->pieces.len++] = (cfx__piece){token, strlen(token), -1, false};
    }
    return cfx_ok();
}

static const char *decode(const cfx_tokenizer *t, cfx__encoding *e) {
    cfx__text all = {0};
    for (size_t i = 0; i < t->decoders.len && cfx_ok(); i++)
        t->decoders.data[i].type->decode(&t->decoders.data[i], e);
    for (size_t i = 0; i < e->pieces.len; i++) {
        if (i && !t->decoders.len)
            cfx__text_putc(&all, ' ');
        cfx__text_add(&all, e->pieces.data[i].text, e->pieces.data[i].len);
    }
    return all.data ? cfx__text_take(&all) : "";
}

const char *cfx_tokenizer_decode(const cfx_tokenizer *t, const cfx_tensor *ids, bool plain) {
    cfx__encoding e = {.pieces = {0}};
    const char *text = NULL;
    if (!cfx_ok())
        return NULL;
    if (!t || !ids || cfx_failed((void *)ids) || !ids->data || cfx__dtype_is_float(ids->dtype) ||
        ids->dtype > CFX_I64) {
        cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "tokens are a tensor of integers");
        return NULL;
    }
    if (add_tokens(t, ids, plain, &e))
        text = decode(t, &e);
    VEC_FREE(e.pieces);
    cfx__arena_release(&e.texts);
    return cfx_ok() ? text : NULL;
}

/* ---- looking --------------------------------------------------------------------------------- */

int64_t cfx_tokenizer_size(const cfx_tokenizer *t) { return t ? t->size : 0; }

int64_t cfx_tokenizer_id(const cfx_tokenizer *t, const char *token) {
    return t && token ? cfx__vocab_get(t, token, strlen(token)) : -1;
}

const char *cfx_tokenizer_token(const cfx_tokenizer *t, int64_t id) {
    return t && id >= 0 && id < t->size ? t->tokens[id] : NULL;
}

int64_t cfx_tokenizer_padding(const cfx_tokenizer *t) { return t ? t->padding : -1; }
