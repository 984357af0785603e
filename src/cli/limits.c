/* What every subcommand takes for files that nobody vouches for: limits of seconds, bytes and
 * nodes, and files that are read rather than mapped. See SECURITY.md. */
#include "cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char cli_limits_help[] =
    "\nLimits for untrusted files, with any command:\n"
    "  --max-seconds S  stops after so many seconds\n"
    "  --max-memory N   the most memory to use, without mapped files: 512M, 2G; by default that\n"
    "                   of the machine\n"
    "  --max-nodes N    the most nodes of one graph\n"
    "  --copy-files     reads files instead of mapping them, in case others truncate them\n";

/* The number that a text is, with K, M or G behind it where `units`; negative where it is none. */
static double number_of(const char *text, bool units) {
    static const char letters[] = "KMG";
    char *end = NULL;
    double n = strtod(text, &end);
    const char *unit = units && end != text && *end ? strchr(letters, *end) : NULL;
    if (unit)
        n = ldexp(n, 10 * (int)(unit - letters + 1));
    return end == text || end[unit != NULL] || !(n > 0 && n < 1e18) ? -1 : n;
}

/* Whether the word is the option; its value, or -1 after a mistake. */
static bool limit(cli_words *w, const char *name, bool units, double *n) {
    const char *text = NULL;
    if (!cli_value(w, name, &text))
        return false;
    *n = text ? number_of(text, units) : -1;
    if (text && *n < 0) {
        cli_usage(w->command, "%s wants a number above 0%s, not '%s'", name,
                  units ? ", with K, M or G behind it or not" : "", text);
        w->wrong = true;
    }
    return true;
}

bool cli_limits(cli_words *w) {
    double n = 0;
    bool copy = false;
    if (limit(w, "--max-seconds", false, &n))
        cfx_set_time_limit(n);
    else if (limit(w, "--max-memory", true, &n))
        cfx_set_memory_limit(n < 1 ? 1 : (size_t)n);
    else if (limit(w, "--max-nodes", false, &n))
        cfx_set_node_limit(n < 1 ? 1 : (int64_t)n);
    else if (cli_flag(w, "--copy-files", &copy))
        cfx_set_copy_files(true);
    else
        return false;
    return true;
}

void cli_limits_begin(void) {
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    if (pages > 0 && size > 0)
        cfx_set_memory_limit((size_t)pages * (size_t)size);
}
