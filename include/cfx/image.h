/* Pictures as tensors: PNG and JPEG files, cut and scaled as torchvision's transforms do. */
#ifndef CFX_IMAGE_H
#define CFX_IMAGE_H

#include <cfx/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which colours a tensor of a picture has, in which order. */
typedef enum cfx_image_channels { CFX_IMAGE_RGB, CFX_IMAGE_BGR, CFX_IMAGE_GREY } cfx_image_channels;

/* How a picture becomes the input of a model. Zero is all of it, as floats from 0 to 1, [1, 3,
 * height, width]. In order: resize, cut, scale to 0..1, less the mean, by the deviation. */
typedef struct cfx_image_options {
    int64_t size[2];   /* height and width that are cut out of the middle, with black around where
                          the picture is smaller; 0: all */
    int64_t resize[2]; /* what it is brought to before that: height and width, or with a width of 0
                          the shorter side; 0: as `size` is, both: its shorter side */
    bool keep;         /* nothing is resized */
    double mean[3], std[3]; /* by channel, in the order that the tensor has; a std of 0 is 1 */
    cfx_image_channels channels;
    bool last;    /* channels are the last dimension */
    bool plain;   /* no dimension of 1 for the batch in front */
    bool bytes;   /* uint8 from 0 to 255; no mean, no deviation */
} cfx_image_options;

/* Reads such options from a text: "size=224,mean=0.485,0.456,0.406,std=0.229,0.224,0.225". Keys are
 * size and resize (224, 224x320, resize=none), mean, std (one number, or one for each channel),
 * channels (rgb, bgr, grey), layout (nchw, nhwc, chw, hwc) and dtype (f32, u8). False, with an
 * error that says what is wrong. */
CFX_API bool cfx_image_options_parse(const char *text, cfx_image_options *options);

/* Whether a file begins as a PNG or a JPEG does; false, without an error, where it cannot be read.
 */
CFX_API bool cfx_image_is_in(const char *path);
/* A picture as uint8[height, width, 3], red, green, blue; scope. Grey is three times the same,
 * alpha is left away, 16 bits become 8, CMYK is as Adobe writes it: what PIL's convert("RGB")
 * gives. Orientation tags, gamma and colour profiles are not followed. libturbojpeg is opened when
 * a JPEG is first read. Bad, with an error that names the file, where it is damaged or cut short,
 * or the library is not there. */
CFX_API cfx_tensor *cfx_image_read(const char *path);
/* What a model takes, of a picture uint8[height, width, 3]; scope. Numbers are those of
 * torchvision's Resize (bilinear, with antialias, as for PIL's pictures), CenterCrop, ToTensor and
 * Normalize. */
CFX_API cfx_tensor *cfx_image_prepare(const cfx_tensor *image, const cfx_image_options *options);

#ifdef __cplusplus
}
#endif
#endif
