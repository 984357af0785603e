/* Zip archives: read as they are, and refused when they lie. */
#include "test.h"
#include "zip.h"

#include <stdlib.h>
#include <zlib.h>

/* An archive in memory; data is writable, to make it lie. */
typedef struct sample {
    char *data;
    size_t size;
    cfx__zip_writer w;
} sample;

static void begin(sample *s) {
    *s = (sample){0};
    s->w.file = open_memstream(&s->data, &s->size);
}

static void end(sample *s) {
    CHECK(cfx__zip_finish(&s->w));
    fclose(s->w.file);
}

static void make(sample *s) {
    begin(s);
    cfx__zip_add(&s->w, "a/one", "11111111", 8);
    cfx__zip_add(&s->w, "a/two", "2222", 4);
    cfx__zip_add(&s->w, "a/none", "", 0);
    end(s);
}

/* The central entry number k. */
static char *central(sample *s, int k) {
    for (size_t i = 0; i + 4 < s->size; i++)
        if (!memcmp(s->data + i, "PK\1\2", 4) && k-- == 0)
            return s->data + i;
    return s->data;
}

static bool opens(sample *s, cfx__zip *z) {
    return cfx__zip_open(z, "x.zip", (cfx__pack_bytes){s->data, s->size, NULL});
}

/* Opening, and reading all there is, fails with a message that has the text in it. */
static void refused(sample *s, const char *why) {
    cfx__zip z;
    bool ok = opens(s, &z);
    for (size_t i = 0; ok && i < z.entries.len; i++) {
        cfx__pack_bytes b;
        ok = cfx__zip_read(&z, &z.entries.data[i], true, &b);
    }
    CHECK(!ok);
    CHECK_ERROR(why);
    cfx__zip_close(&z);
    free(s->data);
}

/* An entry in pieces is the one that is added at once, whether the header is written again or the
 * pieces are gathered. */
TEST(zip_takes_an_entry_in_pieces) {
    for (int seekable = 0; seekable < 2; seekable++) {
        sample s;
        cfx__zip z;
        cfx__pack_bytes b;
        begin(&s);
        s.w.seekable = seekable;
        cfx__zip_add(&s.w, "a/one", "11111111", 8);
        cfx__zip_begin(&s.w, "a/pieces");
        cfx__zip_piece(&s.w, "abc", 3);
        cfx__zip_piece(&s.w, "", 0);
        cfx__zip_piece(&s.w, "defg", 4);
        cfx__zip_end(&s.w);
        cfx__zip_add(&s.w, "a/two", "2222", 4);
        end(&s);
        CHECK(opens(&s, &z));
        CHECK_INT(z.entries.len, 3);
        CHECK(cfx__zip_read(&z, cfx__zip_find(&z, "a/pieces"), true, &b));
        CHECK(b.size == 7 && !memcmp(b.data, "abcdefg", 7));
        CHECK_INT((b.data - s.data) % 64, 0);
        const char *local = s.data + cfx__zip_find(&z, "a/pieces")->header;
        CHECK_INT((unsigned char)local[18], 7); /* a reader of the stream finds the size there */
        CHECK(cfx__zip_read(&z, cfx__zip_find(&z, "a/two"), true, &b));
        CHECK(b.size == 4 && !memcmp(b.data, "2222", 4));
        CHECK_OK();
        cfx__zip_close(&z);
        free(s.data);
    }
}

TEST(zip_reads_what_was_written) {
    sample s;
    cfx__zip z;
    cfx__pack_bytes b;
    make(&s);
    CHECK(cfx__zip_is(s.data, s.size));
    CHECK(opens(&s, &z));
    CHECK_INT(z.entries.len, 3);
    CHECK(cfx__zip_read(&z, cfx__zip_find(&z, "a/two"), true, &b));
    CHECK(b.size == 4 && !memcmp(b.data, "2222", 4));
    CHECK_INT((b.data - s.data) % 64, 0);
    CHECK(cfx__zip_read(&z, cfx__zip_find(&z, "a/none"), true, &b));
    CHECK_INT(b.size, 0);
    CHECK(!cfx__zip_find(&z, "a/three"));
    CHECK_OK();
    cfx__zip_close(&z);
    free(s.data);
}

TEST(zip_refuses_what_is_cut_off) {
    sample s;
    make(&s);
    for (size_t n = 0; n < s.size; n += 7) {
        cfx__zip z;
        CHECK(!cfx__zip_open(&z, "x.zip", (cfx__pack_bytes){s.data, n, NULL}));
        CHECK_ERROR("x.zip cannot be read");
        cfx__zip_close(&z);
    }
    free(s.data);
}

static void put32(char *at, uint32_t v) { memcpy(at, &v, 4); }

