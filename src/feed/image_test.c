/* Pictures: files of each kind, sizes, cuts and numbers; damaged files. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "feed/feed.h"
#include "test.h"

static const char *file(const char *name) {
    return cfx__text_format("%s/images/%s", CFX_TEST_DATA, name);
}

/* Whether a kind of file can be read here. */
static bool can_read(const char *name) {
    cfx_image_read(file(name));
    const bool absent = !cfx_ok() && strstr(cfx_error_last()->message, "is not installed");
    if (absent)
        printf("not run: %s\n", cfx_error_last()->message);
    cfx_error_clear();
    return !absent;
}

static int pixel(const cfx_tensor *t, int y, int x, int c) {
    return t->data ? ((uint8_t *)t->data)[(y * t->shape[1] + x) * 3 + c] : -1;
}

static void check_pixel(const cfx_tensor *t, int y, int x, int r, int g, int b) {
    CHECK_INT(pixel(t, y, x, 0), r);
    CHECK_INT(pixel(t, y, x, 1), g);
    CHECK_INT(pixel(t, y, x, 2), b);
}

TEST(image_png) {
    static const char *const same[] = {"rgb.png", "rgba.png", "interlaced16.png", "gamma.png"};
    const cfx_tensor *whole = cfx_image_read(file(same[0]));
    for (int i = 0; i < COUNT(same); i++) {
        cfx_tensor *t = cfx_image_read(file(same[i]));
        CHECK_OK();
        CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[30, 40, 3]");
        CHECK(t->data && whole->data && !memcmp(t->data, whole->data, 30 * 40 * 3));
        check_pixel(t, 0, 0, 0, 0, 0);
        check_pixel(t, 29, 39, 255, 255, (39 * 37 + 29 * 91 + 39 * 29) % 256);
        check_pixel(t, 7, 11, 71, 61, (11 * 37 + 7 * 91 + 77) % 256);
    }
    check_pixel(cfx_image_read(file("grey.png")), 5, 9, 69, 69, 69);
    check_pixel(cfx_image_read(file("grey16.png")), 5, 9, 69, 69, 69);
    check_pixel(cfx_image_read(file("palette.png")), 0, 2, 32, 223, 100);
    CHECK_OK();
}

TEST(image_jpeg) {
    if (!can_read("rgb.jpg"))
        return;
    cfx_tensor *t = cfx_image_read(file("rgb.jpg")), *g = cfx_image_read(file("grey.jpg"));
    CHECK_OK();
    CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[30, 40, 3]");
    CHECK_INT(pixel(g, 3, 4, 0), pixel(g, 3, 4, 2));
    CHECK_NEAR(pixel(g, 3, 4, 0), 33, 6);
    t = cfx_image_read(file("cmyk.jpg")); /* ink 255 - light, black 30 and on, inverted */
    CHECK_OK();
    CHECK_NEAR(pixel(t, 0, 39, 0), 30 + 39 - 69.0, 12);
    CHECK(cfx_image_is_in(file("rgb.jpg")) && !cfx_image_is_in(file("none.jpg")));
    CHECK_OK();
}

TEST(image_orientation) {
    /* the mark, an empty segment, Exif with two tags, the first scan */
    uint8_t b[] = "\xff\xd8\xff\xe0\0\2\xff\xe1\0\52Exif\0\0MM\0*\0\0\0\x8\0\2"
                  "\1\x0f\0\3\0\0\0\1\0\1\0\0\1\x12\0\3\0\0\0\1\0\6\0\0\xff\xda";
    CHECK_INT(cfx__jpeg_orientation((cfx__bytes){b, sizeof b - 1}), 6);
    for (size_t n = 0; n < sizeof b; n++) {
        uint8_t *part = malloc(n ? n : 1); /* so that a read past its end is seen */
        memcpy(part, b, n);
        const int way = cfx__jpeg_orientation((cfx__bytes){part, n});
        CHECK(way == 1 || way == 6);
        free(part);
    }
    b[17] = 0xff; /* the directory lies elsewhere */
    b[20] = 0xff;
    CHECK_INT(cfx__jpeg_orientation((cfx__bytes){b, sizeof b - 1}), 1);
}

TEST(image_damaged) {
    static const char *const bad[][2] = {
        {"short.png", "'" CFX_TEST_DATA "/images/short.png' is not a PNG file that can be read: "},
        {"short.jpg", "'" CFX_TEST_DATA "/images/short.jpg' is "},
        {"none.png", "none.png"},
        {"../tokenizers/bert.json", "is no PNG or JPEG file"}};
    for (int i = 0; i < COUNT(bad); i++) {
        if (i < 2 && !can_read(bad[i][0]))
            continue;
        CHECK(cfx_failed(cfx_image_read(file(bad[i][0]))));
        CHECK_ERROR(bad[i][1]);
    }
}

static uint32_t sum_of(const uint8_t *at, size_t n) { /* the checksum of a chunk, bit by bit */
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        sum ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
    }
    return ~sum;
}

/* A PNG file with one byte changed, and checksums that fit where they are asked for. */
static void check_changed(size_t at, int to, bool fits, const char *why) {
    cfx__file_mapping *m = cfx__file_map(file("palette.png"));
    uint8_t bytes[512];
    const size_t n = m ? m->size : 0;
    CHECK(n && n < sizeof bytes);
    if (!n || n >= sizeof bytes)
        return;
    memcpy(bytes, m->data, n);
    cfx_drop(m);
    bytes[at] = (uint8_t)to;
    const uint32_t sum = sum_of(bytes + 12, 17); /* of the header */
    for (int i = 0; i < 4 && fits; i++)
        bytes[29 + i] = (uint8_t)(sum >> (24 - 8 * i));
    CHECK(cfx_failed(cfx__png_read("a", (cfx__bytes){bytes, n})));
    CHECK_ERROR(why);
}

