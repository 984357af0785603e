/* The streams are PyTorch's: expected numbers are what it gives after manual_seed(0). */
#include "tensor.h"
#include "test.h"

#include <math.h>

static cfx__generator *seeded(void) {
    cfx_manual_seed(0);
    return cfx__generator_default();
}

static cfx_tensor *empty(cfx_dtype dtype, int64_t n) { return cfx_tensor_new(dtype, 1, &n, NULL); }

#define EXPECT(t, tol, ...)                                                                        \
    expect(t, tol, (double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double),      \
           CFX_HERE)

/* The first n elements. */
static void expect(const cfx_tensor *t, double tol, const double *want, int64_t n, cfx_site at) {
    for (int64_t i = 0; i < n; i++)
        test_check_near(cfx_tensor_get(t, i), want[i], tol, at,
                        cfx__text_format("element %d", (int)i));
}

TEST(uniform_numbers) {
    cfx_tensor *t = empty(CFX_F32, 5);
    cfx__random_uniform(seeded(), t, 0, 1);
    EXPECT(t, 0, 0.49625658988952637, 0.7682217955589294, 0.08847743272781372, 0.13203048706054688,
           0.30742281675338745);
    t = empty(CFX_F64, 5);
    cfx__random_uniform(seeded(), t, 0, 1);
    EXPECT(t, 0, 0.9700530018065531, 0.707819864399788, 0.45938294312745087, 0.9207476841219603,
           0.6450241201227648);
    t = empty(CFX_F32, 6);
    cfx__random_uniform(seeded(), t, -2, 3);
    EXPECT(t, 0, 0.48128294944763184, 1.841109037399292, -1.5576128959655762, -1.3398475646972656,
           -0.46288591623306274, 1.170393466949463);
    t = empty(CFX_F16, 6);
    cfx__random_uniform(seeded(), t, 0, 1);
    EXPECT(t, 0, 0.333984375, 0.27294921875, 0.80712890625, 0.59375, 0.40771484375, 0.37255859375);
    t = empty(CFX_BF16, 6);
    cfx__random_uniform(seeded(), t, 0, 1);
    EXPECT(t, 0, 0.671875, 0.18359375, 0.45703125, 0.75, 0.26171875, 0.98046875);
}

/* Linear(3, 2) and Conv2d(2, 3, 3): kaiming_uniform with a = sqrt(5), then the bias. */
TEST(uniform_numbers_of_layers) {
    cfx__generator *g = seeded();
    double bound = sqrt(3.) * (sqrt(2. / (1 + 5)) / sqrt(3.));
    cfx_tensor *weight = empty(CFX_F32, 6), *bias = empty(CFX_F32, 2);
    cfx__random_uniform(g, weight, -bound, bound);
    EXPECT(weight, 0, -0.004322517663240433, 0.3097158372402191, -0.4751853346824646,
           -0.4248946011066437, -0.2223689705133438, 0.15482072532176971);
    cfx__random_uniform(g, bias, -1 / sqrt(3.), 1 / sqrt(3.));
    EXPECT(bias, 0, -0.011439144611358643, 0.45777493715286255);
    bound = sqrt(3.) * (sqrt(2. / (1 + 5)) / sqrt(18.));
    weight = empty(CFX_F32, 54);
    cfx__random_uniform(seeded(), weight, -bound, bound);
    EXPECT(weight, 0, -0.0017646604683250189, 0.12644097208976746, -0.19399359822273254,
           -0.17346249520778656, -0.09078175574541092, 0.0632052943110466, -0.004670011345297098);
}

TEST(a_few_normal_numbers) {
    cfx_tensor *t = empty(CFX_F32, 5);
    cfx__random_normal(seeded(), t, 0, 1);
    EXPECT(t, 0, 1.5409960746765137, -0.293428897857666, -2.1787893772125244, 0.5684312582015991,
           -1.0845223665237427);
    t = empty(CFX_F64, 5);
    cfx__random_normal(seeded(), t, 0, 1);
    EXPECT(t, 1e-15, 1.5409961082440433, -0.2934289057609464, -2.1787893820745574,
           0.5684312772806678, -1.084522342424021);
}

TEST(the_second_normal_number_waits) {
    cfx__generator *g = seeded();
    cfx_tensor *t = empty(CFX_F32, 3);
    cfx__random_normal(g, t, 0, 1);
    cfx__random_normal(g, t, 0, 1);
    EXPECT(t, 0, 0.5684312582015991, -1.0845223665237427);
    cfx_tensor *u = empty(CFX_F32, 3);
    g = seeded(); /* forgets the one that waits */
    cfx__random_uniform(g, u, 0, 1);
    EXPECT(u, 0, 0.49625658988952637, 0.7682217955589294, 0.08847743272781372);
    cfx__random_normal(g, u, 0, 1);
    EXPECT(u, 0, 0.3643381893634796, 0.13439632952213287, 0.16421625018119812);
}

