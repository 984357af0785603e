/* The gamma function's family: digamma, polygamma, the Hurwitz zeta function, incomplete gammas. */
#define _GNU_SOURCE /* lgamma_r */
#include <cfx/ops.h>

#include "../loops.h"
#include "../special.h"

CFX_FAMILY(MATH);

#undef lgamma_r
#define PI 3.14159265358979323846
#define EULER 0.57721566490153286061

static double special_log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* x less the integer nearest to it: what sin(pi x) and tan(pi x) depend on, without rounding. */
static double around_integer(double x) { return x - nearbyint(x); }

static double special_digamma(double x) {
    static const double c[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240,
                               1.0 / 132, -691.0 / 32760, 1.0 / 12};
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x < 0)
        return x == floor(x) ? NAN : special_digamma(1 - x) - PI / tan(PI * around_integer(x));
    double sum = 0;
    for (; x < 10; x++)
        sum -= 1 / x;
    double y = 1 / (x * x), tail = 0;
    for (int k = COUNT(c) - 1; k >= 0; k--)
        tail = (tail + c[k]) * y;
    return sum + log(x) - 0.5 / x - tail;
}

static double special_trigamma(double x) {
    static const double bernoulli[] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66,
                                       -691.0 / 2730, 7.0 / 6};
    if (x < 0.5) {
        double s = sin(PI * around_integer(x));
        return PI * PI / (s * s) - special_trigamma(1 - x);
    }
    double sum = 0;
    for (; x < 10; x++)
        sum += 1 / (x * x);
    double y = 1 / (x * x), tail = 0;
    for (int k = COUNT(bernoulli) - 1; k >= 0; k--)
        tail = (tail + bernoulli[k]) * y;
    return sum + 1 / x + y / 2 + tail / x;
}

/* ---- the Hurwitz zeta function --------------------------------------------------------------- */

/* For q > 0, by the Euler-Maclaurin formula from the tenth term on. */
static double zeta_right(double s, double q) {
    static const double c[] = {/* B(2k) / (2k)! */
                               0.08333333333333333,     -0.001388888888888889,
                               3.306878306878307e-05,   -8.267195767195768e-07,
                               2.08767569878681e-08,    -5.284190138687493e-10,
                               1.3382536530684679e-11,  -3.3896802963225827e-13,
                               8.586062056277845e-15,   -2.174868698558062e-16,
                               5.5090028283602295e-18,  -1.3954464685812522e-19};
    double sum = 0, w = q, term = 0;
    for (int k = 0; k < 9 || w <= 9; k++, w++) {
        term = pow(w, -s);
        sum += term;
        if (term <= 1e-17 * sum)
            return sum;
    }
    term = pow(w, -s);
    sum += term * w / (s - 1) + term / 2;
    double factor = s * term / w;
    for (int k = 0; k < COUNT(c); k++) {
        double add = c[k] * factor;
        sum += add;
        if (fabs(add) < 1e-17 * fabs(sum))
            break;
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (w * w);
    }
    return sum;
}

/* The Hurwitz zeta function: the sum of (q + k)^-s over k = 0, 1, ...; nan below s = 1. */
static double special_hurwitz(double s, double q) {
    if (s == 1)
        return INFINITY;
    if (s < 1)
        return NAN;
    if (q > 0 || q != q)
        return zeta_right(s, q);
    if (q == floor(q))
        return INFINITY;
    if (s != floor(s))
        return NAN;
    /* The sum over all integers depends on the fraction of q alone; what lies left is taken off. */
    double f = q - floor(q), sign = fmod(s, 2) == 0 ? 1 : -1;
    return zeta_right(s, f) + sign * (zeta_right(s, 1 - f) - zeta_right(s, 1 - q));
}

/* ---- incomplete gamma functions -------------------------------------------------------------- */

