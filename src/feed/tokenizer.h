/* A tokenizer: a text goes through added tokens, normalizers, pre-tokenizers, the model and the
 * post-processor, as Hugging Face's does. tokenizer.c has the way, each step has a file.
 *
 * Invariant: steps are those of the file in its order, sequences opened. A text on its way is a row
 * of pieces; each step makes a row of it. Pieces that are tokens already are left alone. */
#ifndef CFX__TOKENIZER_H
#define CFX__TOKENIZER_H

#include "feed.h"

#include "../value/json.h"

/* ---- Unicode (unicode.c) --------------------------------------------------------------------- */

/* General categories, by the bit 1 << category. */
typedef enum cfx__category {
    CFX__CN, CFX__LU, CFX__LL, CFX__LT, CFX__LM, CFX__LO, CFX__MN, CFX__MC, CFX__ME, CFX__ND,
    CFX__NL, CFX__NO, CFX__PC, CFX__PD, CFX__PS, CFX__PE, CFX__PI, CFX__PF, CFX__PO, CFX__SM,
    CFX__SC, CFX__SK, CFX__SO, CFX__ZS, CFX__ZL, CFX__ZP, CFX__CC, CFX__CF, CFX__CS, CFX__CO,
    CFX__CATEGORIES
} cfx__category;
#define CFX__LETTERS 0x3eu
#define CFX__MARKS (1u << CFX__MN | 1u << CFX__MC | 1u << CFX__ME)
#define CFX__NUMBERS (1u << CFX__ND | 1u << CFX__NL | 1u << CFX__NO)
#define CFX__PUNCTUATION (0x7fu << CFX__PC)
#define CFX__SYMBOLS (0xfu << CFX__SM)
#define CFX__SEPARATORS (7u << CFX__ZS)
#define CFX__OTHERS (0xfu << CFX__CC | 1u)

/* The functions of utf8proc; opened when a character is met that is not ASCII. */
typedef struct cfx__unicode {
    bool open;
    int (*category)(int32_t c);
    int32_t (*lower)(int32_t c), (*upper)(int32_t c);
    ptrdiff_t (*decompose)(const uint8_t *text, ptrdiff_t len, int32_t *to, ptrdiff_t room,
                           int options);
    ptrdiff_t (*normalize)(int32_t *text, ptrdiff_t len, int options);
} cfx__unicode;

/* Opens it where it is needed for `text`; false with an error. */
bool cfx__unicode_open(cfx__unicode *u, const char *text, size_t len);
/* 1 << category; what is not ASCII needs it open. */
uint32_t cfx__unicode_is(const cfx__unicode *u, uint32_t c);
/* The same for telling punctuation, nonspacing marks, format characters and controls as Unicode 8.0
 * has them, whose tables Hugging Face's BERT steps and Punctuation go by: what became one later is
 * none (CN). For no other category. */
uint32_t cfx__unicode_was(const cfx__unicode *u, uint32_t c);
uint32_t cfx__unicode_lower(const cfx__unicode *u, uint32_t c);
uint32_t cfx__unicode_fold(const cfx__unicode *u, uint32_t c); /* the same for all cases of it */
bool cfx__unicode_space(uint32_t c);
/* \w of patterns in the file (Oniguruma's). Where a step says itself what a word is (Whitespace,
 * added tokens that are single words), joiners of width zero belong to words too (Rust's). */
bool cfx__unicode_word(const cfx__unicode *u, uint32_t c);
bool cfx__unicode_joins(uint32_t c);
/* Whether c is a mark in Unicode 9.0, which StripAccents goes by. */
bool cfx__unicode_marks(const cfx__unicode *u, uint32_t c);
/* Adds a text in a normal form: "NFC", "NFD", "NFKC" or "NFKD", as Unicode 9.0 has them, which
 * Hugging Face's normalizers go by: characters that came later stay as they are. */
bool cfx__unicode_normal(const cfx__unicode *u, const char *form, const char *text, size_t len,
                         cfx__text *to);
/* Adds bytes, with U+FFFD for what is no UTF-8. */
void cfx__unicode_lossy(cfx__text *to, const char *bytes, size_t len);

/* ---- regular expressions (regex.c) ----------------------------------------------------------- */

typedef struct cfx__regex cfx__regex;
/* NULL, with an error that calls the file `what`, for what is not known here. cfx__regex_free. */
cfx__regex *cfx__regex_new(const char *pattern, size_t len, const char *what);
void cfx__regex_free(cfx__regex *r);
/* The first match at or behind `from`; false where there is none, or with an error. */
bool cfx__regex_find(const cfx__regex *r, const cfx__unicode *u, const char *text, size_t len,
                     size_t from, size_t *begin, size_t *end);

/* ---- pieces ---------------------------------------------------------------------------------- */

typedef struct cfx__piece {
    const char *text;
    size_t len;
    int64_t id; /* of an added token; -1: a text still */
    bool first; /* it begins where the whole text does */
} cfx__piece;

typedef struct cfx__pieces {
    cfx__piece *data;
    size_t len, cap;
} cfx__pieces;

/* One text on its way. */
typedef struct cfx__encoding {
    cfx__unicode unicode;
    cfx__pieces pieces;
    cfx__arena texts; /* what steps wrote */
} cfx__encoding;

/* ---- steps ----------------------------------------------------------------------------------- */

