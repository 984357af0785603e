/* The wire format of protobuf: a message is a row of fields, each a number with a value behind it.
 *
 * Invariant: a reader never leaves the bytes it was given, and copies nothing: strings and messages
 * inside a message are slices of it. What is no message is said by `broken`; nothing is printed or
 * recorded here. */
#ifndef CFX__WIRE_H
#define CFX__WIRE_H

#include "../base/base.h"

/* Bytes somewhere in a file. */
typedef struct cfx__slice {
    const char *at;
    size_t len;
} cfx__slice;

/* ---- reading --------------------------------------------------------------------------------- */

/* A message that is being read. */
typedef struct cfx__wire {
    const char *at, *end;
    bool broken; /* the bytes are no message; set once, and nothing is read behind it */
} cfx__wire;

typedef enum cfx__wire_type {
    CFX__WIRE_VARINT = 0,
    CFX__WIRE_64 = 1,
    CFX__WIRE_BYTES = 2,
    CFX__WIRE_32 = 5
} cfx__wire_type;

typedef struct cfx__wire_field {
    uint32_t number;
    cfx__wire_type type;
    uint64_t value;   /* of a number: its bits */
    cfx__slice bytes; /* of BYTES */
} cfx__wire_field;

static inline cfx__wire cfx__wire_of(cfx__slice s) {
    return (cfx__wire){s.at, s.at + s.len, false};
}
/* The next field; false at the end, and where the bytes are broken. */
bool cfx__wire_next(cfx__wire *w, cfx__wire_field *f);
/* The next number of a packed list of varints; false at the end, and where it is broken. */
bool cfx__wire_varint(cfx__wire *w, uint64_t *v);

/* What a field holds as the type it should have; a field of another type is broken. */
int64_t cfx__wire_int(cfx__wire *w, const cfx__wire_field *f);
float cfx__wire_float(cfx__wire *w, const cfx__wire_field *f);
cfx__slice cfx__wire_bytes(cfx__wire *w, const cfx__wire_field *f);

/* ---- writing --------------------------------------------------------------------------------- */

/* Fields at the end of a text; numbers that are zero are written too. */
void cfx__wire_put_int(cfx__text *t, uint32_t number, int64_t v);
void cfx__wire_put_float(cfx__text *t, uint32_t number, float v);
void cfx__wire_put_bytes(cfx__text *t, uint32_t number, const void *bytes, size_t len);
void cfx__wire_put_text(cfx__text *t, uint32_t number, const char *text);
/* The beginning of a field of `len` bytes, which follow. */
void cfx__wire_put_head(cfx__text *t, uint32_t number, uint64_t len);

#endif