/* Rows of the uniform expansion of the incomplete gamma functions: powers of eta. */
static const double temme[7][16] = {
    {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073,
     0.0003527336860670194, -0.0001787551440329218, 3.919263178522438e-05,
     -2.185448510679992e-06, -1.85406221071516e-06, 8.296711340953087e-07,
     -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08,
     -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11},
    {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
     0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05,
     7.64916091608111e-06, -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07,
     -5.752545603517705e-08, 1.1951628599778148e-08, -1.7543241719747647e-11,
     -1.0091543710600413e-09, 4.162792991842583e-10},
    {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
     -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05,
     3.423578734096138e-08, 1.3721957309062934e-06, -6.298992138380055e-07,
     1.4280614206064242e-07, -2.0477098421990866e-10, -1.409252991086752e-08,
     6.228974084922022e-09, -1.3670488396617114e-09, 9.428356159014678e-13},
    {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557,
     0.00026772063206283885, -7.561801671883977e-05, -2.396505113867297e-07,
     1.1082654115347302e-05, -5.6749528269915965e-06, 1.4230900732435883e-06,
     -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
     -1.9111168485973655e-08, 2.3928620439808118e-12, 2.0620131815488797e-09,
     -9.460496661855133e-10},
    {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902,
     -1.4638452578843418e-06, 6.641498215465122e-05, -3.968365047179435e-05,
     1.1375726970678419e-05, 2.507497226237533e-10, -1.6954149536558305e-06,
     8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11,
     2.8865829742708783e-08, -1.4189739437803219e-08, 3.4463580499464896e-09,
     -2.3024517174528067e-13},
    {-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392,
     -0.00019932570516188847, 6.797780477937208e-05, 1.419062920643967e-07,
     -1.3594048189768693e-05, 8.018470256334202e-06, -2.291481176508095e-06,
     -3.252473551298454e-10, 3.4652846491085265e-07, -1.8447187191171344e-07,
     4.8240967037894184e-08, -1.7989466721743514e-14, -6.306194500013523e-09,
     3.162417628774568e-09},
    {0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045, 7.902353232660328e-07,
     -8.153969367561969e-05, 5.61168275310625e-05, -1.8329116582843375e-05,
     -3.0796134506033047e-09, 3.465155368803609e-06, -2.0291327396058603e-06,
     5.788792863149004e-07, 2.338630673826657e-13, -8.828600746330484e-08,
     4.7435958880408125e-08, -1.2545415020710383e-08, 8.649648858010293e-14},
};

/* log(1 + m) - m without cancellation. */
static double log1p_less(double m) {
    if (fabs(m) > 0.6)
        return log1p(m) - m;
    double r = m / (2 + m), y = r * r, power = r * y, sum = 0;
    for (int k = 3; k < 60 && fabs(power) > 1e-18 * fabs(sum); k += 2, power *= y)
        sum += power / k;
    return 2 * sum - r * m;
}

/* x^a exp(-x) / gamma(a + 1). */
static double gamma_density(double a, double x) {
    if (a < 10)
        return exp(a * log(x) - x - special_log_gamma(a + 1));
    double y = 1 / (a * a);
    double stirling = (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y / 1680))) / a;
    return exp(a * log1p_less((x - a) / a) - stirling) / sqrt(2 * PI * a);
}

/* P by its power series; converges fast for x below a + 1. */
static double gamma_series(double a, double x) {
    double sum = 1, term = 1;
    for (int k = 1; k < 2000 && term > 1e-17 * sum; k++) {
        term *= x / (a + k);
        sum += term;
    }
    return gamma_density(a, x) * sum;
}

/* Q by its continued fraction; converges fast for x above a + 1. */
static double gamma_fraction(double a, double x) {
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d;
    for (int k = 1; k < 2000; k++) {
        double an = -k * (k - a);
        b += 2;
        d = an * d + b;
        c = b + an / c;
        d = 1 / (fabs(d) < 1e-300 ? 1e-300 : d);
        c = fabs(c) < 1e-300 ? 1e-300 : c;
        double step = c * d;
        h *= step;
        if (fabs(step - 1) < 1e-16)
            break;
    }
    return gamma_density(a, x) * a * h;
}

/* log(gamma(1 + a)) for a >= 0, exact near 0 too. */
static double log_gamma1p(double a) {
    if (a > 1e-3)
        return special_log_gamma(1 + a);
    return a * (-EULER + a * (0.8224670334241132 +
                              a * (-0.40068563438653143 + a * (0.27058080842778454 - a * 0.207))));
}

/* Q for a and x below 1: the part that is nearly 1 is taken off before it is added. */
static double gamma_q_small(double a, double x) {
    double power = a * log(x) - log_gamma1p(a), term = 1, sum = 0;
    for (int k = 1; k < 40; k++) {
        term *= -x / k;
        sum += term / (a + k);
    }
    return -expm1(power) - exp(power) * a * sum;
}

/* P, or Q where upper, for large a near the transition at x = a: Temme's uniform expansion. */
static double gamma_uniform(double a, double x, bool upper) {
    double m = (x - a) / a, half = -log1p_less(m), eta = copysign(sqrt(2 * half), m);
    double sum = 0, scale = 1;
    for (int k = 0; k < COUNT(temme); k++, scale /= a) {
        double row = 0;
        for (int n = COUNT(temme[0]) - 1; n >= 0; n--)
            row = row * eta + temme[k][n];
        sum += row * scale;
    }
    double rest = exp(-a * half) / sqrt(2 * PI * a) * sum, z = eta * sqrt(a / 2);
    return upper ? 0.5 * erfc(z) + rest : 0.5 * erfc(-z) - rest;
}

