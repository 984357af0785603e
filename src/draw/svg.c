/* The scene as SVG: one group for each node with its title and anchor, one path for the wires of
 * each value in a frame. Colours are classes in a style sheet that knows a light and a dark form,
 * so the viewer's setting decides. Text is of the viewer's own fixed-width font, told how wide to
 * be. */
#include "draw.h"

enum { PAGE = 16, TITLE_H = 26, LEGEND_H = 22 }; /* pixels */

/* ---- pieces -------------------------------------------------------------------------------- */

static void put_int(cfx__text *out, int n) {
    char digits[12];
    int at = sizeof digits;
    unsigned u = n < 0 ? 0u - (unsigned)n : (unsigned)n;
    do
        digits[--at] = (char)('0' + u % 10);
    while (u /= 10);
    if (n < 0)
        digits[--at] = '-';
    cfx__text_add(out, digits + at, sizeof digits - (size_t)at);
}

/* " x=" and so on: a text and a number behind it. */
static void put(cfx__text *out, const char *text, int n) {
    cfx__text_puts(out, text);
    put_int(out, n);
}

/* The bytes of the UTF-8 character at `at`; 0 where there is none that XML may hold. */
static size_t sound(const char *at, size_t left) {
    uint32_t code = 0;
    size_t n = cfx__utf8_get(at, left, &code);
    bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (n == 1)
        return code >= 0x20 || code == '\t' || code == '\n';
    return surrogate || code == 0xfffe || code == 0xffff ? 0 : n;
}

/* Bytes that stand for themselves in text and in attribute values. */
static bool is_plain(char c) {
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x7f && c != '<' && c != '>' &&
           c != '&' && c != '"' && c != '\'';
}

/* Text and attribute values alike. What XML cannot hold becomes a replacement character. */
static void put_escaped(cfx__text *out, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        size_t plain = i;
        while (plain < len && is_plain(text[plain]))
            plain++;
        cfx__text_add(out, text + i, plain - i);
        i = plain;
        if (i == len)
            break;
        size_t n = sound(text + i, len - i);
        switch (text[i]) {
        case '<':
            cfx__text_puts(out, "&lt;");
            break;
        case '>':
            cfx__text_puts(out, "&gt;");
            break;
        case '&':
            cfx__text_puts(out, "&amp;");
            break;
        case '"':
            cfx__text_puts(out, "&quot;");
            break;
        case '\'':
            cfx__text_puts(out, "&#39;");
            break;
        default:
            if (n)
                cfx__text_add(out, text + i, n);
            else
                cfx__text_puts(out, "\xef\xbf\xbd");
        }
        i += n ? n : 1;
    }
}

static void put_string(cfx__text *out, const char *text) { put_escaped(out, text, strlen(text)); }

/* ---- the style sheet ----------------------------------------------------------------------- */

static void put_tones(cfx__text *out, const bool *used, bool dark) {
    for (int f = 0; f < CFX__FAMILY_COUNT; f++) {
        const cfx__draw_tone *t = dark ? &cfx__draw_tones[f].dark : &cfx__draw_tones[f].light;
        if (used[f])
            cfx__text_printf(out, ".f%d>rect{fill:%s;stroke:%s}\n", f, t->fill, t->line);
    }
}

static void put_style(cfx__text *out, const bool *used) {
    cfx__text_puts(
        out, "<style>\n"
             "text{font:11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;"
             "fill:#1e293b;white-space:pre}\n"
             "svg,.bg{background:#fff}.bg{fill:#fff}\n"
             ".h{font-size:15px;font-weight:bold}.q{fill:#64748b}.n{font-weight:bold}\n"
             ".m{fill:#64748b}.c{fill:#475569}.p{fill:#7c3aed}.s{fill:#0369a1}.x{fill:#b91c1c}\n"
             ".t{font-size:10px;fill:#64748b}a .t{fill:#2563eb}\n"
             ".w{fill:none;stroke:#64748b;stroke-width:1.2}.a{fill:#64748b}\n"
             ".u{fill:none;stroke:#2563eb;stroke-width:1.2}\n"
             ".g>rect{fill:#64748b;fill-opacity:.05;stroke:#7b879b;stroke-width:1}\n"
             ".d>rect{fill:#c026d3;fill-opacity:.05;stroke:#c026d3;stroke-width:1}\n"
             ".k{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\n"
             ".o>rect{stroke-width:2.5}.y{opacity:.6}\n"
             ".l text{fill:#111827}\n"
             "g:target>rect{stroke:#dc2626;stroke-width:3}\n");
    put_tones(out, used, false);
    cfx__text_puts(out, "@media(prefers-color-scheme:dark){\n"
                        "text{fill:#e2e8f0}svg,.bg{background:#0b1120}.bg{fill:#0b1120}\n"
                        ".q,.m,.t{fill:#94a3b8}.c{fill:#cbd5e1}.p{fill:#c4b5fd}.s{fill:#7dd3fc}"
                        ".x{fill:#fca5a5}a .t{fill:#93c5fd}\n"
                        ".w{stroke:#94a3b8}.a{fill:#94a3b8}.u{stroke:#93c5fd}.k{stroke:#0b1120}\n"
                        ".g>rect{stroke:#66768f}.l text{fill:#111827}\n");
    put_tones(out, used, true);
    cfx__text_puts(out, "}\n</style>\n");
}

