/* Random numbers on a card that is played: those that PyTorch 2.11 gives on an H200, whose
 * multiprocessors and threads the played card has. */
#include <cfx.h>
#include <cfx/cuda.h>
#include <math.h>

#include "card.h"
#include "test.h"

typedef enum {
    RAND, RAND64, RAND16, RANDN, RANDN64, RANDNBF, UNIFORM_2_5, NORMAL_1_3, BERNOULLI_0_3,
    BERNOULLI_0_3_64, BERNOULLI_EACH, RANDINT_0_10, RANDINT_0_2_27, RANDINT_0_2_29,
    RANDINT_5_2_40, RANDOM_I64, RANDOM_I32, RANDOM_F, EXPONENTIAL, CAUCHY, GEOMETRIC, LOG_NORMAL,
    DROPOUT_0_3, DROPOUT16_0_3, DROPOUT64_0_3
} kind;

#define CARD CFX_KW(device, "cuda")

static cfx_tensor *draw(kind k, int64_t n) {
    switch (k) {
    case RAND: return cfx_rand(n, CARD);
    case RAND64: return cfx_rand(n, CARD, CFX_KW(dtype, cfx_f64));
    case RAND16: return cfx_rand(n, CARD, CFX_KW(dtype, cfx_f16));
    case RANDN: return cfx_randn(n, CARD);
    case RANDN64: return cfx_randn(n, CARD, CFX_KW(dtype, cfx_f64));
    case RANDNBF: return cfx_randn(n, CARD, CFX_KW(dtype, cfx_bf16));
    case UNIFORM_2_5: return cfx_uniform_(cfx_empty(n, CARD), -2.0, 5.0);
    case NORMAL_1_3: return cfx_normal_(cfx_empty(n, CARD), 1.0, 3.0);
    case BERNOULLI_0_3: return cfx_bernoulli_(cfx_empty(n, CARD), 0.3);
    case BERNOULLI_0_3_64: return cfx_bernoulli_(cfx_empty(n, CARD, CFX_KW(dtype, cfx_f64)), 0.3);
    case BERNOULLI_EACH: return cfx_bernoulli(cfx_full(cfx_list(n), 0.3, CARD));
    case RANDINT_0_10: return cfx_randint(0, 10, cfx_list(n), CARD);
    case RANDINT_0_2_27: return cfx_randint(0, 1 << 27, cfx_list(n), CARD);
    case RANDINT_0_2_29: return cfx_randint(0, 1 << 29, cfx_list(n), CARD);
    case RANDINT_5_2_40: return cfx_randint(-5, INT64_C(1) << 40, cfx_list(n), CARD);
    case RANDOM_I64: return cfx_random_(cfx_empty(n, CARD, CFX_KW(dtype, cfx_i64)));
    case RANDOM_I32: return cfx_random_(cfx_empty(n, CARD, CFX_KW(dtype, cfx_i32)));
    case RANDOM_F: return cfx_random_(cfx_empty(n, CARD));
    case EXPONENTIAL: return cfx_exponential_(cfx_empty(n, CARD), 2.0);
    case CAUCHY: return cfx_cauchy_(cfx_empty(n, CARD), 1.0, 0.5);
    case GEOMETRIC: return cfx_geometric_(cfx_empty(n, CARD), 0.3);
    case LOG_NORMAL: return cfx_log_normal_(cfx_empty(n, CARD), 1.0, 0.5);
    case DROPOUT_0_3: return cfx_dropout(cfx_ones(n, CARD), 0.3, (bool)true);
    case DROPOUT16_0_3:
        return cfx_dropout(cfx_ones(n, CARD, CFX_KW(dtype, cfx_f16)), 0.3, (bool)true);
    case DROPOUT64_0_3:
        return cfx_dropout(cfx_ones(n, CARD, CFX_KW(dtype, cfx_f64)), 0.3, (bool)true);
    }
    return NULL;
}

/* Sines and logarithms of the host are not the fast ones of a card. */
static double tolerance(kind k) {
    switch (k) {
    case RANDN: return 2e-06;
    case RANDN64: return 1e-14;
    case RANDNBF: return 0.01;
    case NORMAL_1_3: return 4e-06;
    case EXPONENTIAL: return 1e-06;
    case CAUCHY: return 2e-05;
    case LOG_NORMAL: return 4e-06;
    case DROPOUT_0_3: return 1e-06;
    case DROPOUT16_0_3: return 0.001;
    case DROPOUT64_0_3: return 1e-06;
    default: return 0;
    }
}

