/* The table of pieces (tools/genkernels) and how they get into a file. */
#include "kernels.h"

typedef struct {
    const char *file;    /* that it is from, without .c */
    const char *defines; /* names with NAME_ before them, separated by blanks */
    const short *needs;  /* pieces; 0 ends them */
    const char *text;
} kernel_piece;

static const kernel_piece pieces[] = {
#include "kernels.inc"
};
_Static_assert(COUNT(pieces) <= CFX__KERNEL_MOST, "more pieces than a set holds");

static const char token[] = "NAME_";
enum { TOKEN = sizeof token - 1 };

static bool has(const cfx__kernels *k, int piece) { return k->used[piece / 64] >> piece % 64 & 1; }

static void use(cfx__kernels *k, int piece) {
    if (has(k, piece))
        return;
    k->used[piece / 64] |= (uint64_t)1 << piece % 64;
    for (const short *need = pieces[piece].needs; *need; need++)
        use(k, *need);
}

static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The piece that defines a name; 0: none. */
static int find(const char *name, size_t len) {
    for (int i = 1; i < COUNT(pieces); i++)
        for (const char *at = pieces[i].defines; at && *at;) {
            const size_t n = strcspn(at, " ");
            if (n == len + TOKEN && !memcmp(at + TOKEN, name, len))
                return i;
            at += n + (at[n] == ' ');
        }
    return 0;
}

bool cfx__kernels_use(cfx__kernels *k, const char *name) {
    const int piece = find(name, strlen(name));
    if (piece)
        use(k, piece);
    return piece != 0;
}

bool cfx__kernels_has(const char *name) { return find(name, strlen(name)) != 0; }

void cfx__kernels_use_in(cfx__kernels *k, const char *prefix, const char *text) {
    const size_t len = strlen(prefix);
    for (const char *at = text; *at;) {
        size_t n = 0;
        while (is_name(at[n]))
            n++;
        const int piece = n > len && !memcmp(at, prefix, len) ? find(at + len, n - len) : 0;
        if (piece)
            use(k, piece);
        at += n ? n : 1;
    }
}

/* Parentheses that are open, and where they stand: in the piece, and with another prefix. Lines
 * that go on inside of them begin behind them. */
typedef struct {
    int n;
    size_t was[16], is[16];
    bool comment;
} alignment;

/* A backslash at the end of a line of a macro stays in its column. */
static void put_backslash(size_t begin, cfx__text *to) {
    enum { COLUMN = 99 };
    while (to->len > begin && to->data[to->len - 1] == ' ')
        to->len--;
    do
        cfx__text_putc(to, ' ');
    while (to->len - begin < COLUMN);
    cfx__text_puts(to, "\\\n");
}

/* One line of a piece. */
static void put_line(const char *line, size_t len, const char *prefix, alignment *a,
                     cfx__text *to) {
    const size_t begin = to->len, blanks = strspn(line, " ");
    size_t i = 0, indent = blanks;
    if (a->n && !a->comment && blanks == a->was[a->n - 1] + 1)
        indent = a->is[a->n - 1] + 1;
    for (; i < blanks && i < len; i++)
        continue;
    for (size_t k = 0; k < indent && i < len; k++)
        cfx__text_putc(to, ' ');
    while (i < len) {
        const bool starts = i == 0 || !is_name(line[i - 1]);
        if (!strncmp(line + i, "/*", 2) || !strncmp(line + i, "*/", 2))
            a->comment = line[i] == '/';
        if (line[i] == '(' && !a->comment && a->n < COUNT(a->was)) {
            a->was[a->n] = i;
            a->is[a->n++] = to->len - begin;
        } else if (line[i] == ')' && !a->comment && a->n) {
            a->n--;
        }
        if (line[i] == '\\' && i + 1 == len) {
            put_backslash(begin, to);
            return;
        }
        if (starts && len - i > TOKEN && !memcmp(line + i, token, TOKEN)) {
            cfx__text_puts(to, prefix);
            i += TOKEN;
        } else {
            cfx__text_putc(to, line[i++]);
        }
    }
    cfx__text_putc(to, '\n');
}

/* What a piece needs comes before it. */
static void put_piece(const cfx__kernels *k, int i, const char *prefix, bool threads,
                      cfx__kernels *done, cfx__text *to) {
    static const char mark[] = "NAME_PARALLEL";
    if (!has(k, i) || has(done, i))
        return;
    done->used[i / 64] |= (uint64_t)1 << i % 64;
    for (const short *need = pieces[i].needs; *need; need++)
        put_piece(k, *need, prefix, threads, done, to);
    alignment a = {.n = 0};
    for (const char *line = pieces[i].text; *line;) {
        const size_t len = strcspn(line, "\n"), blanks = strspn(line, " ");
        if (len - blanks == sizeof mark - 1 && !memcmp(line + blanks, mark, sizeof mark - 1))
            cfx__text_puts(to, threads ? "#pragma omp parallel for schedule(dynamic)\n" : "");
        else
            put_line(line, len, prefix, &a, to);
        line += len + 1;
    }
    cfx__text_putc(to, '\n');
}

void cfx__kernels_write(const cfx__kernels *k, const char *prefix, bool threads, cfx__text *to) {
    cfx__kernels done = {{0}};
    for (int i = 1; i < COUNT(pieces); i++)
        put_piece(k, i, prefix, threads, &done, to);
}