TEST(zip_refuses_lies_in_the_directory) {
    sample s;
    make(&s);
    memcpy(central(&s, 1) + 42, central(&s, 0) + 42, 4); /* two entries in one place */
    refused(&s, "overlap");
    make(&s);
    put32(central(&s, 1) + 42, 0x7fffffff);
    refused(&s, "outside of the archive");
    make(&s);
    put32(central(&s, 1) + 20, 0x7fffffff);
    put32(central(&s, 1) + 24, 0x7fffffff);
    refused(&s, "outside of the archive");
    make(&s);
    put32(central(&s, 1) + 24, 5);
    refused(&s, "is stored, but in 4 bytes instead of 5");
    make(&s);
    memcpy(central(&s, 1) + 46, "a/one", 5);
    refused(&s, "stands twice");
    make(&s);
    central(&s, 0)[8] |= 1;
    refused(&s, "encrypted");
    make(&s);
    central(&s, 0)[10] = 12;
    refused(&s, "method 12");
    make(&s);
    central(&s, 0)[16] ^= 1;
    refused(&s, "checksum");
    make(&s);
    s.data[0] = 'X';
    refused(&s, "header of entry 'a/one' is damaged");
    make(&s);
    s.data[28] = (char)0xff;
    s.data[29] = (char)0xff;
    refused(&s, "longer than the archive has room for");
    make(&s);
    s.data[28] += 64; /* its content would be that of the next */
    refused(&s, "entry 'a/one' is longer than the archive has room for");
    make(&s);
    central(&s, 2)[1] = 'X';
    refused(&s, "entry 2 of its directory is damaged");
    make(&s);
    put32(central(&s, 0) + 24, UINT32_MAX);
    refused(&s, "lacks its large sizes");
}

/* An archive with one entry packed by method 8; `size` is what its directory promises. */
static void make_packed(sample *s, const char *data, size_t len, uint32_t size) {
    char *packed = malloc(compressBound(len));
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)len,
                  .next_out = (Bytef *)packed, .avail_out = (uInt)compressBound(len)};
    CHECK(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    CHECK(deflate(&z, Z_FINISH) == Z_STREAM_END);
    begin(s);
    cfx__zip_add(&s->w, "packed", packed, z.total_out);
    end(s);
    deflateEnd(&z);
    free(packed);
    central(s, 0)[10] = 8;
    put32(central(s, 0) + 24, size);
    put32(central(s, 0) + 16, (uint32_t)crc32(0, (const Bytef *)data, (uInt)len));
}

TEST(zip_unpacks_within_limits) {
    size_t len = 1 << 20;
    char *zeros = calloc(len, 1);
    sample s;
    cfx__zip z;
    cfx__pack_bytes b;
    memcpy(zeros + 1000, "hello", 5);
    make_packed(&s, zeros, len, (uint32_t)len);
    CHECK(opens(&s, &z) && cfx__zip_read(&z, &z.entries.data[0], true, &b));
    CHECK(b.size == len && !memcmp(b.data, zeros, len));
    CHECK_OK();
    cfx__zip_close(&z);
    free(s.data);
    make_packed(&s, zeros, len, (uint32_t)len - 1); /* more comes out than was promised */
    refused(&s, "cannot be unpacked");
    make_packed(&s, zeros, len, (uint32_t)len + 1);
    refused(&s, "cannot be unpacked");
    make_packed(&s, zeros, len, 0xfffffffe); /* a bomb */
    refused(&s, "far more than the file has");
    make_packed(&s, zeros, len, (uint32_t)len);
    memset(s.data + 128, 0xff, 64);
    refused(&s, "cannot be unpacked");
    free(zeros);
}

TEST(zip_reads_large_sizes) {
    /* what is not written here but by others: sizes in an extra field of the directory */
    sample s;
    cfx__zip z;
    make(&s);
    char *c = central(&s, 2); /* the last one, so that there is room to grow */
    size_t before = (size_t)(c - s.data), entry = 46 + 6, tail = s.size - before - entry;
    char *data = calloc(s.size + 20, 1);
    memcpy(data, s.data, before + entry);
    memcpy(data + before + entry + 20, s.data + before + entry, tail);
    char *extra = data + before + entry;
    extra[0] = 1;
    extra[2] = 16; /* both sizes, 0 */
    data[before + 30] = 20;
    put32(data + before + 20, UINT32_MAX);
    put32(data + before + 24, UINT32_MAX);
    char *end64 = data + before + entry + 20;
    uint64_t size, at;
    memcpy(&size, end64 + 40, 8);
    size += 20;
    memcpy(end64 + 40, &size, 8);
    memcpy(&at, end64 + 56 + 8, 8);
    at += 20;
    memcpy(end64 + 56 + 8, &at, 8);
    free(s.data);
    s.data = data;
    s.size += 20;
    CHECK(opens(&s, &z));
    CHECK_INT(z.entries.data[2].size, 0);
    CHECK_OK();
    cfx__zip_close(&z);
    free(s.data);
}
