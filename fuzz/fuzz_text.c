/* Texts: graphs and code as torch.fx prints them. What parses prints, and the print parses to the
 * same print (asked for with CFX_FUZZ_ORACLE: odd bytes in names still differ). */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static char *text_of(const uint8_t *data, size_t size, char *room, size_t most) {
    size = size < most - 1 ? size : most - 1;
    memcpy(room, data, size);
    room[size] = 0;
    return room;
}

/* print(parse(text)), or NULL. */
static const char *once(const char *text, bool code) {
    cfx_module *m = cfx_module_parse(text, "fuzz.fx");
    const char *printed = !m ? NULL : code ? cfx_module_code(m) : cfx_graph_str(m->graph);
    bool fine = fuzz_fine();
    if (!m && fine)
        fuzz_wrong("neither a module nor an error");
    return fine ? printed : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char room[1 << 16];
    fuzz_begin();
    const char *text = text_of(data, size, room, sizeof room);
    for (int code = 0; code < 2; code++) {
        const char *first = once(text, code), *second = first ? once(first, code) : NULL;
        if (second && strcmp(first, second) != 0 && getenv("CFX_FUZZ_ORACLE"))
            fuzz_wrong("%s", "printed and parsed again, a text is another");
    }
    return fuzz_end();
}
