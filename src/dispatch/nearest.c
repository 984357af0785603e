/* What an unknown name may have meant: the spellings that are nearest to it. */
#include "dispatch.h"

enum { MOST = 3, LONGEST = 64 };

/* How many letters to insert, drop or replace to come from a to b; `most` + 1 where it is more. */
static int distance(const char *a, const char *b, int most) {
    int n = (int)strlen(a), m = (int)strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST || n - m > most || m - n > most)
        return most + 1;
    for (int k = 0; k <= m; k++)
        row[k] = k;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int k = 1; k <= m; k++) {
            int step = corner + (a[i - 1] != b[k - 1]);
            corner = row[k];
            int other = (row[k - 1] < corner ? row[k - 1] : corner) + 1;
            row[k] = step < other ? step : other;
        }
    }
    return row[m];
}

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

const char *cfx__dispatch_nearest(const char *name) {
    struct {
        const char *text;
        int far;
    } best[MOST] = {{0}};
    const char *last = last_part(name), *s;
    int most = (int)strlen(last) / 3 + 1, n = 0;
    for (int i = 0; (s = cfx__spelling_at(i)); i++) {
        size_t module = (size_t)(last - name);
        bool same_module = !strncmp(s, name, module) && last_part(s) == s + module;
        int far = distance(last, last_part(s), most);
        if (far > most || (!same_module && far))
            continue;
        int at = n < MOST ? n++ : MOST;
        for (; at > 0 && best[at - 1].far > far; at--)
            if (at < MOST)
                best[at] = best[at - 1];
        if (at < MOST) {
            best[at].text = s;
            best[at].far = far;
        }
    }
    cfx__text out = {0};
    for (int i = 0; i < n; i++)
        cfx__text_printf(&out, "%s%s", i ? ", " : "", best[i].text);
    return n ? cfx__text_take(&out) : NULL;
}