/* ---- titles and anchors -------------------------------------------------------------------- */

static void put_anchor(cfx__text *out, const cfx__draw_scene *s, const cfx__draw_item *i) {
    if (i->kind == CFX__ITEM_MODULE || i->kind == CFX__ITEM_REPEAT) {
        cfx__text_puts(out, i->kind == CFX__ITEM_MODULE ? "module:" : "modules:");
        put_string(out, s->sheets.data[i->graph].prefix);
        put_string(out, i->path);
        if (i->call > 1)
            put(out, "@", i->call);
        return;
    }
    put_string(out, s->sheets.data[i->graph].prefix);
    if (i->node)
        put_string(out, i->node->name);
}

enum { LONG_TITLE = 600 }; /* bytes of a node's text in its title */

static void put_node_title(cfx__text *out, cfx__text *scratch, const cfx_node *n) {
    scratch->len = 0;
    cfx__node_format(scratch, n);
    size_t len = scratch->len < LONG_TITLE ? scratch->len : LONG_TITLE;
    while (len < scratch->len && len && ((unsigned char)scratch->data[len] & 0xc0) == 0x80)
        len--; /* not in the middle of a character */
    put_escaped(out, scratch->data, len);
    if (len < scratch->len)
        cfx__text_puts(out, " \xe2\x80\xa6");
}

static void put_title(cfx__text *out, cfx__text *scratch, const cfx__draw_scene *s,
                      const cfx__draw_item *i) {
    cfx__text_puts(out, "<title>");
    if (i->node)
        put_node_title(out, scratch, i->node);
    else
        put_string(out, i->path);
    for (int k = 0; i->node && k < i->nlines; k++) {
        const cfx__draw_line *line = &s->lines.data[i->line + k];
        if (line->style != CFX__LINE_SHAPE)
            continue;
        cfx__text_putc(out, '\n');
        put_escaped(out, s->text.data + line->at, line->len);
    }
    if (i->node && i->path) {
        cfx__text_puts(out, "\nmodule ");
        put_string(out, i->path);
    }
    if (i->type) {
        cfx__text_puts(out, ": ");
        put_string(out, i->type);
    }
    scratch->len = 0;
    if (i->node && cfx__draw_put_source(scratch, i->node)) {
        cfx__text_putc(out, '\n');
        put_escaped(out, scratch->data, scratch->len);
    }
    cfx__text_puts(out, "</title>");
}

/* ---- boxes --------------------------------------------------------------------------------- */

typedef struct painter {
    cfx__text *out;
    cfx__draw_scene *s;
    cfx__text scratch;
    bool used[CFX__FAMILY_COUNT];
    int top; /* of the root frame on the page */
} painter;

static void put_text(painter *p, const char *class, int x, int y, const char *text, size_t len,
                     int width) {
    put(p->out, "<text x=\"", x);
    put(p->out, "\" y=\"", y);
    if (class) {
        cfx__text_puts(p->out, "\" class=\"");
        cfx__text_puts(p->out, class);
    }
    if (width)
        put(p->out, "\" textLength=\"", width);
    cfx__text_puts(p->out, "\">");
    put_escaped(p->out, text, len);
    cfx__text_puts(p->out, "</text>");
}

