/* JSON: text to values and back.
 *
 * Invariant: integers that fit an int64 stay exact; larger ones become floats. A key stands once in
 * an object. What is read has at most CFX__JSON_DEPTH levels. */
#ifndef CFX__JSON_H
#define CFX__JSON_H

#include "../value/value.h"

enum { CFX__JSON_DEPTH = 512 };

/* The text as dicts, lists, strings, ints, floats, bools and None; scope. A bad value, with a
 * FileError that names `what`, line and column, when it is no JSON. */
cfx_value cfx__json_parse(const char *text, size_t len, const char *what);

/* Adds a string with its quotes; text that is not ASCII stays as it is. */
void cfx__json_string(cfx__text *out, const char *text, size_t len);
/* Adds a value without blanks. False, with an error, for what JSON has no form for: numbers that
 * are not finite, keys that are no strings, tensors. */
bool cfx__json_value(cfx__text *out, cfx_value v);

#endif