typedef enum cfx__split {
    CFX__SPLIT_ISOLATED,
    CFX__SPLIT_REMOVED,
    CFX__SPLIT_WITH_PREVIOUS,
    CFX__SPLIT_WITH_NEXT,
    CFX__SPLIT_CONTIGUOUS
} cfx__split;

/* What the file says of one step; which of these count is its type's affair. */
typedef struct cfx__step {
    const struct cfx__step_type *type;
    cfx__regex *regex;       /* pattern: Regex */
    const char *string;      /* pattern: String; replacement, prefix, suffix, content */
    const char *content;     /* what stands for it then */
    cfx__split split;
    bool invert, prefix_space, use_regex, individual, clean, chinese, strip_accents, lower, left,
        right, first, always, cleanup;
    int64_t start, stop;
    const char *form;
} cfx__step;

typedef struct cfx__step_type {
    const char *name; /* "BertNormalizer" */
    /* Reads what the step needs; false with an error. NULL: nothing. */
    bool (*read)(cfx__step *s, const cfx__json *j, const char *what);
    /* Normalizers: adds what becomes of a text. */
    bool (*normalize)(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                      cfx__text *to);
    /* Pre-tokenizers: adds what becomes of a piece. */
    void (*cut)(const cfx__step *s, cfx__encoding *e, const cfx__piece *p, cfx__pieces *to);
    /* Decoders: changes a row of texts. */
    void (*decode)(const cfx__step *s, cfx__encoding *e);
} cfx__step_type;

extern const cfx__step_type cfx__normalizers[], cfx__pretokenizers[], cfx__decoders[];

typedef struct cfx__steps {
    cfx__step *data;
    size_t len, cap;
} cfx__steps;

/* Reads a step, or a Sequence of them, of such types; null is none. */
bool cfx__steps_read(cfx__steps *s, const cfx__json *j, const char *kind,
                     const cfx__step_type *types, const char *what);
void cfx__steps_free(cfx__steps *s);
/* The text of a key, NULL where it has none; and whether a key is true, `otherwise` where it is
 * absent. */
const char *cfx__steps_text(const cfx__json *j, const char *key);
bool cfx__steps_flag(const cfx__json *j, const char *key, bool otherwise);
/* Reads "pattern": {"Regex": ...} or {"String": ...}. */
bool cfx__steps_pattern(cfx__step *s, const cfx__json *j, const char *what);
/* Adds what becomes of a text where the pattern is replaced. */
bool cfx__steps_replace(const cfx__step *s, const cfx__encoding *e, const char *text, size_t len,
                        cfx__text *to);
/* Adds the signs that byte-level models write bytes as. And a sign's byte; -1: it is none. */
void cfx__byte_signs(cfx__text *to, const char *bytes, size_t len);
int cfx__byte_of_sign(uint32_t sign);

/* ---- the model (model.c) --------------------------------------------------------------------- */

typedef struct cfx__merge {
    uint64_t pair;
    int32_t rank, id; /* rank -1: an empty place */
} cfx__merge;

typedef enum cfx__model_kind { CFX__BPE, CFX__WORDPIECE, CFX__WORDLEVEL } cfx__model_kind;

typedef VEC(int64_t) cfx__ids;

struct cfx_tokenizer {
    cfx_obj head;
    char *name; /* of its file, for errors */
    cfx__json_tree json; /* where texts lie */
    cfx__map vocab;      /* a token: its number, and one */
    const char **tokens; /* by number; NULL: none */
    int64_t size;
    cfx__model_kind kind;
    const char *unknown, *prefix, *suffix; /* of tokens inside a word; at its end */
    bool fuse_unknown, byte_fallback, ignore_merges;
    int64_t longest; /* word of WordPiece */
    cfx__merge *merges;
    size_t nmerges; /* places, a power of two */
    struct cfx__added {
        const char *text; /* as it stands in a text, normalized where it says so */
        size_t len;
        int64_t id;
        bool single, left, right, normalized, special;
    } *added;
    size_t nadded;
    cfx__arena texts;
    cfx__steps normalizers, pretokenizers, decoders;
    cfx__ids before, after; /* special tokens around a text */
    int64_t most, padding;  /* tokens of a text, 0: any; -1: none */
    bool cut_left;
};

bool cfx__model_read(cfx_tokenizer *t, const cfx__json *model);
/* Adds the tokens of a piece. */
bool cfx__model_encode(const cfx_tokenizer *t, const cfx__piece *p, cfx__ids *to);
static inline int64_t cfx__vocab_get(const cfx_tokenizer *t, const char *text, size_t len) {
    return (int64_t)(uintptr_t)cfx__map_getn(&t->vocab, text, len) - 1;
}
/* Cuts the added tokens out of the pieces: those that are looked for before or after the
 * normalizers. */
void cfx__added_cut(const cfx_tokenizer *t, cfx__encoding *e, bool normalized);
bool cfx__added_read(cfx_tokenizer *t, const cfx__json *j);
/* The texts of all pieces go through the normalizers. */
bool cfx__normalize(const cfx_tokenizer *t, cfx__encoding *e);
bool cfx__normalize_text(const cfx_tokenizer *t, const cfx__encoding *e, const char *text,
                         size_t len, cfx__text *to);
bool cfx__template_read(cfx_tokenizer *t, const cfx__json *j);

#endif