static void put_rect(painter *p, int x, int y, int w, int h, int round, const char *fill) {
    put(p->out, "<rect x=\"", x);
    put(p->out, "\" y=\"", y);
    put(p->out, "\" width=\"", w);
    put(p->out, "\" height=\"", h);
    put(p->out, "\" rx=\"", round);
    if (fill) {
        cfx__text_puts(p->out, "\" style=\"fill:");
        cfx__text_puts(p->out, fill);
    }
    cfx__text_puts(p->out, "\"/>");
}

static const char *const line_classes[] = {
    [CFX__LINE_NAME] = "n",     [CFX__LINE_OP] = NULL,       [CFX__LINE_MODULE] = "m",
    [CFX__LINE_CONSTANT] = "c", [CFX__LINE_PARAMETER] = "p", [CFX__LINE_SHAPE] = "s",
    [CFX__LINE_EXTRA] = "x"};

/* The lines of an item from (x, y) down. */
static void put_lines(painter *p, const cfx__draw_item *i, int x, int y, const char *class) {
    for (int k = 0; k < i->nlines; k++) {
        const cfx__draw_line *line = &p->s->lines.data[i->line + k];
        put_text(p, class ? class : line_classes[line->style], x, y + 12 + k * CFX__LINE_H,
                 p->s->text.data + line->at, line->len,
                 line->width > 2 ? line->width * CFX__CHAR_W - CFX__CHAR_W / 3 : 0);
    }
}

/* Inputs that are cut, on the left; on the right, how many uses are. */
static void put_stubs(painter *p, const cfx__draw_item *i) {
    int y = p->top + i->y, rows = i->nstubs > CFX__MAX_STUBS ? CFX__MAX_STUBS + 1 : i->nstubs;
    size_t mark = cfx_scope_open();
    for (int k = 0; k < rows; k++) {
        int at = y + 10 + k * CFX__LINE_H, from = -1;
        if (k < CFX__MAX_STUBS || i->nstubs == rows)
            from = p->s->stubs.data[i->stub + k].from;
        const char *text = cfx__draw_stub_text(p->s, i, k);
        size_t len = strlen(text);
        int width = cfx__draw_text_width(text, len) * CFX__STUB_W;
        if (from >= 0) {
            cfx__text_puts(p->out, "<a href=\"#");
            put_anchor(p->out, p->s, cfx__draw_item_at(p->s, from));
            cfx__text_puts(p->out, "\">");
        }
        put_text(p, "t", i->x - CFX__STUB_LINE - 3 - width, at + 4, text, len, width);
        if (from >= 0)
            cfx__text_puts(p->out, "</a>");
        put(p->out, "<path class=\"u\" d=\"M", i->x - CFX__STUB_LINE);
        put(p->out, " ", at);
        cfx__text_puts(p->out, "h13m-4 -3l4 3l-4 3\"/>");
    }
    if (i->uses) {
        int at = y + i->h - 10;
        put(p->out, "<path class=\"u\" d=\"M", i->x + i->w);
        put(p->out, " ", at);
        cfx__text_puts(p->out, "h12\"/>");
        const char *text = cfx__text_format("%d use%s", i->uses, i->uses == 1 ? "" : "s");
        put_text(p, "t", i->x + i->w + CFX__STUB_LINE + 1, at + 4, text, strlen(text), 0);
    }
    cfx_scope_close(mark);
}

/* Whether text on a colour of the caller's is black whatever the viewer's setting: most colours are
 * told as #rrggbb, and those that are dark are left to the style sheet. */
static bool is_light(const char *colour) {
    unsigned r, g, b;
    if (colour[0] != '#' || strlen(colour) != 7 || sscanf(colour + 1, "%2x%2x%2x", &r, &g, &b) != 3)
        return true;
    return 299 * r + 587 * g + 114 * b > 140000;
}

/* A group with its anchor and title. class NULL: that of its family. */
static void open_group(painter *p, const cfx__draw_item *i, const char *class) {
    cfx__text_puts(p->out, "<g id=\"");
    put_anchor(p->out, p->s, i);
    cfx__text_puts(p->out, "\" class=\"");
    if (class)
        cfx__text_puts(p->out, class);
    else
        put(p->out, "f", i->family);
    if (i->fill && is_light(i->fill))
        cfx__text_puts(p->out, " l");
    if (p->s->options->focus && i->node)
        cfx__text_puts(p->out, i->context ? " y" : " o");
    cfx__text_puts(p->out, "\">");
    put_title(p->out, &p->scratch, p->s, i);
}

