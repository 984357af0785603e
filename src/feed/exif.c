/* Which way up a JPEG file is to be shown, as cameras note it in an Exif segment. */
#include "feed.h"

enum { UPRIGHT = 1, ORIENTATION = 0x0112, SHORT = 3, ENTRY = 12, APP1 = 0xe1, FIRST_SCAN = 0xda };

/* A number of two or four bytes at a place that the bytes have. */
static uint32_t number(cfx__bytes b, size_t at, int width, bool little) {
    uint32_t n = 0;
    for (int i = 0; i < width; i++)
        n |= (uint32_t)b.at[at + (size_t)i] << (8 * (little ? i : width - 1 - i));
    return n;
}

/* Of the directory of tags that a TIFF header points at. */
static int of_tags(cfx__bytes b) {
    if (b.len < 8 || (memcmp(b.at, "II*", 3) && memcmp(b.at, "MM\0*", 4)))
        return UPRIGHT;
    const bool little = b.at[0] == 'I';
    const size_t first = number(b, 4, 4, little);
    if (first > b.len - 2)
        return UPRIGHT;
    const size_t most = (b.len - first - 2) / ENTRY, said = number(b, first, 2, little);
    for (size_t i = 0; i < said && i < most; i++) {
        const size_t at = first + 2 + i * ENTRY;
        if (number(b, at, 2, little) != ORIENTATION || number(b, at + 2, 2, little) != SHORT)
            continue;
        const int way = (int)number(b, at + 8, 2, little);
        return way >= 1 && way <= 8 ? way : UPRIGHT;
    }
    return UPRIGHT;
}

int cfx__jpeg_orientation(cfx__bytes b) {
    size_t at = 2; /* past the mark of a JPEG */
    while (at + 4 <= b.len && b.at[at] == 0xff && b.at[at + 1] != FIRST_SCAN) {
        const size_t size = number(b, at + 2, 2, false), inner = at + 4;
        if (size < 2 || size > b.len - at - 2)
            break;
        if (b.at[at + 1] == APP1 && size >= 8 && !memcmp(b.at + inner, "Exif\0\0", 6))
            return of_tags((cfx__bytes){b.at + inner + 6, size - 8});
        at += 2 + size;
    }
    return UPRIGHT;
}
