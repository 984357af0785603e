/* PNG files: every depth, colour type and interlacing, as red, green and blue of 8 bits. Numbers
 * are the file's own, as PIL takes them: gamma and colour profiles are not followed. Start at
 * cfx__png_read. */
#include "feed.h"

#include <zlib.h>

enum { GREY = 0, RGB = 2, PALETTE = 3, GREY_ALPHA = 4, RGB_ALPHA = 6, CHUNK = 12 };

typedef struct png {
    const char *why; /* what is wrong with the file */
    cfx__bytes left; /* what follows the chunk at hand */
    uint32_t width, height;
    int depth, colour, channels; /* bits of a sample; samples of a pixel */
    bool interlaced;
    uint8_t palette[256][3];
    z_stream stream; /* of the image data, from one chunk to the next */
} png;

typedef struct chunk {
    char type[5];
    const uint8_t *data;
    uint32_t len;
} chunk;

bool cfx__png_is(cfx__bytes b) { return b.len >= 8 && !memcmp(b.at, "\x89PNG\r\n\x1a\n", 8); }

static bool wrong(png *p, const char *why) {
    p->why = why;
    return false;
}

static uint32_t number(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The next chunk; the sum is checked of those that a picture cannot do without. */
static bool next_chunk(png *p, chunk *c) {
    if (p->left.len < CHUNK)
        return wrong(p, "it is cut short");
    c->len = number(p->left.at);
    if (c->len > p->left.len - CHUNK)
        return wrong(p, "it is cut short");
    memcpy(c->type, p->left.at + 4, 4);
    c->type[4] = '\0';
    c->data = p->left.at + 8;
    const bool needed = !(c->type[0] & 0x20);
    if (needed && crc32(crc32(0, NULL, 0), p->left.at + 4, c->len + 4) != number(c->data + c->len))
        return wrong(p, "the checksum of a chunk is wrong");
    p->left.at += CHUNK + c->len;
    p->left.len -= CHUNK + c->len;
    return true;
}

static bool read_header(png *p) {
    static const int channels[] = {[GREY] = 1, [RGB] = 3, [PALETTE] = 1, [GREY_ALPHA] = 2,
                                   [RGB_ALPHA] = 4};
    chunk c;
    if (!next_chunk(p, &c))
        return false;
    if (strcmp(c.type, "IHDR") || c.len != 13)
        return wrong(p, "it does not begin with its header");
    p->width = number(c.data);
    p->height = number(c.data + 4);
    p->depth = c.data[8];
    p->colour = c.data[9];
    p->channels = p->colour < COUNT(channels) ? channels[p->colour] : 0;
    p->interlaced = c.data[12];
    const bool small = p->depth == 1 || p->depth == 2 || p->depth == 4; /* of grey and palettes */
    const bool fits = p->depth == 8 || (p->depth == 16 && p->colour != PALETTE) ||
                      (small && p->channels == 1);
    return (p->channels && fits) || wrong(p, "its combination of depth and colour type does not "
                                             "exist");
}

/* Up to the first chunk of image data, which the stream then reads. */
static bool find_pixels(png *p) {
    bool palette = p->colour != PALETTE;
    for (chunk c; next_chunk(p, &c);) {
        if (!strcmp(c.type, "IDAT") && palette) {
            p->stream.next_in = (Bytef *)c.data;
            p->stream.avail_in = c.len;
            return true;
        }
        if (!strcmp(c.type, "IDAT"))
            return wrong(p, "it has no palette");
        if (!strcmp(c.type, "IEND"))
            return wrong(p, "it has no pixels");
        if (!strcmp(c.type, "PLTE")) {
            memcpy(p->palette, c.data, c.len < sizeof p->palette ? c.len : sizeof p->palette);
            palette = true;
        }
    }
    return false;
}

/* n bytes of image data. */
static bool read_bytes(png *p, uint8_t *to, size_t n) {
    z_stream *s = &p->stream;
    chunk c;
    for (s->next_out = to; n;) {
        const uInt part = n < 1 << 30 ? (uInt)n : 1 << 30;
        if (!s->avail_in) {
            if (!next_chunk(p, &c))
                return false;
            if (strcmp(c.type, "IDAT"))
                return wrong(p, "it has fewer pixels than its header says");
            s->next_in = (Bytef *)c.data;
            s->avail_in = c.len;
            continue;
        }
        s->avail_out = part;
        const int got = inflate(s, Z_NO_FLUSH);
        n -= part - s->avail_out;
        if (got == Z_STREAM_END && n)
            return wrong(p, "it has fewer pixels than its header says");
        if (got != Z_OK && got != Z_STREAM_END && got != Z_BUF_ERROR)
            return wrong(p, s->msg ? s->msg : "its pixels cannot be unpacked");
    }
    return true;
}

/* Whichever of the three neighbours is nearest to left + above - the one above the left. */
static int nearest(int left, int above, int corner) {
    const int l = above > corner ? above - corner : corner - above;
    const int a = left > corner ? left - corner : corner - left;
    const int both = left + above - 2 * corner, c = both < 0 ? -both : both;
    return l <= a && l <= c ? left : a <= c ? above : corner;
}

/* A row as it was before its filter, which stands in front of it; `step` bytes are a pixel. */
static bool unfilter(png *p, uint8_t *row, const uint8_t *above, size_t n, size_t step) {
    const int filter = *row++;
    above++;
    if (filter > 4)
        return wrong(p, "a row has an unknown filter");
    for (size_t i = 0; i < n && filter; i++) {
        const int l = i >= step ? row[i - step] : 0, c = i >= step ? above[i - step] : 0;
        const int more[] = {0, l, above[i], (l + above[i]) / 2, nearest(l, above[i], c)};
        row[i] = (uint8_t)(row[i] + more[filter]);
    }
    return true;
}

/* The first 8 bits of sample k of a row. Samples of fewer bits are numbers up to `largest`. */
static int sample(const png *p, const uint8_t *row, size_t k) {
    if (p->depth >= 8)
        return row[k * (size_t)p->depth / 8];
    const size_t bit = k * (size_t)p->depth;
    const int largest = (1 << p->depth) - 1, v = row[bit / 8] >> (8 - p->depth - (int)(bit % 8));
    return p->colour == PALETTE ? v & largest : (v & largest) * (255 / largest);
}

static void put_pixel(const png *p, const uint8_t *row, size_t x, uint8_t *to) {
    const size_t k = x * (size_t)p->channels;
    if (p->colour == PALETTE)
        memcpy(to, p->palette[sample(p, row, k)], 3);
    else
        for (size_t i = 0; i < 3; i++)
            to[i] = (uint8_t)sample(p, row, p->channels < 3 ? k : k + i);
}

/* The pixels of one pass: every dx-th of every dy-th row. */
static bool read_pass(png *p, const uint8_t pass[4], uint8_t *rows, size_t row, cfx_tensor *to) {
    const uint32_t x0 = pass[0], y0 = pass[1], dx = pass[2], dy = pass[3];
    const size_t bits = (size_t)(p->channels * p->depth), step = bits < 8 ? 1 : bits / 8;
    const size_t count = p->width > x0 ? (p->width - x0 + dx - 1) / dx : 0;
    const size_t n = (count * bits + 7) / 8;
    uint8_t *at = rows, *above = rows + row;
    memset(rows, 0, 2 * row);
    for (uint32_t y = y0; y < p->height && count; y += dy) {
        if (!read_bytes(p, at, n + 1) || !unfilter(p, at, above, n, step))
            return false;
        for (size_t i = 0; i < count; i++)
            put_pixel(p, at + 1, i, (uint8_t *)to->data + ((size_t)y * p->width + x0 + i * dx) * 3);
        uint8_t *const other = above;
        above = at;
        at = other;
    }
    return true;
}

static bool read_pixels(png *p, cfx_tensor *to) {
    static const uint8_t passes[][4] = {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4},
                                        {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}, {0, 0, 1, 1}};
    const size_t row = ((size_t)p->width * (size_t)(p->channels * p->depth) + 7) / 8 + 1;
    uint8_t *rows = cfx__alloc_try(2 * row); /* a row and the one above it, each with its filter */
    const int all = COUNT(passes) - 1;
    bool fine = rows;
    for (int i = p->interlaced ? 0 : all; fine && i < (p->interlaced ? all : all + 1); i++)
        fine = read_pass(p, passes[i], rows, row, to);
    cfx__free(rows);
    return fine;
}

cfx_tensor *cfx__png_read(const char *what, cfx__bytes b) {
    png p = {.left = {b.at + 8, b.len - 8}};
    cfx_tensor *t = read_header(&p) ? cfx__image_new(what, p.height, p.width) : &cfx__tensor_bad;
    const bool begun = !cfx_failed(t) && inflateInit(&p.stream) == Z_OK;
    const bool fine = begun && find_pixels(&p) && read_pixels(&p, t);
    if (begun)
        inflateEnd(&p.stream);
    if (!fine && cfx_ok())
        cfx_fail(p.why ? CFX_FILE_ERROR : CFX_MEMORY_ERROR, (cfx_site){0},
                 "'%s' is not a PNG file that can be read: %s", what,
                 p.why ? p.why : "there is no memory for it");
    return fine ? t : &cfx__tensor_bad;
}