TEST(many_normal_numbers) {
    cfx_tensor *t = empty(CFX_F32, 37);
    cfx__random_normal(seeded(), t, 0, 1);
    EXPECT(t, 0, -1.1258398294448853, -1.152360200881958, -0.2505785822868347, -0.4338788092136383,
           0.8487103581428528, 0.6920091509819031, -0.31601276993751526, -2.1152193546295166,
           0.32227492332458496, -1.2633347511291504, 0.34998318552970886, 0.30813392996788025,
           0.11984150856733322, 1.237657904624939, 1.1167771816253662, -0.2472781538963318,
           -1.3526537418365479, -1.6959311962127686, 0.5666506290435791, 0.7935083508491516,
           0.5988394618034363, 0.11241118609905243, 0.6407923698425293, 0.441156268119812,
           -0.21586325764656067, -0.7425481677055359, 0.5627213716506958, 0.25962740182876587,
           -0.17396099865436554, 2.3022053241729736, -1.4688938856124878, -1.586688756942749,
           1.203223705291748, 0.08453469723463058, -1.2001394033432007, -0.004785737954080105,
           -0.5180748105049133);
    t = empty(CFX_F32, 20);
    cfx__random_normal(seeded(), t, 1, 0.5);
    EXPECT(t, 0, 0.4370800852775574, 0.423819899559021, 0.8747106790542603, 0.783060610294342,
           1.2994197607040405, 0.22245246171951294, 0.8293198347091675, 1.92650306224823);
    t = empty(CFX_F64, 18);
    cfx__random_normal(seeded(), t, 1, 2);
    EXPECT(t, 1e-14, -3.620823600468352, 0.2534982774844714, -1.521849311438877,
           -0.4539021241308221, 0.9600704981844747, 1.4205997802033894, 1.3543787027873317);
    t = empty(CFX_BF16, 18);
    cfx__random_normal(seeded(), t, 0, 1);
    EXPECT(t, 0, 1.4609375, 0.291015625, -0.435546875, 1.3671875, -0.671875, -0.11083984375,
           0.89453125, -1.3359375, -0.875, 0.32421875, -0.57421875, 0.9609375, 2.03125, 0.5625);
}

TEST(strided_tensors_are_filled_by_memory) {
    cfx_tensor *t = empty(CFX_F32, 18);
    t = cfx_tensor_view(t, 2, (int64_t[]){6, 3}, (int64_t[]){1, 6}, 0);
    cfx__random_normal(seeded(), t, 0, 1);
    EXPECT(t, 0, 1.5409960746765137, 0.40334683656692505, -0.8566746115684509, -0.293428897857666,
           0.8380263447761536, 1.1006041765213013, -2.1787893772125244, -0.7192575931549072);
}

TEST(integers) {
    cfx_tensor *t = empty(CFX_I64, 10);
    cfx__random_from_to(seeded(), t, 0, 100);
    EXPECT(t, 0, 44, 39, 33, 60, 63, 79, 27, 3, 97, 83);
    cfx__random_from_to(seeded(), t, -((int64_t)1 << 40), (int64_t)1 << 50);
    EXPECT(t, 0, 1112347536304687, 258891369794752, 44271912768251);
    cfx__random_integers(seeded(), t);
    CHECK_INT(cfx_integer(cfx__tensor_get(t, 0)), 900450186894289455);
    CHECK_INT(cfx_integer(cfx__tensor_get(t, 1)), 3969543146641149120);
    cfx__random_from(seeded(), t, INT64_MIN);
    CHECK_INT(cfx_integer(cfx__tensor_get(t, 0)), -8322921849960486353);
    t = empty(CFX_F32, 4);
    cfx__random_integers(seeded(), t);
    EXPECT(t, 0, 8325664, 12888472, 1484222, 2214888);
    t = empty(CFX_U8, 6);
    cfx__random_integers(seeded(), t);
    EXPECT(t, 0, 172, 47, 117, 192, 67, 251);
}

TEST(coins) {
    cfx_tensor *t = empty(CFX_F32, 20), *p = empty(CFX_F32, 20);
    cfx__random_bernoulli(seeded(), t, 0.5);
    EXPECT(t, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0);
    cfx__tensor_fill(p, cfx_float(0.3));
    cfx__random_bernoulli_each(seeded(), t, p);
    EXPECT(t, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1);
    t = empty(CFX_F64, 12), p = empty(CFX_F64, 12);
    cfx__tensor_fill(p, cfx_float(0.3));
    cfx__random_bernoulli_each(seeded(), t, p);
    EXPECT(t, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1);
}

