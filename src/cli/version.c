/* cfx --version: which cfx this is, and how it was built. */
#include "cli.h"

#include <string.h>
#include <yajl/yajl_version.h>
#include <zlib.h>

#include "../feed/feed.h"
#include "commit.h" /* made by the build */

#if defined(CFX_DNN) && defined(CFX_BLAS)
#define LARGE " oneDNN, OpenBLAS"
#elif defined(CFX_DNN)
#define LARGE " oneDNN"
#elif defined(CFX_BLAS)
#define LARGE " OpenBLAS"
#else
#define LARGE ""
#endif

/* Libraries that are opened when needed, and one name that each has; two are too large to be tried
 * for this. */
static void print_opened(void) {
    static const char *const png[] = {"libpng16.so.16", NULL}, *const jpeg[] = {"libturbojpeg.so.0",
        NULL}, *const utf8proc[] = {"libutf8proc.so.3", "libutf8proc.so.2", NULL};
    static const struct {
        cfx__library library;
        const char *name;
    } all[] = {{{png, "", ""}, "png_image_free"},
               {{jpeg, "", ""}, "tjInitDecompress"},
               {{utf8proc, "", ""}, "utf8proc_category"}};
    static const char *const names[] = {"libpng", "libturbojpeg", "utf8proc"};
    cli_print("  opened when needed:" LARGE);
    for (int i = 0; i < 3; i++) {
        void (*found)(void);
        const bool there = cfx__library_open(&all[i].library, 1, &all[i].name, &found);
        cfx_error_clear();
        cli_print("%s %s%s", i || *LARGE ? "," : "", names[i], there ? "" : " (not installed)");
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
}
