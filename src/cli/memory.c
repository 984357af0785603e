/* cfx run --memory: the bytes alive over the program as a picture, and what is alive at the peak.
 */
#define _GNU_SOURCE /* qsort_r */
#include "profile.h"

#include <string.h>

#include "../graph/graph.h"

enum { /* pixels */
    WIDTH = 1000,
    HEIGHT = 320,
    LEFT = 80,
    TOP = 56,
    ROW = 18,
    LISTED = 20
};

/* Rows of the program's own graph: their numbers. */
typedef VEC(int) numbers;

static numbers own_rows(const cfx_cost *c, const cfx_program *p) {
    numbers own = {0};
    for (int i = 0; i < c->n; i++)
        if (c->nodes[i].owner == p->module)
            VEC_PUSH(own, i);
    return own;
}

static int by_bytes(const void *a, const void *b, void *cost) {
    const cfx_node_cost *nodes = ((const cfx_cost *)cost)->nodes;
    int64_t x = nodes[*(const int *)a].bytes, y = nodes[*(const int *)b].bytes;
    return x < y ? 1 : x > y ? -1 : *(const int *)a - *(const int *)b;
}

static void put_style(cfx__text *t, int height) {
    cfx__text_printf(t,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                     "viewBox=\"0 0 %d %d\">\n<style>\n"
                     "text{font:12px ui-monospace,'DejaVu Sans Mono',monospace;fill:#1e293b}\n"
                     ".bg{fill:#fff}.area{fill:#2563eb;fill-opacity:.25;stroke:#2563eb}\n"
                     ".axis{fill:none;stroke:#94a3b8;stroke-width:1}\n"
                     ".peak{stroke:#dc2626;stroke-width:1}\n"
                     ".bar{fill:#2563eb;fill-opacity:.35}.h{font-size:15px;font-weight:bold}\n"
                     ".q{fill:#64748b}\n@media(prefers-color-scheme:dark){text{fill:#e2e8f0}\n"
                     ".bg{fill:#0b1120}.area{fill:#60a5fa;stroke:#60a5fa}.bar{fill:#60a5fa}\n"
                     ".q{fill:#94a3b8}}\n</style>\n<rect class=\"bg\" width=\"%d\" "
                     "height=\"%d\"/>\n",
                     WIDTH, height, WIDTH, height, WIDTH, height);
}

/* Text between the tags; names may hold signs that XML has for itself. */
static void put_text(cfx__text *t, int x, int y, const char *class, const char *text) {
    cfx__text_printf(t, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
    for (; *text; text++) {
        const char *safe = *text == '<'   ? "&lt;"
                           : *text == '>' ? "&gt;"
                           : *text == '&' ? "&amp;"
                                          : NULL;
        if (safe)
            cfx__text_puts(t, safe);
        else
            cfx__text_putc(t, *text);
    }
    cfx__text_puts(t, "</text>\n");
}

/* The curve: a step for each node. */
static void put_curve(cfx__text *t, const cfx_cost *c, const numbers *own) {
    double wide = (double)(WIDTH - LEFT - 20) / (double)own->len, high = HEIGHT;
    double most = c->peak > 0 ? (double)c->peak : 1;
    cfx__text_printf(t, "<path class=\"area\" d=\"M%d %d", LEFT, TOP + HEIGHT);
    for (size_t i = 0; i < own->len; i++)
        cfx__text_printf(t, "V%.1fH%.1f",
                         TOP + high - high * (double)c->nodes[own->data[i]].live / most,
                         LEFT + wide * (double)(i + 1));
    cfx__text_printf(t, "V%dZ\"/>\n", TOP + HEIGHT);
    for (size_t i = 0; i < own->len; i++) {
        if (own->data[i] != c->peak_at)
            continue;
        double x = LEFT + wide * ((double)i + 0.5);
        cfx__text_printf(t, "<path class=\"peak\" d=\"M%.1f %dV%d\"/>\n", x, TOP - 6, TOP + HEIGHT);
    }
    cfx__text_printf(t, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, TOP + HEIGHT,
                     WIDTH - 20);
}

static void put_alive(cfx__text *t, const cfx_cost *c, const numbers *alive) {
    int y = TOP + HEIGHT + 44;
    put_text(t, 16, y, "h", "alive at the peak");
    for (size_t i = 0; i < alive->len && i < LISTED; i++) {
        const cfx_node_cost *n = &c->nodes[alive->data[i]];
        cfx_result r = cfx_node_result(n->node);
        y += ROW;
        cfx__text_printf(t, "<rect class=\"bar\" x=\"16\" y=\"%d\" width=\"%.1f\" "
                            "height=\"%d\"/>\n",
                         y - 12, 400.0 * (double)n->bytes / (double)(c->peak ? c->peak : 1),
                         ROW - 3);
        put_text(t, 20, y, "", cfx__text_format("%s", cli_bytes(n->bytes)));
        put_text(t, 120, y, "", n->node->name);
        put_text(t, 440, y, "q", cfx_result_text(&r));
    }
}

bool cli_memory_write(const cli_profile *p, const char *path) {
    const cfx_cost *c = p->cost;
    if (!c || c->peak_at < 0) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "nothing tells the sizes of the program's values: there is nothing to draw");
        return false;
    }
    numbers own = own_rows(c, p->program), alive = {0};
    for (size_t i = 0; i < own.len; i++) {
        const cfx_node_cost *n = &c->nodes[own.data[i]];
        if (n->bytes && own.data[i] <= c->peak_at && n->freed >= c->peak_at)
            VEC_PUSH(alive, own.data[i]);
    }
    if (alive.len)
        qsort_r(alive.data, alive.len, sizeof *alive.data, by_bytes, (void *)c);
    size_t rows = alive.len < LISTED ? alive.len : LISTED;
    cfx__text t = {0};
    put_style(&t, TOP + HEIGHT + 70 + ROW * (int)rows);
    put_text(&t, 16, 24, "h", "bytes alive while the program runs");
    put_text(&t, 16, 42, "q",
             cfx__text_format("at most %s, at %s; weights are not counted", cli_bytes(c->peak),
                              c->nodes[c->peak_at].node->name));
    put_text(&t, 8, TOP + 12, "q", cli_bytes(c->peak));
    put_curve(&t, c, &own);
    put_alive(&t, c, &alive);
    cfx__text_puts(&t, "</svg>\n");
    bool fine = cfx__file_write(path, t.data, t.len);
    cfx__text_release(&t);
    VEC_FREE(own);
    VEC_FREE(alive);
    return fine;
}
