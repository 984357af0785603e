/* cfx --version: which cfx this is, and how it was built. */
#include "cli.h"

#include <yajl/yajl_version.h>
#include <zlib.h>

#include "../feed/feed.h"
#include "commit.h" /* made by the build */

/* Libraries that are opened when needed; the first two only where the build knows them. */
static void print_opened(void) {
    static const struct {
        const char *called, *files[3];
    } all[] = {
#ifdef CFX_DNN_FILE
        {"oneDNN", {CFX_DNN_FILE, NULL}},
#endif
#ifdef CFX_BLAS_FILE
        {"OpenBLAS", {CFX_BLAS_FILE, NULL}},
#endif
        {"libturbojpeg", {"libturbojpeg.so.0", NULL}},
        {"utf8proc", {"libutf8proc.so.3", "libutf8proc.so.2", NULL}},
    };
    cli_print("  opened when needed:");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cli_print("%s %s%s", i ? "," : "", all[i].called,
                  cfx__library_is_found(all[i].files) ? "" : " (not installed)");
    }
    cli_print("\n");
}

void cli_print_version(void) {
    cli_print("cfx %s\n", CFX_VERSION);
    cli_print("  built by %s, %s%s%s\n", CFX_BUILT_BY, CFX_BUILT_HOW,
              *CFX_BUILT_FROM ? "; commit " : "", CFX_BUILT_FROM);
    cli_print("  with yajl %d.%d.%d, zlib %s\n", YAJL_MAJOR, YAJL_MINOR, YAJL_MICRO,
              zlibVersion());
    print_opened();
    cli_answer("version", cfx_string_value(CFX_VERSION));
    cli_answer("built", cfx_string_value(CFX_BUILT_BY ", " CFX_BUILT_HOW));
    cli_answer("commit", *CFX_BUILT_FROM ? cfx_string_value(CFX_BUILT_FROM) : cfx_none());
}