TEST(other_distributions) {
    cfx_tensor *t = empty(CFX_F64, 4);
    cfx__random_log_normal(seeded(), t, 0.3, 0.7);
    EXPECT(t, 1e-14, 3.969726798255606, 1.0992188222918946, 0.293712885878333, 2.009532070246903);
    cfx__random_cauchy(seeded(), t, 0.3, 0.7);
    EXPECT(t, 1e-14, 7.718410528677607, 0.8353370817241299, 0.21019046054177815, 3.053151317696255);
    cfx__random_exponential(seeded(), t, 0.7);
    EXPECT(t, 1e-14, 5.011894552439489, 1.757692520256681, 0.8786344198485878, 3.6215980631655453);
    t = empty(CFX_I64, 8);
    cfx__random_geometric(seeded(), t, 0.3);
    EXPECT(t, 0, 1, 1, 3, 1, 2, 1, 5, 3);
}

TEST(permutations) {
    cfx_tensor *t = empty(CFX_I64, 12);
    cfx__random_permutation(seeded(), t);
    EXPECT(t, 0, 8, 0, 5, 9, 7, 4, 2, 10, 3, 1, 11, 6);
    t = empty(CFX_F32, 12);
    cfx__random_permutation(seeded(), t);
    EXPECT(t, 0, 8, 0, 5, 9, 7, 4, 2, 10, 3, 1, 11, 6);
}

TEST(categories) {
    int64_t n = 4, rows[] = {2, 3}, picks[] = {2, 2};
    cfx_tensor *p = cfx_tensor_new(CFX_F32, 1, &n, (float[]){.1f, .2f, .3f, .4f});
    cfx_tensor *t = empty(CFX_I64, 8);
    cfx__random_multinomial(seeded(), t, p, true);
    EXPECT(t, 0, 3, 3, 2, 3, 3, 3, 1, 2);
    t = empty(CFX_I64, 4);
    cfx__random_multinomial(seeded(), t, p, false);
    EXPECT(t, 0, 2, 1, 3, 0);
    p = cfx_tensor_new(CFX_F64, 2, rows, (double[]){.1, .9, .5, 3, 2, 1});
    t = cfx_tensor_new(CFX_I64, 2, picks, NULL);
    cfx__random_multinomial(seeded(), t, p, false);
    EXPECT(t, 0, 2, 1, 1, 0);
    CHECK_OK();
}

TEST(a_generator_starts_with_pytorchs_seed) {
    cfx_tensor *t = empty(CFX_F32, 3);
    cfx__random_uniform(cfx__generator_default(), t, 0, 1);
    EXPECT(t, 0, 0.267295241355896, 0.8725283145904541, 0.3352888226509094);
}

TEST(what_cannot_be_drawn_is_an_error) {
    cfx__generator *g = seeded();
    cfx_tensor *t = empty(CFX_F32, 4), *u = empty(CFX_U8, 4);
    cfx__random_uniform(g, t, 1, 0);
    CHECK_ERROR("uniform_ expects to return a [from, to) range, but found from=1 > to=0");
    cfx__random_uniform(g, u, 0, 1);
    CHECK_ERROR("not implemented for 'Byte'");
    cfx__random_normal(g, t, 0, -1);
    CHECK_ERROR("normal expects std >= 0.0, but found std -1");
    cfx__random_from_to(g, u, 5, 5);
    CHECK_ERROR("random_ expects 'from' to be less than 'to', but got from=5 >= to=5");
    cfx__random_from_to(g, u, 0, 300);
    CHECK_ERROR("to - 1 is out of bounds for unsigned char");
    cfx__random_bernoulli(g, t, 2);
    CHECK_ERROR("bernoulli_ expects p to be in [0, 1], but got p=2");
    cfx__tensor_fill(t, cfx_float(-1));
    cfx__random_bernoulli_each(g, u, t);
    CHECK_ERROR("Expected p_in >= 0 && p_in <= 1");
    cfx_tensor *picks = empty(CFX_I64, 5);
    cfx__random_multinomial(g, picks, t, true);
    CHECK_ERROR("probability entry < 0");
    cfx__tensor_fill(t, cfx_float(0));
    cfx__random_multinomial(g, picks, t, false);
    CHECK_ERROR("cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    cfx__random_multinomial(g, picks, t, true);
    CHECK_ERROR("sum of probabilities <= 0");
    t = empty(CFX_F32, 0);
    cfx__random_normal(g, t, 0, 1);
    cfx__random_permutation(g, t);
    CHECK_OK();
}
