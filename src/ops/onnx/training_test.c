/* Steps of optimisers and operators of ai.onnx.ml on numbers that can be followed by hand. */
#include "onnx.h"
#include "test.h"

#define OP(name, ...) cfx_str(cfx_op_do(cfx_op_find(name ".default"), __VA_ARGS__))
#define T_(...) cfx_tensor_from_value(cfx_list(__VA_ARGS__))
#define L(...) cfx_list(__VA_ARGS__)

static cfx_tensor *number(double x) { return cfx_tensor_from_value(cfx_float(x)); }
static cfx_tensor *count(int64_t n) { return cfx_tensor_from_value(cfx_int(n)); }

/* The rate 0.5 becomes 0.25 after one step by a decay of 1; 3 and 4 squared are 25. */
TEST(onnx_adagrad_divides_by_the_root_of_what_was) {
    CHECK_STR(OP("onnx_training.Adagrad", number(0.5), count(1), L(T_(1.0), T_(4.0), T_(9.0)),
                 CFX_KW(decay_factor, 1.0)),
              "[tensor([0.8000]), tensor([25.])]");
    CHECK_OK();
    OP("onnx_training.Adagrad", number(0.5), count(1), L(T_(1.0), T_(4.0)));
    CHECK_ERROR("Adagrad: 2 tensors are not 3 for each that is trained");
}

/* Two tensors: values, gradients and momenta each follow one another. The first step takes the
 * gradient as it is. */
TEST(onnx_momentum_of_two_tensors) {
    cfx_value all = L(T_(10.0), T_(20.0), T_(1.0), T_(2.0), T_(4.0), T_(8.0));
    CHECK_STR(OP("onnx_training.Momentum", number(0.5), count(0), all, CFX_KW(alpha, 0.5),
                 CFX_KW(beta, 0.25), CFX_KW(mode, "standard"), CFX_KW(norm_coefficient, 0.0)),
              "[tensor([8.5000]), tensor([17.]), tensor([3.]), tensor([6.])]");
    CHECK_STR(OP("onnx_training.Momentum", number(0.5), count(3), all, CFX_KW(alpha, 0.5),
                 CFX_KW(beta, 2.0), CFX_KW(mode, "nesterov"), CFX_KW(norm_coefficient, 0.1)),
              "[tensor([7.5000]), tensor([15.]), tensor([6.]), tensor([12.])]");
    CHECK_OK();
}

/* Without history both corrections cancel: a step is as long as the rate. */
TEST(onnx_adam_corrects_what_began_at_zero) {
    cfx_value all = L(T_(1.0, 2.0), T_(4.0, -3.0), T_(0.0, 0.0), T_(0.0, 0.0));
    CHECK_STR(OP("onnx_training.Adam", number(0.5), count(1), all, CFX_KW(alpha, 0.5),
                 CFX_KW(beta, 0.75)),
              "[tensor([0.5000, 2.5000]), tensor([ 2.0000, -1.5000]), tensor([4.0000, 2.2500])]");
    CHECK_STR(OP("onnx_training.Adam", number(0.5), count(0), all, CFX_KW(alpha, 0.5),
                 CFX_KW(beta, 0.75), CFX_KW(norm_coefficient_post, 0.5)),
              "[tensor([0.2500, 1.2500]), tensor([ 2.0000, -1.5000]), tensor([4.0000, 2.2500])]");
    CHECK_OK();
}

TEST(onnx_ml_takes_features_and_thresholds) {
    CHECK_STR(OP("onnx_ml.Binarizer", T_(-1.0, 0.5, 2.0), CFX_KW(threshold, 0.5)),
              "tensor([0., 0., 1.])");
    CHECK_STR(OP("onnx_ml.ArrayFeatureExtractor", T_(5.0, 6.0, 7.0), T_(2, 0)),
              "tensor([[7., 5.]])");
    CHECK_OK();
}