TEST(image_png_damaged) {
    check_changed(23, 200, true, "'a' is not a PNG file that can be read: it has fewer pixels");
    /* of a palette */
    check_changed(24, 16, true, "its combination of depth and colour type does not exist");
    check_changed(25, 5, true, "its combination of depth and colour type does not exist");
    check_changed(18, 77, false, "the checksum of a chunk is wrong");
    check_changed(12, 'X', false, "the checksum of a chunk is wrong");
    for (size_t n = 8; n < 300; n++) {
        cfx__file_mapping *m = cfx__file_map(file("palette.png"));
        cfx_tensor *t = cfx__png_read("a", (cfx__bytes){(const uint8_t *)m->data, n});
        CHECK(cfx_failed(t) || n + 12 >= m->size); /* the pixels alone are enough */
        cfx_error_clear();
        cfx_drop(m);
    }
}

/* A picture of `h` rows, whose pixels say where they are. */
static cfx_tensor *drawn(int64_t h, int64_t w) {
    cfx_tensor *t = cfx_tensor_new(CFX_U8, 3, (int64_t[]){h, w, 3}, NULL);
    for (int64_t i = 0; i < h * w; i++) {
        ((uint8_t *)t->data)[3 * i] = (uint8_t)(i / w * 10);
        ((uint8_t *)t->data)[3 * i + 1] = (uint8_t)(i % w * 10);
        ((uint8_t *)t->data)[3 * i + 2] = 255;
    }
    return t;
}

static cfx_tensor *prepared(const cfx_tensor *image, const char *how) {
    cfx_image_options o;
    CHECK(cfx_image_options_parse(how, &o));
    return cfx_image_prepare(image, &o);
}

TEST(image_numbers) {
    cfx_tensor *t = prepared(drawn(6, 8), "size=2x4,resize=none,mean=0.5,0,0,std=0.5,1,2");
    CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[1, 3, 2, 4]");
    const float *x = (float *)t->data; /* rows 2 and 3, columns 2 to 5 */
    CHECK_NEAR(x[0], (20 / 255.0 - 0.5) / 0.5, 1e-6);
    CHECK_NEAR(x[7], (30 / 255.0 - 0.5) / 0.5, 1e-6);
    CHECK_NEAR(x[8 + 3], 50 / 255.0, 1e-6);
    CHECK_NEAR(x[16], 0.5, 1e-6);
    t = prepared(drawn(6, 8), "size=2x4,resize=none,dtype=u8,layout=hwc,channels=bgr");
    CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[2, 4, 3]");
    CHECK_INT(((uint8_t *)t->data)[0], 255);
    CHECK_INT(((uint8_t *)t->data)[2], 20);
    t = prepared(drawn(2, 2), "size=4,resize=none,dtype=u8,channels=grey"); /* black around */
    CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[1, 1, 4, 4]");
    CHECK_INT(((uint8_t *)t->data)[0], 0);
    CHECK_INT(((uint8_t *)t->data)[5], 29);
}

/* PIL's numbers: Image.resize((4, 2), BILINEAR) and so on, of a ramp. */
TEST(image_resized) {
    cfx_tensor *t = cfx__image_resize(drawn(4, 8), 2, 4);
    CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[2, 4, 3]");
    check_pixel(t, 0, 0, 7, 7, 255); /* weights 3, 3, 1 of 0, 10, 20 by 7: 7.14 */
    check_pixel(t, 1, 3, 23, 63, 255);
    check_pixel(t, 0, 1, 7, 25, 255);
    t = cfx__image_resize(drawn(2, 2), 2, 4);
    check_pixel(t, 0, 1, 0, 3, 255); /* 2.5 is rounded up */
    check_pixel(t, 0, 3, 0, 10, 255);
    t = prepared(drawn(6, 9), "size=3,dtype=u8"); /* the shorter side to 3, then the middle */
    CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[1, 3, 3, 3]");
    t = prepared(drawn(10, 7), "resize=5,dtype=u8");
    CHECK_STR(cfx__shape_text(t->ndim, t->shape), "[1, 3, 7, 5]");
    CHECK_OK();
}

TEST(image_options_refused) {
    static const char *const bad[][2] = {
        {"224", "'224' is not KEY=VALUE"},
        {"size=0", "size is 224 or 224x320 (height x width), not '0'"},
        {"size=3x", "not '3x'"},
        {"size=9999999", "not '9999999'"},
        {"resize=a", "resize is 256 (the shorter side), 256x256 or none, not 'a'"},
        {"mean=1,2,3,4", "mean is one number, or one for each of three channels"},
        {"mean=1,2,size=3", "mean is one number, or one for each of three channels"},
        {"std=1,2", "std is one number, or one for each of three channels"},
        {"std=0", "std wants numbers above 0, not '0'"},
        {"layout=cwh", "layout is nchw, nhwc, chw or hwc, not 'cwh'"},
        {"crop=3", "there is no 'crop'; there are size, resize,"},
        {"mean=nan", "mean wants numbers, not 'nan'"},
        {"dtype=u8,mean=1", "dtype=u8 goes without mean and std"}};
    for (int i = 0; i < COUNT(bad); i++) {
        cfx_image_options o;
        CHECK(!cfx_image_options_parse(bad[i][0], &o));
        CHECK_ERROR(bad[i][1]);
    }
    cfx_image_prepare(cfx_tensor_new(CFX_U8, 2, (int64_t[]){2, 3}, NULL), NULL);
    CHECK_ERROR("a picture is a uint8[height, width, 3]");
}