static void put_box(painter *p, const cfx__draw_item *i) {
    open_group(p, i, NULL);
    bool round = i->family == CFX__FAMILY_INPUT || i->family == CFX__FAMILY_OUTPUT;
    if (i->kind == CFX__ITEM_MODULE || i->kind == CFX__ITEM_HOLDER) /* closed: more is behind it */
        put_rect(p, i->x + 3, p->top + i->y + 3, i->w, i->h, 5, NULL);
    put_rect(p, i->x, p->top + i->y, i->w, i->h, round ? 12 : 5, i->fill);
    int used = i->nlines * CFX__LINE_H + 10;
    put_lines(p, i, i->x + CFX__PAD, p->top + i->y + 4 + (i->h - used) / 2, NULL);
    put_stubs(p, i);
    cfx__text_puts(p->out, "</g>\n");
}

static void put_frame(painter *p, const cfx__draw_item *i) {
    open_group(p, i, i->kind == CFX__ITEM_HOLDER ? "d" : "g");
    put_rect(p, i->x, p->top + i->y, i->w, i->h, 8, i->fill);
    cfx__text_puts(p->out, "</g>\n");
}

/* Frame titles come last, over the wires. */
static void put_frame_lines(painter *p, const cfx__draw_item *i) {
    bool node = i->kind == CFX__ITEM_HOLDER;
    put_lines(p, i, i->x + i->title, p->top + i->y + 4, node ? NULL : "m k");
    if (i->nstubs || i->uses)
        put_stubs(p, i);
    cfx__text_putc(p->out, '\n');
}

/* ---- wires --------------------------------------------------------------------------------- */

static void put_pair(cfx__text *out, const char *command, int x, int y) {
    put(out, command, x);
    put(out, " ", y);
}

static void put_stroke(cfx__text *out, const cfx__draw_stroke *t, int x, int y) {
    put_pair(out, "M", x + t->x0, y + t->y0);
    if (t->turn0 != t->y0)
        put(out, "V", y + t->turn0);
    if (t->lane) {
        put(out, "H", x + t->lane);
        put(out, "V", y + t->turn1);
        put(out, "H", x + t->x1);
        put(out, "V", y + t->y1);
        return;
    }
    if (t->x0 != t->x1) {
        int middle = (t->turn0 + t->turn1) / 2;
        put_pair(out, "C", x + t->x0, y + middle);
        put_pair(out, " ", x + t->x1, y + middle);
        put_pair(out, " ", x + t->x1, y + t->turn1);
    }
    if (t->x0 == t->x1 || t->turn1 != t->y1)
        put(out, "V", y + t->y1);
}

/* Strokes come sorted by frame and, in each, by value as far as they are near each other. */
static void put_wires(painter *p) {
    const cfx__draw_stroke *strokes = p->s->strokes.data;
    size_t n = p->s->strokes.len;
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && strokes[end].frame == strokes[i].frame &&
               strokes[end].from == strokes[i].from)
            end++;
        const cfx__draw_item *frame = cfx__draw_item_at(p->s, strokes[i].frame);
        const cfx__draw_item *from = cfx__draw_item_at(p->s, strokes[i].from);
        int x = frame->x, y = p->top + frame->y;
        cfx__text_puts(p->out, "<path class=\"w\" d=\"");
        for (size_t k = i; k < end; k++)
            put_stroke(p->out, &strokes[k], x, y);
        cfx__text_puts(p->out, "\"><title>");
        put_string(p->out, from->node ? from->node->name : from->path);
        cfx__text_puts(p->out, "</title></path>\n");
        bool heads = false;
        for (size_t k = i; k < end; k++) {
            if (!strokes[k].head)
                continue;
            cfx__text_puts(p->out, heads ? "" : "<path class=\"a\" d=\"");
            heads = true;
            put_pair(p->out, "M", x + strokes[k].x1, y + strokes[k].y1);
            cfx__text_puts(p->out, "l-3 -6h6z");
        }
        cfx__text_puts(p->out, heads ? "\"/>\n" : "");
        i = end;
    }
}

/* ---- the page ------------------------------------------------------------------------------ */

static int legend_width(const painter *p) {
    int w = 0;
    for (int f = 0; f < CFX__FAMILY_COUNT; f++)
        if (p->used[f])
            w += 18 + 12 + (int)strlen(cfx__draw_family_name((cfx__draw_family)f)) * CFX__STUB_W;
    return w;
}

