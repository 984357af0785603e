/* Code compared up to the numbers of names, for tests. */
#ifndef CFX__PLAIN_TEST_H
#define CFX__PLAIN_TEST_H

#include <ctype.h>

#include "graph.h"

static inline bool is_word(char c) { return c == '_' || isalnum((unsigned char)c); }

/* Code with its values numbered in order, so that it does not count how names are counted. */
static inline const char *plain(const char *code) {
    cfx__text out = {0};
    cfx_dict *seen = cfx_dict_new();
    for (const char *at = code; *at;) {
        bool starts = is_word(*at) && (at == code || (!is_word(at[-1]) && at[-1] != '.'));
        size_t n = 0;
        while (starts && is_word(at[n]))
            n++;
        if (!n) {
            cfx__text_putc(&out, *at++);
            continue;
        }
        cfx_value word = cfx_string_value_n(at, n);
        bool defined =
            at >= code + 5 && !strncmp(at - 5, "\n    ", 5) && !strncmp(at + n, " = ", 3);
        if (defined && !cfx_dict_find(seen, word))
            cfx_dict_put(seen, word, cfx_string_value(cfx__text_format("v%d", (int)seen->len)));
        const cfx_value *known = cfx_dict_find(seen, word);
        cfx__text_puts(&out, cfx_text(known ? *known : word));
        at += n;
    }
    return cfx__text_take(&out);
}

/* The text without blanks at the ends of it and of its lines. */
static inline const char *trimmed(const char *text) {
    cfx__text out = {0};
    text += strspn(text, "\n");
    for (; *text; text++) {
        while (*text == '\n' && out.len && out.data[out.len - 1] == ' ')
            out.data[--out.len] = '\0';
        cfx__text_putc(&out, *text);
    }
    while (out.len && (out.data[out.len - 1] == '\n' || out.data[out.len - 1] == ' '))
        out.data[--out.len] = '\0';
    return cfx__text_take(&out);
}

#endif