/* After manual_seed(0): elements of the first tensor, and the first of the second. */
static const struct {
    kind k;
    int64_t n;
    struct {
        int64_t at;
        double is;
    } first[4];
    double second;
} drawn[] = {
    {RAND, 5, {{0, 0x1.989fa40000000p-2}, {1, 0x1.088a2c0000000p-1}, {3, 0x1.e152160000000p-1},
     {4, 0x1.e446fe0000000p-1}}, 0x1.f1c99a0000000p-1},
    {RAND, 257, {{0, 0x1.989fa40000000p-2}, {85, 0x1.3965ec0000000p-2},
     {171, 0x1.dcf98e0000000p-1}, {256, 0x1.6023460000000p-4}}, 0x1.f1c99a0000000p-1},
    {RAND, 1000, {{0, 0x1.989fa40000000p-2}, {333, 0x1.5abbd40000000p-1},
     {666, 0x1.23ef940000000p-3}, {999, 0x1.24ebc40000000p-4}}, 0x1.f1c99a0000000p-1},
    {RAND, 10007, {{0, 0x1.989fa40000000p-2}, {3335, 0x1.cec3080000000p-3},
     {6671, 0x1.0e34dc0000000p-3}, {10006, 0x1.f3e8b40000000p-4}}, 0x1.f1c99a0000000p-1},
    {RAND, 300000, {{0, 0x1.989fa40000000p-2}, {150000, 0x1.48ff520000000p-1},
     {270336, 0x1.c2d38c0000000p-1}, {299999, 0x1.65cfcc0000000p-2}}, 0x1.f1c99a0000000p-1},
    {RAND64, 5, {{0, 0x1.c2d38d787e8d6p-1}, {1, 0x1.e11ad510515e2p-1},
     {3, 0x1.158913d4855e4p-4}, {4, 0x1.1e346e2c37f0ap-1}}, 0x1.72c81c7099949p-2},
    {RAND64, 257, {{0, 0x1.c2d38d787e8d6p-1}, {85, 0x1.8d7a08d65ec26p-3},
     {171, 0x1.b8c231cb98ef3p-2}, {256, 0x1.17f0430468c10p-6}}, 0x1.72c81c7099949p-2},
    {RAND64, 1000, {{0, 0x1.c2d38d787e8d6p-1}, {333, 0x1.079d45b3bd3c1p-2},
     {666, 0x1.c41f5f7bdf29ep-1}, {999, 0x1.cde49433af11ep-3}}, 0x1.72c81c7099949p-2},
    {RAND64, 10007, {{0, 0x1.c2d38d787e8d6p-1}, {3335, 0x1.75c029f61843ep-3},
     {6671, 0x1.9372d7b8d3735p-2}, {10006, 0x1.c8865a0f45a0cp-4}}, 0x1.72c81c7099949p-2},
    {RAND64, 300000, {{0, 0x1.c2d38d787e8d6p-1}, {150000, 0x1.5675a3f3f5211p-2},
     {270336, 0x1.3601bc757ac4cp-1}, {299999, 0x1.1df6c93cf648fp-2}}, 0x1.72c81c7099949p-2},
    {RAND16, 5, {{0, 0x1.9880000000000p-2}, {1, 0x1.0880000000000p-1},
     {3, 0x1.e140000000000p-1}, {4, 0x1.e440000000000p-1}}, 0x1.f1c0000000000p-1},
    {RAND16, 257, {{0, 0x1.9880000000000p-2}, {85, 0x1.3980000000000p-2},
     {171, 0x1.dd00000000000p-1}, {256, 0x1.6040000000000p-4}}, 0x1.f1c0000000000p-1},
    {RAND16, 1000, {{0, 0x1.9880000000000p-2}, {333, 0x1.5ac0000000000p-1},
     {666, 0x1.2400000000000p-3}, {999, 0x1.2500000000000p-4}}, 0x1.f1c0000000000p-1},
    {RAND16, 10007, {{0, 0x1.9880000000000p-2}, {3335, 0x1.cec0000000000p-3},
     {6671, 0x1.0e40000000000p-3}, {10006, 0x1.f400000000000p-4}}, 0x1.f1c0000000000p-1},
    {RANDN, 5, {{0, -0x1.d96d5a0000000p-1}, {1, -0x1.b38d700000000p-2},
     {3, 0x1.2956280000000p-3}, {4, -0x1.ef119c0000000p-4}}, 0x1.7254d00000000p-3},
    {RANDN, 257, {{0, -0x1.d96d5a0000000p-1}, {85, 0x1.71dfac0000000p+0},
     {171, 0x1.4664a20000000p-3}, {256, 0x1.e620080000000p-3}}, 0x1.7254d00000000p-3},
    {RANDN, 1000, {{0, -0x1.d96d5a0000000p-1}, {333, 0x1.c38ede0000000p-1},
     {666, -0x1.52c8640000000p+0}, {999, 0x1.2289140000000p+1}}, 0x1.7254d00000000p-3},
    {RANDN, 10007, {{0, -0x1.d96d5a0000000p-1}, {3335, 0x1.926a5c0000000p+0},
     {6671, 0x1.3e5e1e0000000p+0}, {10006, 0x1.525fbe0000000p+0}}, 0x1.7254d00000000p-3},
    {RANDN, 300000, {{0, -0x1.d96d5a0000000p-1}, {150000, 0x1.9f59b80000000p-1},
     {270336, 0x1.fb76600000000p-1}, {299999, -0x1.898d3c0000000p-3}}, 0x1.7254d00000000p-3},
    {RANDN64, 5, {{0, -0x1.3dd8613bc203ap-2}, {1, -0x1.19374fb285effp-5},
     {3, -0x1.23e389f23aa9ap+1}, {4, 0x1.01f9dfd9fe3d6p-1}}, 0x1.511c9c2dc0cf4p-2},
    {RANDN64, 257, {{0, -0x1.3dd8613bc203ap-2}, {85, 0x1.ca4866050321bp+0},
     {171, -0x1.0184b693473fep+0}, {256, 0x1.87f8108fa106dp-4}}, 0x1.511c9c2dc0cf4p-2},
    {RANDN64, 1000, {{0, -0x1.3dd8613bc203ap-2}, {333, -0x1.26e8d17c60af9p-2},
     {666, 0x1.195a6e6ac586ep-4}, {999, 0x1.77f18bb061b0dp-1}}, 0x1.511c9c2dc0cf4p-2},
    {RANDN64, 10007, {{0, -0x1.3dd8613bc203ap-2}, {3335, 0x1.cf6b78cbd1aa5p+0},
     {6671, -0x1.1352554a9ea7ep+0}, {10006, 0x1.37735c06f6efep+0}}, 0x1.511c9c2dc0cf4p-2},
    {RANDNBF, 5, {{0, -0x1.da00000000000p-1}, {1, -0x1.b400000000000p-2},
     {3, 0x1.2a00000000000p-3}, {4, -0x1.f000000000000p-4}}, 0x1.7200000000000p-3},
    {RANDNBF, 257, {{0, -0x1.da00000000000p-1}, {85, 0x1.7200000000000p+0},
     {171, 0x1.4600000000000p-3}, {256, 0x1.e600000000000p-3}}, 0x1.7200000000000p-3},
    {RANDNBF, 1000, {{0, -0x1.da00000000000p-1}, {333, 0x1.c400000000000p-1},
     {666, -0x1.5200000000000p+0}, {999, 0x1.2200000000000p+1}}, 0x1.7200000000000p-3},
    {RANDNBF, 10007, {{0, -0x1.da00000000000p-1}, {3335, 0x1.9200000000000p+0},
     {6671, 0x1.3e00000000000p+0}, {10006, 0x1.5200000000000p+0}}, 0x1.7200000000000p-3},
    {UNIFORM_2_5, 5, {{0, 0x1.962ebe0000000p-1}, {1, 0x1.9de39a0000000p+0},
     {3, 0x1.2527d40000000p+2}, {4, 0x1.27be1e0000000p+2}}, 0x1.3390660000000p+2},
    {UNIFORM_2_5, 257, {{0, 0x1.962ebe0000000p-1}, {85, 0x1.2392e80000000p-3},
     {171, 0x1.215a5c0000000p+2}, {256, -0x1.65f0920000000p+0}}, 0x1.3390660000000p+2},
    {UNIFORM_2_5, 1000, {{0, 0x1.962ebe0000000p-1}, {333, 0x1.5ec8b40000000p+1},
     {666, -0x1.008e5e0000000p+0}, {999, -0x1.7fd8da0000000p+0}}, 0x1.3390660000000p+2},
    {UNIFORM_2_5, 10007, {{0, 0x1.962ebe0000000p-1}, {3335, -0x1.ac55640000000p-2},
     {6671, -0x1.1391c00000000p+0}, {10006, -0x1.254a320000000p+0}}, 0x1.3390660000000p+2},
    {NORMAL_1_3, 5, {{0, -0x1.c624080000000p+0}, {1, -0x1.1aa8500000000p-2},
     {3, 0x1.6f80500000000p+0}, {4, 0x1.4659660000000p-1}}, 0x1.8adfce0000000p+0},
    {NORMAL_1_3, 257, {{0, -0x1.c624080000000p+0}, {85, 0x1.5567c00000000p+2},
     {171, 0x1.7a65bc0000000p+0}, {256, 0x1.b64c040000000p+0}}, 0x1.8adfce0000000p+0},
    {NORMAL_1_3, 1000, {{0, -0x1.c624080000000p+0}, {333, 0x1.d2ab260000000p+1},
     {666, -0x1.7c2c960000000p+1}, {999, 0x1.f3cd9e0000000p+2}}, 0x1.8adfce0000000p+0},
    {NORMAL_1_3, 10007, {{0, -0x1.c624080000000p+0}, {3335, 0x1.6dcfc40000000p+2},
     {6671, 0x1.2ec6960000000p+2}, {10006, 0x1.3dc7ce0000000p+2}}, 0x1.8adfce0000000p+0},
    {BERNOULLI_0_3, 5, {{0, 0}, {1, 0}, {3, 0}, {4, 0}}, 0},
    {BERNOULLI_0_3, 257, {{0, 0}, {85, 0}, {171, 0}, {256, 1}}, 0},
    {BERNOULLI_0_3, 1000, {{0, 0}, {333, 0}, {666, 1}, {999, 1}}, 0},
    {BERNOULLI_0_3, 10007, {{0, 0}, {3335, 1}, {6671, 1}, {10006, 1}}, 0},
    {BERNOULLI_0_3_64, 5, {{0, 0}, {1, 0}, {3, 1}, {4, 0}}, 0},
    {BERNOULLI_0_3_64, 257, {{0, 0}, {85, 1}, {171, 0}, {256, 1}}, 0},
    {BERNOULLI_0_3_64, 1000, {{0, 0}, {333, 1}, {666, 0}, {999, 1}}, 0},
    {BERNOULLI_0_3_64, 10007, {{0, 0}, {3335, 1}, {6671, 0}, {10006, 1}}, 0},
    {BERNOULLI_EACH, 5, {{0, 0}, {1, 0}, {3, 0}, {4, 0}}, 0},
    {BERNOULLI_EACH, 257, {{0, 0}, {85, 0}, {171, 1}, {256, 0}}, 0},
    {BERNOULLI_EACH, 1000, {{0, 0}, {333, 1}, {666, 1}, {999, 0}}, 0},
    {BERNOULLI_EACH, 10007, {{0, 0}, {3335, 0}, {6671, 1}, {10006, 0}}, 0},
    {RANDINT_0_10, 5, {{0, 1}, {1, 0x1.c000000000000p+2}, {3, 0x1.0000000000000p+1},
     {4, 0x1.8000000000000p+1}}, 0x1.0000000000000p+2},
    {RANDINT_0_10, 257, {{0, 1}, {85, 0x1.2000000000000p+3}, {171, 0x1.c000000000000p+2},
     {256, 0x1.0000000000000p+1}}, 0x1.0000000000000p+2},
    {RANDINT_0_10, 1000, {{0, 1}, {333, 0x1.0000000000000p+3}, {666, 0x1.8000000000000p+2},
     {999, 0x1.4000000000000p+2}}, 0x1.0000000000000p+2},
    {RANDINT_0_10, 10007, {{0, 1}, {3335, 0x1.4000000000000p+2}, {6671, 0},
     {10006, 0x1.c000000000000p+2}}, 0x1.0000000000000p+2},
    {RANDINT_0_2_27, 5, {{0, 0x1.89fa354000000p+26}, {1, 0x1.1145784000000p+26},
     {3, 0x1.5215780000000p+23}, {4, 0x1.11bf848000000p+25}}, 0x1.c999480000000p+23},
    {RANDINT_0_2_27, 257, {{0, 0x1.89fa354000000p+26}, {85, 0x1.965ec24000000p+26},
     {171, 0x1.9f31de4000000p+26}, {256, 0x1.808d180000000p+26}}, 0x1.c999480000000p+23},
    {RANDINT_0_2_27, 1000, {{0, 0x1.89fa354000000p+26}, {333, 0x1.577a780000000p+26},
     {666, 0x1.1f7ca78000000p+26}, {999, 0x1.275e238000000p+25}}, 0x1.c999480000000p+23},
    {RANDINT_0_2_27, 10007, {{0, 0x1.89fa354000000p+26}, {3335, 0x1.d8610f0000000p+24},
     {6671, 0x1.c69b9a0000000p+24}, {10006, 0x1.cfa2d04000000p+26}}, 0x1.c999480000000p+23},
    {RANDINT_0_2_29, 5, {{0, 0x1.69c58d0000000p+24}, {1, 0x1.08d6eaa000000p+28},
     {3, 0x1.15896b8000000p+28}, {4, 0x1.e34610e000000p+27}}, 0x1.cb200db000000p+28},
    {RANDINT_0_2_29, 257, {{0, 0x1.69c58d0000000p+24}, {85, 0x1.1af4368000000p+28},
     {171, 0x1.c611602000000p+27}, {256, 0x1.17f06f0000000p+26}}, 0x1.cb200db000000p+28},
    {RANDINT_0_2_29, 1000, {{0, 0x1.69c58d0000000p+24}, {333, 0x1.e754060000000p+24},
     {666, 0x1.07d74f0000000p+25}, {999, 0x1.9bc9214000000p+28}}, 0x1.cb200db000000p+28},
    {RANDINT_0_2_29, 10007, {{0, 0x1.69c58d0000000p+24}, {3335, 0x1.d7009e0000000p+27},
     {6671, 0x1.372d380000000p+26}, {10006, 0x1.c886559000000p+28}}, 0x1.cb200db000000p+28},
    {RANDINT_5_2_40, 5, {{0, 0x1.abbed5fc00000p+39}, {1, 0x1.c3dbf02a78000p+39},
     {3, 0x1.78194a9302000p+39}, {4, 0x1.314befe0e0000p+35}}, 0x1.48afab11b4000p+39},
    {RANDINT_5_2_40, 257, {{0, 0x1.abbed5fc00000p+39}, {85, 0x1.2604f07f80000p+35},
     {171, 0x1.e5a6206c64000p+38}, {256, 0x1.800fc6dacc000p+38}}, 0x1.48afab11b4000p+39},
    {RANDINT_5_2_40, 1000, {{0, 0x1.abbed5fc00000p+39}, {333, 0x1.c07d08fce8000p+39},
     {666, 0x1.3dc2b271be000p+39}, {999, 0x1.1ce584218c000p+38}}, 0x1.48afab11b4000p+39},
    {RANDINT_5_2_40, 10007, {{0, 0x1.abbed5fc00000p+39}, {3335, 0x1.e5b2d960c0000p+35},
     {6671, 0x1.34c867a7a8000p+39}, {10006, 0x1.046fb0b274000p+38}}, 0x1.48afab11b4000p+39},
    {RANDOM_I64, 5, {{0, 7361108121267848589}, {1, 307676209692372650},
     {3, 8118031606173177528}, {4, 8224557023540949127}}, 0x1.e393329172c80p+62},
    {RANDOM_I64, 257, {{0, 7361108121267848589}, {85, 5645678887304119144},
     {171, 7961457565637839617}, {256, 1585887605782725052}}, 0x1.e393329172c80p+62},
    {RANDOM_I64, 1000, {{0, 7361108121267848589}, {333, 3269026053928473606},
     {666, 2629524521665670814}, {999, 1319198754963493396}}, 0x1.e393329172c80p+62},
    {RANDOM_I64, 10007, {{0, 7361108121267848589}, {3335, 4168188172967609584},
     {6671, 2433803736059786464}, {10006, 2251389975499662681}}, 0x1.e393329172c80p+62},
    {RANDOM_I32, 5, {{0, 0x1.989fa35400000p+30}, {1, 0x1.1145784000000p+26},
     {3, 0x1.c2a42af000000p+30}, {4, 0x1.c88dfc2400000p+30}}, 0x1.e393329000000p+30},
    {RANDOM_I32, 257, {{0, 0x1.989fa35400000p+30}, {85, 0x1.3965ec2400000p+30},
     {171, 0x1.b9f31de400000p+30}, {256, 0x1.6023460000000p+28}}, 0x1.e393329000000p+30},
    {RANDOM_I32, 1000, {{0, 0x1.989fa35400000p+30}, {333, 0x1.6aef4f0000000p+29},
     {666, 0x1.23ef94f000000p+29}, {999, 0x1.24ebc47000000p+28}}, 0x1.e393329000000p+30},
    {RANDOM_I32, 10007, {{0, 0x1.989fa35400000p+30}, {3335, 0x1.cec3087800000p+29},
     {6671, 0x1.0e34dcd000000p+29}, {10006, 0x1.f3e8b41000000p+28}}, 0x1.e393329000000p+30},
    {RANDOM_F, 5, {{0, 0x1.3f43780000000p+21}, {1, 0x1.1455740000000p+22},
     {3, 0x1.5213980000000p+23}, {4, 0x1.1bf0b80000000p+21}}, 0x1.c997580000000p+23},
    {RANDOM_F, 257, {{0, 0x1.3f43780000000p+21}, {85, 0x1.65eaec0000000p+22},
     {171, 0x1.f31a2c0000000p+22}, {256, 0x1.1a25000000000p+17}}, 0x1.c997580000000p+23},
    {RANDOM_F, 1000, {{0, 0x1.3f43780000000p+21}, {333, 0x1.77a4cc0000000p+22},
     {666, 0x1.f7c9e80000000p+22}, {999, 0x1.3af0d40000000p+22}}, 0x1.c997580000000p+23},
    {RANDOM_F, 10007, {{0, 0x1.3f43780000000p+21}, {3335, 0x1.b0c1ac0000000p+23},
     {6671, 0x1.8d36f20000000p+23}, {10006, 0x1.f459100000000p+21}}, 0x1.c997580000000p+23},
    {EXPONENTIAL, 5, {{0, 0x1.d65cde0000000p-2}, {1, 0x1.52172e0000000p-2},
     {3, 0x1.fa30ee0000000p-6}, {4, 0x1.c805fc0000000p-6}}, 0x1.cd3b220000000p-7},
    {EXPONENTIAL, 257, {{0, 0x1.d65cde0000000p-2}, {85, 0x1.2f1a740000000p-1},
     {171, 0x1.223f080000000p-5}, {256, 0x1.3a14440000000p+0}}, 0x1.cd3b220000000p-7},
    {EXPONENTIAL, 1000, {{0, 0x1.d65cde0000000p-2}, {333, 0x1.8f1f340000000p-3},
     {666, 0x1.f2b5b00000000p-1}, {999, 0x1.51a5820000000p+0}}, 0x1.cd3b220000000p-7},
    {EXPONENTIAL, 10007, {{0, 0x1.d65cde0000000p-2}, {3335, 0x1.7cc6aa0000000p-1},
     {6671, 0x1.03415e0000000p+0}, {10006, 0x1.0d3a3e0000000p+0}}, 0x1.cd3b220000000p-7},
    {CAUCHY, 5, {{0, 0x1.abf8d00000000p-1}, {1, 0x1.06b6960000000p+0},
     {3, 0x1.cff49e0000000p+1}, {4, 0x1.f49a940000000p+1}}, 0x1.ae03960000000p+2},
    {CAUCHY, 257, {{0, 0x1.abf8d00000000p-1}, {85, 0x1.4d57a00000000p-1},
     {171, 0x1.a5329c0000000p+1}, {256, -0x1.9caf700000000p-1}}, 0x1.ae03960000000p+2},
    {CAUCHY, 1000, {{0, 0x1.abf8d00000000p-1}, {333, 0x1.4fab240000000p+0},
     {666, -0x1.4eb0000000000p-5}, {999, -0x1.301cc40000000p+0}}, 0x1.ae03960000000p+2},
    {CAUCHY, 10007, {{0, 0x1.abf8d00000000p-1}, {3335, 0x1.ac2a4c0000000p-2},
     {6671, -0x1.175ec00000000p-3}, {10006, -0x1.ea7c800000000p-3}}, 0x1.ae03960000000p+2},
    {GEOMETRIC, 5, {{0, 0x1.8000000000000p+1}, {1, 0x1.0000000000000p+1}, {3, 1}, {4, 1}}, 1},
    {GEOMETRIC, 257, {{0, 0x1.8000000000000p+1}, {85, 0x1.0000000000000p+2}, {171, 1},
     {256, 0x1.c000000000000p+2}}, 1},
    {GEOMETRIC, 1000, {{0, 0x1.8000000000000p+1}, {333, 0x1.0000000000000p+1},
     {666, 0x1.8000000000000p+2}, {999, 0x1.0000000000000p+3}}, 1},
    {GEOMETRIC, 10007, {{0, 0x1.8000000000000p+1}, {3335, 0x1.4000000000000p+2},
     {6671, 0x1.8000000000000p+2}, {10006, 0x1.8000000000000p+2}}, 1},
    {LOG_NORMAL, 5, {{0, 0x1.b6465e0000000p+0}, {1, 0x1.19483a0000000p+1},
     {3, 0x1.7623160000000p+1}, {4, 0x1.4789240000000p+1}}, 0x1.7cdd440000000p+1},
    {LOG_NORMAL, 257, {{0, 0x1.b6465e0000000p+0}, {85, 0x1.6645a60000000p+2},
     {171, 0x1.78ccf40000000p+1}, {256, 0x1.87c8f40000000p+1}}, 0x1.7cdd440000000p+1},
    {LOG_NORMAL, 1000, {{0, 0x1.b6465e0000000p+0}, {333, 0x1.0e63500000000p+2},
     {666, 0x1.670f9e0000000p+0}, {999, 0x1.0e997e0000000p+3}}, 0x1.7cdd440000000p+1},
    {LOG_NORMAL, 10007, {{0, 0x1.b6465e0000000p+0}, {3335, 0x1.7dc84c0000000p+2},
     {6671, 0x1.43fbf80000000p+2}, {10006, 0x1.50e4fe0000000p+2}}, 0x1.7cdd440000000p+1},
    {DROPOUT_0_3, 5, {{0, 0x1.6db6dc0000000p+0}, {1, 0x1.6db6dc0000000p+0}, {3, 0}, {4, 0}}, 0},
    {DROPOUT_0_3, 257, {{0, 0x1.6db6dc0000000p+0}, {85, 0x1.6db6dc0000000p+0}, {171, 0},
     {256, 0x1.6db6dc0000000p+0}}, 0},
    {DROPOUT_0_3, 1000, {{0, 0x1.6db6dc0000000p+0}, {333, 0x1.6db6dc0000000p+0},
     {666, 0x1.6db6dc0000000p+0}, {999, 0x1.6db6dc0000000p+0}}, 0},
    {DROPOUT_0_3, 4096, {{0, 0x1.6db6dc0000000p+0}, {1365, 0}, {2730, 0},
     {4095, 0x1.6db6dc0000000p+0}}, 0},
    {DROPOUT_0_3, 300000, {{0, 0x1.6db6dc0000000p+0}, {150000, 0x1.6db6dc0000000p+0},
     {270336, 0x1.6db6dc0000000p+0}, {299999, 0x1.6db6dc0000000p+0}}, 0},
    {DROPOUT16_0_3, 5, {{0, 0x1.6dc0000000000p+0}, {1, 0x1.6dc0000000000p+0}, {3, 0}, {4, 0}}, 0},
    {DROPOUT16_0_3, 257, {{0, 0x1.6dc0000000000p+0}, {85, 0x1.6dc0000000000p+0}, {171, 0},
     {256, 0x1.6dc0000000000p+0}}, 0},
    {DROPOUT16_0_3, 1000, {{0, 0x1.6dc0000000000p+0}, {333, 0x1.6dc0000000000p+0},
     {666, 0x1.6dc0000000000p+0}, {999, 0x1.6dc0000000000p+0}}, 0},
    {DROPOUT16_0_3, 4096, {{0, 0x1.6dc0000000000p+0}, {1365, 0}, {2730, 0x1.6dc0000000000p+0},
     {4095, 0}}, 0},
    {DROPOUT64_0_3, 5, {{0, 0x1.6db6db6db6db7p+0}, {1, 0x1.6db6db6db6db7p+0}, {3, 0}, {4, 0}}, 0},
    {DROPOUT64_0_3, 257, {{0, 0x1.6db6db6db6db7p+0}, {85, 0x1.6db6db6db6db7p+0}, {171, 0},
     {256, 0x1.6db6db6db6db7p+0}}, 0},
    {DROPOUT64_0_3, 1000, {{0, 0x1.6db6db6db6db7p+0}, {333, 0}, {666, 0x1.6db6db6db6db7p+0},
     {999, 0}}, 0},
    {DROPOUT64_0_3, 4096, {{0, 0x1.6db6db6db6db7p+0}, {1365, 0x1.6db6db6db6db7p+0}, {2730, 0},
     {4095, 0x1.6db6db6db6db7p+0}}, 0},
};