static void put_legend(painter *p, int width) {
    int x = PAGE, y = PAGE + TITLE_H;
    for (int f = 0; f < CFX__FAMILY_COUNT; f++) {
        if (!p->used[f])
            continue;
        const char *name = cfx__draw_family_name((cfx__draw_family)f);
        int w = 18 + 12 + (int)strlen(name) * CFX__STUB_W;
        if (x > PAGE && x + w > PAGE + width) {
            x = PAGE;
            y += LEGEND_H - 4;
        }
        cfx__text_puts(p->out, "<g class=\"f");
        put_int(p->out, f);
        cfx__text_puts(p->out, "\">");
        put_rect(p, x, y, 12, 12, 3, NULL);
        put_text(p, "t", x + 17, y + 10, name, strlen(name), 0);
        cfx__text_puts(p->out, "</g>");
        x += w;
    }
    cfx__text_putc(p->out, '\n');
}

static int legend_rows(const painter *p, int width) {
    int x = 0, rows = 1;
    for (int f = 0; f < CFX__FAMILY_COUNT; f++) {
        if (!p->used[f])
            continue;
        int w = 18 + 12 + (int)strlen(cfx__draw_family_name((cfx__draw_family)f)) * CFX__STUB_W;
        if (x && x + w > width)
            x = 0, rows++;
        x += w;
    }
    return rows;
}

/* What the picture is of, and what it leaves out. Weights are lines of the nodes that use them. */
static const char *subtitle(const cfx__draw_scene *s) {
    int nodes = s->items.data[0].nodes;
    const char *text = cfx__text_format("%d node%s", nodes, nodes == 1 ? "" : "s");
    if (s->options->focus)
        text = cfx__text_format("%s, those at '%s'", text, s->options->focus);
    bool closed = false;
    for (size_t i = 1; i < s->items.len && !closed; i++)
        closed = s->items.data[i].seen && !s->items.data[i].open && s->items.data[i].nodes > 1;
    return closed ? cfx__text_format("%s, modules below depth %d closed", text, s->depth) : text;
}

bool cfx__draw_write_svg(cfx__text *out, cfx__draw_scene *s) {
    painter p = {.out = out, .s = s};
    const cfx__draw_item *root = cfx__draw_item_at(s, 0);
    const char *below = subtitle(s);
    for (size_t i = 1; i < s->items.len; i++)
        if (s->items.data[i].seen && !s->items.data[i].open)
            p.used[s->items.data[i].family] = true;
    int name = cfx__draw_text_width(s->name, strlen(s->name)) * 9 + 12;
    int title = name + (int)strlen(below) * CFX__STUB_W + 2 * PAGE, legend = legend_width(&p);
    int width = root->w > title ? root->w : title;
    if (legend < 560 && legend > width)
        width = legend;
    if (width < 320)
        width = 320;
    int rows = legend_rows(&p, width);
    p.top = PAGE + TITLE_H + rows * (LEGEND_H - 4) + 6;
    int w = width + 2 * PAGE, h = p.top + root->h + PAGE;
    cfx__draw_item_at(s, 0)->x = PAGE + (width - root->w) / 2;
    for (size_t i = 1; i < s->items.len; i++)
        s->items.data[i].x += s->items.data[0].x;
    put(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", w);
    put(out, "\" height=\"", h);
    put(out, "\" viewBox=\"0 0 ", w);
    put(out, " ", h);
    cfx__text_puts(out, "\">\n<title>");
    put_string(out, s->name);
    cfx__text_puts(out, "</title>\n");
    put_style(out, p.used);
    put(out, "<rect class=\"bg\" width=\"", w);
    put(out, "\" height=\"", h);
    cfx__text_puts(out, "\"/>\n");
    put_text(&p, "h", PAGE, PAGE + 14, s->name, strlen(s->name), 0);
    put_text(&p, "t q", PAGE + name, PAGE + 14, below, strlen(below), 0);
    put_legend(&p, width);
    for (size_t i = 1; i < s->items.len; i++)
        if (cfx__draw_is_frame(&s->items.data[i]))
            put_frame(&p, &s->items.data[i]);
    put_wires(&p);
    for (size_t i = 1; i < s->items.len; i++) {
        if (cfx__draw_is_frame(&s->items.data[i]))
            put_frame_lines(&p, &s->items.data[i]);
        else if (s->items.data[i].seen)
            put_box(&p, &s->items.data[i]);
    }
    cfx__text_puts(out, "</svg>\n");
    cfx__text_release(&p.scratch);
    return true;
}
