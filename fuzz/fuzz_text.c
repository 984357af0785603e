/* Texts: graphs and code as torch.fx prints them. What parses prints, and the print parses to the
 * same print. */
#include "fuzz.h"

#include "graph/graph.h"

#include <string.h>

static char *text_of(const uint8_t *data, size_t size, char *room, size_t most) {
    size = size < most - 1 ? size : most - 1;
    memcpy(room, data, size);
    room[size] = 0;
    return room;
}

static bool limit;    /* the last text ran into a limit */
static bool bare;     /* print(graph) leaves texts without quotes, as torch.fx does */
static char why[200]; /* what was wrong with it */

static bool is_bare(cfx_value v) {
    bool found = false;
    if (v.tag == CFX_TAG_STR)
        found = !cfx__name_is_identifier(cfx_text(v), strlen(cfx_text(v)));
    for (int64_t i = 0; (v.tag == CFX_TAG_LIST || v.tag == CFX_TAG_TUPLE) && i < cfx_len(v); i++)
        found |= is_bare(cfx_at(v, i));
    for (int64_t i = 0; v.tag == CFX_TAG_DICT && i < cfx_as_dict(v)->len; i++)
        found |= is_bare(cfx_as_dict(v)->entries[i].key) ||
                 is_bare(cfx_as_dict(v)->entries[i].value);
    return found;
}

/* print(parse(text)), or NULL. */
static const char *once(const char *text, bool code) {
    cfx_module *m = cfx_module_parse(text, "fuzz.fx");
    const char *printed = !m ? NULL : code ? cfx_module_code(m) : cfx_graph_str(m->graph);
    limit = fuzz_limited();
    if (!cfx_ok())
        snprintf(why, sizeof why, "%s", cfx_error_last()->message);
    bool fine = fuzz_fine();
    bool whole = fine && !cfx_failed(m) && printed && !code;
    bare = whole && strstr(printed, "(default=");
    if (whole)
        cfx_each_node(m->graph, n) bare |= is_bare(n->args) || is_bare(n->kwargs);
    if (!m && fine)
        fuzz_wrong("neither a module nor an error");
    if (fine && !cfx_failed(m))
        cfx_module_code(cfx_symbolic_trace(m));
    fuzz_fine();
    return fine ? printed : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char room[1 << 16];
    fuzz_begin();
    const char *text = text_of(data, size, room, sizeof room);
    for (int code = 0; code < 2; code++) {
        const char *first = once(text, code);
        bool loose = bare;
        const char *second = first ? once(first, code) : NULL;
        bool limited = loose || (first && !second && limit);
        if (first && !limited && (!second || strcmp(first, second) != 0))
            fuzz_wrong("printed and parsed again, a text is another:\n%s\n%s", first,
                       second ? second : why);
    }
    fuzz_use(cfx_program_parse(text, "fuzz.fx"));
    return fuzz_end();
}
