/* The wire format of protobuf, read and written. */
#include "wire.h"

/* ---- reading --------------------------------------------------------------------------------- */

static bool fail(cfx__wire *w) {
    w->broken = true;
    w->at = w->end;
    return false;
}

/* Seven bits a byte, the lowest first; ten bytes at most, as 64 bits need. */
bool cfx__wire_varint(cfx__wire *w, uint64_t *v) {
    uint64_t sum = 0;
    if (w->at == w->end)
        return false;
    for (int shift = 0; shift < 70 && w->at < w->end; shift += 7) {
        uint8_t byte = (uint8_t)*w->at++;
        if (shift == 63 && byte > 1)
            break;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *v = sum;
            return true;
        }
    }
    return fail(w);
}

static bool take(cfx__wire *w, uint64_t n, cfx__slice *out) {
    if (n > (uint64_t)(w->end - w->at))
        return fail(w);
    *out = (cfx__slice){w->at, (size_t)n};
    w->at += n;
    return true;
}

bool cfx__wire_next(cfx__wire *w, cfx__wire_field *f) {
    uint64_t tag, len;
    *f = (cfx__wire_field){0};
    if (!cfx__wire_varint(w, &tag))
        return false;
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3)
        return fail(w);
    f->number = (uint32_t)(tag >> 3);
    f->type = (cfx__wire_type)(tag & 7);
    switch (f->type) {
    case CFX__WIRE_VARINT:
        return cfx__wire_varint(w, &f->value) || fail(w);
    case CFX__WIRE_BYTES:
        return (cfx__wire_varint(w, &len) || fail(w)) && take(w, len, &f->bytes);
    case CFX__WIRE_32:
    case CFX__WIRE_64:
        if (!take(w, f->type == CFX__WIRE_32 ? 4 : 8, &f->bytes))
            return false;
        memcpy(&f->value, f->bytes.at, f->bytes.len);
        return true;
    default: /* groups, which no message here has */
        return fail(w);
    }
}

int64_t cfx__wire_int(cfx__wire *w, const cfx__wire_field *f) {
    if (f->type != CFX__WIRE_VARINT)
        fail(w);
    return (int64_t)f->value;
}

float cfx__wire_float(cfx__wire *w, const cfx__wire_field *f) {
    union {
        uint32_t bits;
        float f;
    } v = {(uint32_t)f->value};
    if (f->type != CFX__WIRE_32)
        fail(w);
    return v.f;
}

cfx__slice cfx__wire_bytes(cfx__wire *w, const cfx__wire_field *f) {
    if (f->type == CFX__WIRE_BYTES)
        return f->bytes;
    fail(w);
    return (cfx__slice){"", 0};
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_varint(cfx__text *t, uint64_t v) {
    for (; v > 0x7f; v >>= 7)
        cfx__text_putc(t, (char)(v | 0x80));
    cfx__text_putc(t, (char)v);
}

static void put_tag(cfx__text *t, uint32_t number, cfx__wire_type type) {
    put_varint(t, (uint64_t)number << 3 | type);
}

void cfx__wire_put_int(cfx__text *t, uint32_t number, int64_t v) {
    put_tag(t, number, CFX__WIRE_VARINT);
    put_varint(t, (uint64_t)v);
}

void cfx__wire_put_float(cfx__text *t, uint32_t number, float v) {
    char bytes[sizeof v];
    memcpy(bytes, &v, sizeof v);
    put_tag(t, number, CFX__WIRE_32);
    cfx__text_add(t, bytes, sizeof bytes);
}

void cfx__wire_put_head(cfx__text *t, uint32_t number, uint64_t len) {
    put_tag(t, number, CFX__WIRE_BYTES);
    put_varint(t, len);
}

void cfx__wire_put_bytes(cfx__text *t, uint32_t number, const void *bytes, size_t len) {
    cfx__wire_put_head(t, number, len);
    cfx__text_add(t, bytes, len);
}

void cfx__wire_put_text(cfx__text *t, uint32_t number, const char *text) {
    cfx__wire_put_bytes(t, number, text, strlen(text));
}