/* P or Q for finite a, x > 0. */
static double gamma_inside(double a, double x, bool upper) {
    if (a > 200 && fabs(x - a) < 0.3 * a)
        return gamma_uniform(a, x, upper);
    if (upper && a < 1 && x < 1)
        return gamma_q_small(a, x);
    if (x < a + 1) {
        double p = gamma_series(a, x);
        return upper ? 1 - p : p;
    }
    double q = gamma_fraction(a, x);
    return upper ? q : 1 - q;
}

/* The regularised incomplete gamma functions, lower and upper. */
static double special_gamma_p(double a, double x) {
    if (x < 0 || a < 0 || x != x || a != a)
        return NAN;
    if (a == 0)
        return x > 0 ? 1 : NAN;
    if (x == 0)
        return 0;
    if (isinf(a))
        return isinf(x) ? NAN : 0;
    return isinf(x) ? 1 : gamma_inside(a, x, false);
}

static double special_gamma_q(double a, double x) {
    if (x < 0 || a < 0 || x != x || a != a)
        return NAN;
    if (a == 0)
        return x > 0 ? 0 : NAN;
    if (x == 0)
        return 1;
    if (isinf(a))
        return isinf(x) ? NAN : 1;
    return isinf(x) ? 0 : gamma_inside(a, x, true);
}

/* ---- rows ------------------------------------------------------------------------------------ */

FLOAT1(lgamma, 30, special_log_gamma(x))
FLOAT1(digamma, 30, special_digamma(x))
FLOAT2(igamma, 200, special_gamma_p(x, y))
FLOAT2(igammac, 200, special_gamma_q(x, y))
FLOAT2(zeta, 200, special_hurwitz(x, y))

CFX_OP(lgamma) = {"aten::lgamma(Tensor self) -> Tensor",
                  "torch.lgamma Tensor.lgamma", POINTWISE(lgamma), GRAD(lgamma, READ(0))};
CFX_OP(digamma) = {"aten::digamma(Tensor self) -> Tensor",
                   "torch.digamma Tensor.digamma", POINTWISE(digamma), GRAD(digamma, READ(0))};
CFX_OP(igamma) = {"aten::igamma(Tensor self, Tensor other) -> Tensor",
                  "torch.igamma Tensor.igamma", POINTWISE(igamma), GRAD(igamma, READ(0) | READ(1))};
CFX_OP(igammac) = {"aten::igammac(Tensor self, Tensor other) -> Tensor",
                   "torch.igammac Tensor.igammac", POINTWISE(igammac),
                   GRAD(igammac, READ(0) | READ(1))};
CFX_OP(special_zeta) = {
    "aten::special_zeta(Tensor self, Tensor other) -> Tensor",
    "torch._C._special.special_zeta torch.special.zeta", POINTWISE(zeta),
    GRAD(special_zeta, READ(0) | READ(1))};