static bool is(double have, double want, kind k) {
    return have == want || fabs(have - want) <= tolerance(k) * (1 + fabs(want));
}

TEST(random_numbers_on_a_card_are_those_of_pytorch_there) {
    if (!card_begin())
        return;
    for (int i = 0; i < (int)(sizeof drawn / sizeof *drawn); i++) CFX_SCOPE {
        const int64_t n = drawn[i].n;
        cfx_manual_seed(0);
        const cfx_tensor *a = draw(drawn[i].k, n), *b = draw(drawn[i].k, n);
        CHECK_OK();
        CHECK_INT(cfx_tensor_device(a).type, CFX_CUDA);
        for (int j = 0; j < 4; j++)
            if (!is(cfx_tensor_get(a, drawn[i].first[j].at), drawn[i].first[j].is, drawn[i].k))
                test_fail(CFX_HERE, "kind %d, element %lld of %lld is %a, not %a", drawn[i].k,
                          (long long)drawn[i].first[j].at, (long long)n,
                          cfx_tensor_get(a, drawn[i].first[j].at), drawn[i].first[j].is);
        if (!is(cfx_tensor_get(b, 0), drawn[i].second, drawn[i].k))
            test_fail(CFX_HERE, "kind %d, the second of %lld begins with %a, not %a", drawn[i].k,
                      (long long)n, cfx_tensor_get(b, 0), drawn[i].second);
    }
    card_end();
}

