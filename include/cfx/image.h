/* Images as tensors: decodes PNG and JPEG files, and crops and scales them like torchvision's
 * transforms. */
#ifndef CFX_IMAGE_H
#define CFX_IMAGE_H

#include <cfx/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which colours a tensor of a picture has, in which order. */
typedef enum cfx_image_channels { CFX_IMAGE_RGB, CFX_IMAGE_BGR, CFX_IMAGE_GREY } cfx_image_channels;

/* How an image becomes the input of a model. Zero means the whole image as floats from 0 to 1,
 * [1, 3, height, width]. Steps in order: resize, crop, scale to 0..1, subtract the mean, divide
 * by the deviation. */
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

/* Whether a file is a PNG or a JPEG, by its content; false, without an error, where it cannot be
 * read. */
CFX_API bool cfx_image_is_in(const char *path);
/* Reads an image as uint8[height, width, 3], red, green, blue; scope. Equal to PIL's
 * convert("RGB"): grey is repeated, alpha is dropped, 16 bits become 8, CMYK is read as Adobe
 * writes it. Orientation tags, gamma and colour profiles are ignored. JPEG needs libturbojpeg,
 * which is opened on first use. Bad, with an error that names the file, where it is damaged or
 * truncated, or the library is missing. */
CFX_API cfx_tensor *cfx_image_read(const char *path);
/* The input of a model from an image uint8[height, width, 3]; scope. Equal to torchvision's
 * Resize (bilinear, with antialias, as for PIL images), CenterCrop, ToTensor and Normalize. */
CFX_API cfx_tensor *cfx_image_prepare(const cfx_tensor *image, const cfx_image_options *options);

#ifdef __cplusplus
}
#endif
#endif
