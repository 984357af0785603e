/* The public face: what is to be drawn is checked, drawn as text, and written to a file whole or
 * not at all. */
#include "draw.h"

void cfx__draw_scene_release(cfx__draw_scene *s) {
    for (size_t i = 0; i < s->sheets.len; i++) {
        cfx__free(s->sheets.data[i].item);
        cfx__free(s->sheets.data[i].mark);
        cfx__free(s->sheets.data[i].family);
        cfx__free(s->sheets.data[i].fold);
    }
    VEC_FREE(s->items);
    VEC_FREE(s->sheets);
    VEC_FREE(s->lines);
    VEC_FREE(s->wires);
    VEC_FREE(s->legs);
    VEC_FREE(s->stubs);
    VEC_FREE(s->strokes);
    cfx__free(s->legs_of);
    cfx__free(s->first_leg);
    cfx__text_release(&s->text);
    cfx__arena_release(&s->arena);
    cfx__map_release(&s->calls);
    cfx__text_release(&s->frames);
}

bool cfx__draw_scene_make(cfx__draw_scene *s, cfx_graph *g, cfx_module *gm, cfx_program *p,
                          const cfx_draw_options *o) {
    *s = (cfx__draw_scene){.options = o, .name = o->name ? o->name : gm ? gm->type : "graph"};
    s->groups = o->form == CFX_HTML || (!o->all && !o->depth && !o->focus);
    if (o->form == CFX_HTML)
        s->ordered = cfx__draw_html_frame;
    if (!cfx__draw_tree(s, g, gm, p))
        return false;
    cfx__draw_wires(s);
    if (!cfx__draw_labels(s))
        return false;
    cfx__draw_layout(s);
    return true;
}

/* Whether there is a graph that can be drawn, sub-graphs included; an error where not. */
static bool check(cfx_graph *g, cfx_module *gm, int deep) {
    if (!cfx_graph_len(g)) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0}, "%s is empty: there is no node to draw",
                 deep ? "a sub-graph" : "the graph");
        return false;
    }
    if (!cfx__graph_lint(g, gm, NULL)) {
        cfx_error_note("a graph that is not well-formed cannot be drawn");
        return false;
    }
    cfx_each_node(g, n) {
        cfx_module *m = deep < CFX__MAX_NESTING ? cfx__draw_subgraph(gm, n) : NULL;
        if (m && !check(m->graph, m, deep + 1))
            return false;
    }
    return true;
}

static const char *draw(cfx_graph *g, cfx_module *gm, cfx_program *p, const cfx_draw_options *o) {
    if (!cfx_ok() || !check(g, gm, 0))
        return NULL;
    if (o->depth < 0) {
        cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
                 "a depth of %d: it must be at least 1, or 0 for "
                 "the one that fits",
                 o->depth);
        return NULL;
    }
    size_t mark = cfx_scope_open();
    cfx__text out = {0};
    bool ok;
    if (o->form == CFX_DOT) {
        ok = cfx__draw_write_dot(&out, g, gm, o->name ? o->name : gm ? gm->type : "graph", o);
    } else {
        cfx__draw_scene s;
        ok = cfx__draw_scene_make(&s, g, gm, p, o) &&
             (o->form == CFX_HTML ? cfx__draw_write_html(&out, &s) : cfx__draw_write_svg(&out, &s));
        cfx__draw_scene_release(&s);
    }
    cfx_scope_close(mark);
    if (ok)
        return cfx__text_take(&out);
    cfx__text_release(&out);
    return NULL;
}

static bool is_graph_module(const cfx_module *gm) {
    if (gm && gm->graph)
        return true;
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0},
             "only a GraphModule can be drawn, not %s: trace it "
             "first",
             gm ? gm->type : "NULL");
    return false;
}

const char *cfx_graph_draw(cfx_graph *g, cfx_draw_options options) {
    return cfx__graph_given(g) ? draw(g, NULL, NULL, &options) : NULL;
}

const char *cfx_module_draw(cfx_module *gm, cfx_draw_options options) {
    return is_graph_module(gm) ? draw(gm->graph, gm, NULL, &options) : NULL;
}

const char *cfx_program_draw(cfx_program *p, cfx_draw_options options) {
    if (p)
        return draw(p->module->graph, p->module, p, &options);
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no program to draw");
    return NULL;
}

/* ---- files --------------------------------------------------------------------------------- */

static bool form_of(const char *path, cfx_draw_form *form) {
    static const char *const endings[] = {[CFX_SVG] = ".svg", [CFX_DOT] = ".dot",
                                          [CFX_HTML] = ".html"};
    const char *dot = path ? strrchr(path, '.') : NULL;
    for (int i = 0; dot && i < COUNT(endings); i++)
        if (!strcmp(dot, endings[i])) {
            *form = (cfx_draw_form)i;
            return true;
        }
    cfx_fail(CFX_VALUE_ERROR, (cfx_site){0},
             "'%s' has no known format: the name must end in .svg, .html or .dot",
             path ? path : "NULL");
    return false;
}

static bool to_file(cfx_graph *g, cfx_module *gm, cfx_program *p, const char *path,
                    cfx_draw_options *o) {
    if (!form_of(path, &o->form))
        return false;
    size_t mark = cfx_scope_open();
    const char *text = draw(g, gm, p, o);
    bool ok = text && cfx__file_write(path, text, strlen(text));
    cfx_scope_close(mark);
    return ok;
}

bool cfx_graph_draw_file(cfx_graph *g, const char *path, cfx_draw_options options) {
    return cfx__graph_given(g) && to_file(g, NULL, NULL, path, &options);
}

bool cfx_module_draw_file(cfx_module *gm, const char *path, cfx_draw_options options) {
    return is_graph_module(gm) && to_file(gm->graph, gm, NULL, path, &options);
}

bool cfx_program_draw_file(cfx_program *p, const char *path, cfx_draw_options options) {
    if (p)
        return to_file(p->module->graph, p->module, p, path, &options);
    cfx_fail(CFX_TYPE_ERROR, (cfx_site){0}, "there is no program to draw");
    return false;
}

void cfx_print_drawing(cfx_module *gm, FILE *out, cfx_draw_options options) {
    size_t mark = cfx_scope_open();
    const char *text = cfx_module_draw(gm, options);
    if (text && out)
        fputs(text, out);
    cfx_scope_close(mark);
}
