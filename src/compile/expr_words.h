/* What the expressions of steps may name (expr.c). */
#ifndef CFX__COMPILE_EXPR_WORDS_H
#define CFX__COMPILE_EXPR_WORDS_H

/* Functions of libm by their names in <tgmath.h>: of one argument or two. */
static const struct {
    const char *name, *as;
    int n;
} functions[] = {{"vexp", "exp", 1},    {"exp", "exp", 1},     {"vlog", "log", 1},
                 {"log", "log", 1},     {"sqrt", "sqrt", 1},   {"fabs", "fabs", 1},
                 {"verf", "erf", 1},    {"erfc", "erfc", 1},   {"tanh", "tanh", 1},
                 {"sin", "sin", 1},     {"cos", "cos", 1},     {"tan", "tan", 1},
                 {"asin", "asin", 1},   {"acos", "acos", 1},   {"atan", "atan", 1},
                 {"sinh", "sinh", 1},   {"cosh", "cosh", 1},   {"asinh", "asinh", 1},
                 {"acosh", "acosh", 1}, {"atanh", "atanh", 1}, {"exp2", "exp2", 1},
                 {"expm1", "expm1", 1}, {"log1p", "log1p", 1}, {"log2", "log2", 1},
                 {"log10", "log10", 1}, {"floor", "floor", 1}, {"ceil", "ceil", 1},
                 {"trunc", "trunc", 1}, {"rint", "rint", 1},   {"nearbyint", "nearbyint", 1},
                 {"round", "round", 1}, {"pow", "pow", 2},     {"atan2", "atan2", 2},
                 {"fmod", "fmod", 2},   {"hypot", "hypot", 2}, {"copysign", "copysign", 2},
                 {"fmin", "fmin", 2},   {"fmax", "fmax", 2},   {"lgamma", "lgamma", 1},
                 {"nextafter", "nextafter", 2}};

/* Functions of <complex.h>: of one argument or two; real: they give a real number. */
static const struct {
    const char *name;
    int n;
    bool real;
} complex_functions[] = {
    {"creal", 1, true},   {"cimag", 1, true},   {"cabs", 1, true},    {"carg", 1, true},
    {"cexp", 1, false},   {"clog", 1, false},   {"csqrt", 1, false},  {"cpow", 2, false},
    {"csin", 1, false},   {"ccos", 1, false},   {"ctan", 1, false},   {"casin", 1, false},
    {"cacos", 1, false},  {"catan", 1, false},  {"csinh", 1, false},  {"ccosh", 1, false},
    {"ctanh", 1, false},  {"casinh", 1, false}, {"cacosh", 1, false}, {"catanh", 1, false}};

/* What the files of operators write shorter. */
static const struct {
    const char *name, *params, *body;
} macros[] = {{"vsigmoid", "u", "1 / (1 + vexp(-u))"},
              {"CUBIC", "u", "(T)0.7978845608028654 * (u + (T)0.044715 * u * u * u)"},
              {"LOGIT", "u", "vlog(u / (1 - u))"},
              {"LOGIT_SLOPE", "uv", "u / (v * (1 - v))"},
              {"HELD_LOG", "u", "u < -100 ? -100 : u"},
              {"INFINITE", "u", "fabs(u) == INFINITY"},
              {"UNIT", "u", "u == 0 ? 0 : u / cabs(u)"},
              {"isnan", "u", "u != u"},
              {"isinf", "u", "fabs(u) == INFINITY"},
              {"ABOVE", "uv", "u < v || v != v ? v : u"},
              {"BELOW", "uv", "u > v || v != v ? v : u"},
              {"HOLD", "uvw", "u < v ? v : u > w ? w : u"},
              {"BOUNDED", "uvw", "u < v ? v : u > w ? w : u"},
              {"LERP", "uvw", "fabs(w) < (T)0.5 ? u + w * (v - u) : v - (v - u) * (1 - w)"},
              {"floor_div", "uv",
               "({ const T rest = fmod(u, v); const T near = (u - rest) / v; "
               "const T q = rest != 0 && (v < 0) != (rest < 0) ? near - 1 : near; "
               "const T whole = floor(q); v == 0 ? u / v : q == 0 ? copysign((T)0, u / v) : "
               "q - whole > (T)0.5 ? whole + 1 : whole; })"},
              {"signbit", "u", "copysign(1.0, u) < 0"},
              {"OUT", "u", "(uint64_t)u > 63"},
              {"MAX", "uv", "u > v || u != u ? u : v"},
              {"NAN_TO_NUM", "u", "u != u ? p0 : u == INFINITY ? p1 : u == -INFINITY ? p2 : u"},
              {"QUOTIENT", "uv", "v == -1 ? WRAP(0, -, u) : v == 0 ? 0 : u / v"},
              {"RESIDUE", "uv", "v == -1 || v == 0 ? 0 : u % v"},
              {"floor_div_i64", "uv",
               "QUOTIENT(u, v) - (RESIDUE(u, v) != 0 && (u < 0) != (v < 0))"},
              {"mod", "uv",
               "({ const T rest = fmod(u, v); "
               "rest != 0 && (v < 0) != (rest < 0) ? rest + v : rest; })"},
              {"mod_i64", "uv",
               "({ const T rest = RESIDUE(u, v); "
               "rest != 0 && (v < 0) != (rest < 0) ? rest + v : rest; })"}};

/* What names of functions that are written out with the text begin with. */
static const char written[] = "NAME_";

/* Functions of a float that have a form without branches (kernels/math.c). */
static const char *const own_functions[] = {"exp", "log", "tanh", "erf"};

static const struct {
    const char *name;
    double value;
} constants[] = {{"M_PI", 3.14159265358979323846},       {"M_PI_2", 1.57079632679489661923},
                 {"M_SQRT2", 1.41421356237309504880},    {"M_SQRT1_2", 0.70710678118654752440},
                 {"M_2_SQRTPI", 1.12837916709551257390}, {"M_LN2", 0.69314718055994530942},
                 {"M_LN10", 2.30258509299404568402},     {"M_1_PI", 0.31830988618379067154},
                 {"M_E", 2.71828182845904523536}};

#endif