CFX_OP(special_zeta_other_scalar) = {
    "aten::special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_zeta};
CFX_OP(special_zeta_self_scalar) = {
    "aten::special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor", NULL,
    .decompose = decompose_wrapped, .row = &cfx_op_special_zeta};

/* ---- polygamma: the order comes first -------------------------------------------------------- */

static double poly_gamma(double n, double x) {
    if (n == 0)
        return special_digamma(x);
    if (n == 1)
        return special_trigamma(x);
    double value = tgamma(n + 1) * special_hurwitz(n + 1, x);
    return fmod(n, 2) == 0 ? -value : value;
}

FLOAT1(polygamma, 200, poly_gamma(p0, x))

/* The call with the operand first, as rows expect it. */
static cfx_op_call operand_first(cfx_op_call *c, cfx_value swapped[2]) {
    cfx_op_call s = *c;
    swapped[0] = c->args[1];
    swapped[1] = c->args[0];
    s.args = swapped;
    return s;
}

static void shape_polygamma(cfx_op_call *c) {
    cfx_value swapped[2];
    cfx_op_call s = operand_first(c, swapped);
    if (arg_int(c, 0) < 0)
        op_fail(c, "polygamma(n, x) does not support negative n.");
    shape_pointwise(&s);
    c->out[0] = s.out[0];
}

static void kernel_polygamma(cfx_op_call *c) {
    cfx_value swapped[2];
    cfx_op_call s = operand_first(c, swapped);
    kernel_pointwise(&s);
}

CFX_OP(polygamma) = {"aten::polygamma(int n, Tensor self) -> Tensor",
                     "torch.polygamma", .shape = shape_polygamma,
                     .kernel = kernel_polygamma, .row = &row_polygamma, .effects = CFX_POINTWISE,
                     GRAD(polygamma, READ(1))};

/* Its first argument is not the one that is written to, so this form has a row of its own. */
static void decompose_polygamma_(cfx_op_call *c) {
    c->out[0] = cfx_copy_(c->args[0], cfx_polygamma(c->args[1], c->args[0]));
}

CFX_OP(polygamma_) = {"aten::polygamma_(Tensor(a!) self, int n) -> Tensor(a!)",
                      "Tensor.polygamma_", .decompose = decompose_polygamma_};

/* ---- mvlgamma -------------------------------------------------------------------------------- */

static double multi_gamma(double p, double x) {
    double sum = p * (p - 1) / 4 * log(PI);
    for (double k = 0; k < p; k++)
        sum += special_log_gamma(x - k / 2);
    return sum;
}

FLOAT1(mvlgamma, 200, multi_gamma(p0, x))

/* p is the size of a matrix: a large one is for few elements, so that what it takes is bounded by
 * the size of the tensor. */
static void shape_mvlgamma(cfx_op_call *c) {
    enum { EACH = 1 << 12, ALL = 1 << 24 };
    int64_t p = arg_int(c, 1), numel = arg_tensor(c, 0)->numel, terms;
    if (p < 1)
        op_fail(c, "p has to be greater than or equal to 1");
    else if (p > EACH && (__builtin_mul_overflow(numel, p, &terms) || terms > ALL))
        op_fail(c, "mvlgamma: %lld terms for each of %lld elements are too many", (long long)p,
                (long long)numel);
    int64_t shape[CFX_MAX_DIMS];
    const cfx_tensor *t = arg_tensor(c, 0);
    cfx_dtype compute, result;
    if (op_failed() || !pointwise_dtypes(c, c->op->row, &compute, &result)) {
        c->out[0] = &cfx__tensor_bad;
        return;
    }
    memcpy(shape, t->shape, (size_t)t->ndim * sizeof *shape);
    out_new(c, 0, result, t->ndim, shape);
}

CFX_OP(mvlgamma) = {"aten::mvlgamma(Tensor self, int p) -> Tensor",
                    "torch.mvlgamma Tensor.mvlgamma",
                    .shape = shape_mvlgamma, .kernel = kernel_pointwise, .row = &row_mvlgamma,
                    .effects = CFX_POINTWISE, GRAD(mvlgamma, READ(0)), .core = core_mvlgamma};

/* ---- other names ----------------------------------------------------------------------------- */

CFX_OP(special_gammaln) = {
    "aten::special_gammaln(Tensor self) -> Tensor",
    "torch._C._special.special_gammaln torch.special.gammaln", ALIAS(lgamma)};
CFX_OP(special_digamma) = {
    "aten::special_digamma(Tensor self) -> Tensor",
    "torch._C._special.special_digamma torch.special.digamma", ALIAS(digamma)};
CFX_OP(special_psi) = {
    "aten::special_psi(Tensor self) -> Tensor",
    "torch._C._special.special_psi torch.special.psi", ALIAS(digamma)};
CFX_OP(special_gammainc) = {
    "aten::special_gammainc(Tensor self, Tensor other) -> Tensor",
    "torch._C._special.special_gammainc torch.special.gammainc", ALIAS(igamma)};
CFX_OP(special_gammaincc) = {
    "aten::special_gammaincc(Tensor self, Tensor other) -> Tensor",
    "torch._C._special.special_gammaincc torch.special.gammaincc", ALIAS(igammac)};
CFX_OP(special_polygamma) = {
    "aten::special_polygamma(int n, Tensor self) -> Tensor",
    "torch._C._special.special_polygamma torch.special.polygamma", ALIAS(polygamma)};
CFX_OP(special_multigammaln) = {
    "aten::special_multigammaln(Tensor self, int p) -> Tensor",
    "torch._C._special.special_multigammaln torch.special.multigammaln", ALIAS(mvlgamma)};

/* ---- what scalar overloads share ------------------------------------------------------------- */

void decompose_wrapped(cfx_op_call *c) {
    cfx_value args[CFX_MAX_ARGS];
    for (int i = 0; i < c->nargs; i++) {
        args[i] = c->args[i];
        if (cfx_is_number(args[i]))
            args[i] = cfx_tensor_value(cfx__tensor_wrapped(args[i]));
    }
    c->out[0] = cfx_as_tensor(cfx__op_call_bound(c->at, (cfx_op *)c->op->row, args));
}