/* A card's generator is seeded, kept and set beside that of the host. */
TEST(a_card_has_a_generator_of_its_own) {
    if (!card_begin())
        return;
    CFX_SCOPE {
        cfx_manual_seed(7);
        const double of_host = cfx_tensor_get(cfx_rand(1), 0);
        const double of_card = cfx_tensor_get(cfx_rand(1, CARD), 0);
        cfx_manual_seed(7);
        cfx_cuda_manual_seed(0, 1);
        CHECK(cfx_tensor_get(cfx_rand(1, CARD), 0) != of_card);
        CHECK(cfx_tensor_get(cfx_rand(1), 0) == of_host);
        cfx_cuda_manual_seed(0, 7);
        CHECK(cfx_tensor_get(cfx_rand(1, CARD), 0) == of_card);

        cfx_tensor *state = cfx_cuda_get_rng_state(0);
        static const double bytes[16] = {7, 0, 0, 0, 0, 0, 0, 0, 4};
        CHECK_INT(cfx_tensor_numel(state), 16);
        for (int i = 0; i < 16; i++)
            CHECK(cfx_tensor_get(state, i) == bytes[i]);
        const double next = cfx_tensor_get(cfx_rand(1, CARD), 0);
        cfx_manual_seed(3);
        CHECK(cfx_cuda_set_rng_state(0, state));
        CHECK(cfx_tensor_get(cfx_rand(1, CARD), 0) == next);
        cfx_tensor *all = cfx_get_rng_state(); /* has that of the card too */
        const double third = cfx_tensor_get(cfx_rand(1, CARD), 0);
        cfx_manual_seed(0);
        CHECK(cfx_set_rng_state(all));
        CHECK(cfx_tensor_get(cfx_rand(1, CARD), 0) == third);
        CHECK_OK();

        CHECK(!cfx_cuda_set_rng_state(0, cfx_zeros(16)));
        CHECK_ERROR("RNG state must be a torch.ByteTensor of 16 bytes");
        CHECK(!cfx_cuda_set_rng_state(8, state));
        CHECK_ERROR("there is no generator for cuda:8");
    }
    card_end();
}
