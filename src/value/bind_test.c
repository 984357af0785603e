#include "test.h"

#include "value.h"

/* What a tensor is does not matter here: any object under that tag will do. */
static cfx_value tensor(void) {
    static const cfx__obj_type type = {.name = "tensor"};
    cfx_value v = cfx_none();
    v.tag = CFX_TAG_TENSOR;
    v.obj_ = cfx__obj_new(&type, sizeof(cfx_obj));
    return v;
}

static cfx_value node(void) {
    static int any;
    return cfx_node_value((cfx_node *)(void *)&any);
}

enum { MAX_ARGS = 12 };

/* Binds to a schema in text; the bound values without the tensors, or NULL. */
static const char *bind(const char *text, unsigned mode, cfx_args a) {
    cfx__schema *s = cfx__schema_parse(text);
    cfx_value out[MAX_ARGS];
    const char *shown = NULL;
    if (CHECK(s) && cfx__bind(s, CFX_HERE, a, mode, out)) {
        cfx_value all = cfx_list_value(s->nargs, out);
        cfx__text t = {0};
        cfx__repr_with(&t, all, NULL);
        shown = cfx__text_take(&t);
    }
    cfx__schema_free(s);
    return shown;
}

static const char *message(void) {
    const char *text = cfx_ok() ? "no error" : cfx__text_format("%s", cfx_error_last()->message);
    cfx_error_clear();
    return text;
}

#define ADD "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
#define RELU "aten::relu(Tensor self) -> Tensor"
#define CONV                                                                                       \
    "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "       \
    "SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor"
#define MIX                                                                                        \
    "x(float f=0., int i=0, bool b=False, Scalar s=0, complex c=0, Device? d=None, "               \
    "ScalarType? t=None, float[]? fs=None, Scalar[]? ss=None) -> Tensor"

TEST(bind_fills_defaults) {
    CHECK_STR(bind(ADD, 0, CFX_ARGS(tensor(), tensor())), "[<tensor>, <tensor>, 1]");
    CHECK_STR(bind(ADD, 0, CFX_ARGS(tensor(), tensor(), CFX_KW(alpha, 2.5))),
              "[<tensor>, <tensor>, 2.5]");
    CHECK_STR(bind(CONV, 0, CFX_ARGS(tensor(), tensor(), NULL, 2, cfx_tuple(1, 3))),
              "[<tensor>, <tensor>, None, [2, 2], [1, 3], [1, 1], 1]");
}

TEST(bind_keywords_of_a_dict) {
    cfx_dict *kw = cfx_dict_new();
    cfx_dict_set(kw, "alpha", cfx_int(3));
    cfx_dict_set(kw, "input", tensor());
    cfx_dict_set(kw, "other", tensor());
    CHECK_STR(bind(ADD, 0, (cfx_args){0, NULL, kw}), "[<tensor>, <tensor>, 3]");
}

TEST(bind_converts) {
    CHECK_STR(bind(MIX, 0, CFX_ARGS(1, (bool)true, 1, 2.5, 3, "cuda:1", cfx_f32, cfx_tuple(1, 2.5),
                                    cfx_list(1, (bool)true))),
              "[1.0, 1, True, 2.5, (3+0j), device(type='cuda', index=1), torch.float32, "
              "[1.0, 2.5], [1, True]]");
    CHECK(!bind(MIX, CFX__BIND_EXACT, CFX_ARGS(CFX_KW(i, (bool)true))));
    CHECK(!bind(MIX, CFX__BIND_EXACT, CFX_ARGS(CFX_KW(b, 2))));
    CHECK(!bind(MIX, CFX__BIND_EXACT, CFX_ARGS(CFX_KW(i, 1.0))));
    CHECK(!bind(MIX, CFX__BIND_EXACT, CFX_ARGS(CFX_KW(t, 6))));
    CHECK(!bind(MIX, CFX__BIND_EXACT, CFX_ARGS(CFX_KW(d, 0))));
    CHECK(!bind(MIX, CFX__BIND_EXACT, CFX_ARGS(CFX_KW(f, NULL))));
    CHECK(cfx_ok());
}

TEST(bind_numbers_for_tensors) {
    CHECK(!bind(ADD, CFX__BIND_EXACT, CFX_ARGS(tensor(), 2)));
    CHECK_STR(bind(ADD, CFX__BIND_EXACT | CFX__BIND_NUMBERS, CFX_ARGS(tensor(), 2)),
              "[<tensor>, 2, 1]");
    CHECK(!bind(ADD, CFX__BIND_EXACT | CFX__BIND_NUMBERS, CFX_ARGS(tensor(), "2")));
}

TEST(bind_nodes_and_symbols_anywhere) {
    cfx_value s = cfx__sym_name("s77", true, 4);
    CHECK_STR(bind(ADD, 0, CFX_ARGS(node(), node(), CFX_KW(alpha, node()))),
              "[<node>, <node>, <node>]");
    const char *view = "view(Tensor self, SymInt[] size) -> Tensor";
    CHECK_STR(bind(view, CFX__BIND_EXACT, CFX_ARGS(node(), s, -1)), "[<node>, [s77, -1]]");
    CHECK_STR(bind(view, 0, CFX_ARGS(node(), node())), "[<node>, <node>]");
    CHECK_STR(bind(view, CFX__BIND_EXACT, CFX_ARGS(node(), node(), 2)), "[<node>, [<node>, 2]]");
    CHECK_STR(bind(MIX, 0, CFX_ARGS(s, s, s, s)),
              "[s77, s77, s77, s77, 0, None, None, None, None]");
}

TEST(bind_gathers_ints) {
    const char *zeros = "zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor";
    CHECK_STR(bind(zeros, CFX__BIND_EXACT, CFX_ARGS(2, 3)), "[[2, 3], None]");
    CHECK_STR(bind(zeros, CFX__BIND_EXACT, CFX_ARGS(5, CFX_KW(dtype, cfx_f32))),
              "[[5], torch.float32]");
    CHECK_STR(bind(zeros, 0, CFX_ARGS(cfx_tuple(2, 3))), "[[2, 3], None]");
    const char *permute = "permute(Tensor(a) self, int[] dims) -> Tensor(a)";
    CHECK_STR(bind(permute, CFX__BIND_EXACT, CFX_ARGS(tensor(), 0, 2, 1)),
              "[<tensor>, [0, 2, 1]]");
    CHECK(!bind(permute, 0, CFX_ARGS(tensor(), 0, 2, 1))); /* torch.ops.aten.permute.default */
    CHECK_ERROR("aten::permute() expected at most 2 argument(s) but received 4 argument(s).");
    CHECK(!bind(zeros, CFX__BIND_EXACT, CFX_ARGS(2, "3")));
    const char *sum = "sum(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor";
    CHECK_STR(bind(sum, 0, CFX_ARGS(tensor(), 0, (bool)true)), "[<tensor>, [0], True]");
    CHECK_STR(bind(sum, 0, CFX_ARGS(tensor(), NULL)), "[<tensor>, None, False]");
    CHECK_STR(bind(sum, 0, CFX_ARGS(tensor(), CFX_KW(axis, 1), CFX_KW(keepdims, (bool)true))),
              "[<tensor>, [1], True]");
}

TEST(bind_lists_are_not_copied) {
    cfx__schema *s = cfx__schema_parse("cat(Tensor[] tensors, int dim=0) -> Tensor");
    cfx_value list = cfx_tuple(tensor(), tensor()), out[2];
    CHECK(cfx__bind(s, CFX_HERE, CFX_ARGS(list), 0, out));
    CHECK_INT(out[0].tag, CFX_TAG_LIST);
    CHECK(cfx_as_list(out[0]) == cfx_as_list(list));
    CHECK(!cfx__bind(s, CFX_HERE, CFX_ARGS(cfx_list(tensor(), NULL)), CFX__BIND_EXACT, out));
    cfx__schema_free(s);
    CHECK_STR(bind("index(Tensor self, Tensor?[] indices) -> Tensor", 0,
                   CFX_ARGS(tensor(), cfx_list(NULL, tensor()))),
              "[<tensor>, [None, <tensor>]]");
}

TEST(bind_messages_of_overloads) {
    CHECK(!bind(RELU, 0, (cfx_args){0, NULL, NULL}));
    CHECK_STR(message(), "aten::relu() is missing value for argument 'self'. Declaration: " RELU);
    CHECK(!bind(RELU, 0, CFX_ARGS(tensor(), 1)));
    CHECK_STR(message(), "aten::relu() expected at most 1 argument(s) but received 2 argument(s). "
                         "Declaration: " RELU);
    CHECK(!bind(ADD, 0, CFX_ARGS(tensor(), "abc")));
    CHECK_STR(message(),
              "aten::add() Expected a value of type 'Tensor' for argument 'other' but instead "
              "found type 'str'.\nPosition: 1\nValue: 'abc'\nDeclaration: " ADD
              "\nCast error details: Unable to cast abc to Tensor");
    CHECK(!bind(ADD, 0, CFX_ARGS(tensor(), tensor(), CFX_KW(alpha, "x"))));
    CHECK_STR(message(),
              "aten::add() Expected a value of type 'number' for argument 'alpha' but instead "
              "found type 'str'.\nPosition: 2\nValue: 'x'\nDeclaration: " ADD
              "\nCast error details: Cannot cast x to number");
    CHECK(!bind("aten::f(SymInt[] size, int? k=None) -> Tensor", 0, CFX_ARGS("x")));
    CHECK_STR(message(),
              "aten::f() Expected a value of type 'List[int]' for argument 'size' but instead "
              "found type 'str'.\nPosition: 0\nValue: 'x'\n"
              "Declaration: aten::f(SymInt[] size, int? k=None) -> Tensor\n"
              "Cast error details: Unable to cast Python instance of type <class 'str'> to C++ "
              "type '?' (#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for "
              "details)");
    CHECK(!bind(ADD, 0, CFX_ARGS(tensor(), tensor(), CFX_KW(foo, 1))));
    CHECK_STR(message(), "Unknown keyword argument 'foo' for operator 'aten::add'. Schema: " ADD);
    CHECK(!bind(ADD, 0, CFX_ARGS(tensor(), tensor(), CFX_KW(other, 1))));
    CHECK_STR(message(), "Argument 'other' specified both as positional and keyword argument. "
                         "Schema: " ADD);
}

/* What cfx__bind_fail says of a call to overloads in text. */
static const char *explain(const char *fn, int n, const char *const *texts, cfx_args a) {
    cfx__schema *s[4] = {0};
    for (int i = 0; i < n; i++)
        s[i] = cfx__schema_parse(texts[i]);
    cfx__bind_fail(CFX_HERE, fn, s, n, a);
    CHECK_INT(cfx_error_last()->kind, CFX_TYPE_ERROR);
    for (int i = 0; i < n; i++)
        cfx__schema_free(s[i]);
    return message();
}

TEST(bind_fail_of_one_signature) {
    const char *const relu[] = {RELU};
    CHECK_STR(explain("relu", 1, relu, CFX_ARGS("x")),
              "relu(): argument 'input' (position 1) must be Tensor, not str");
    CHECK_STR(explain("relu", 1, relu, CFX_ARGS(CFX_KW(input, "x"))),
              "relu(): argument 'input' must be Tensor, not str");
    CHECK_STR(explain("relu", 1, relu, CFX_ARGS(tensor(), 1)),
              "relu() takes 1 positional argument but 2 were given");
    CHECK_STR(explain("relu", 1, relu, (cfx_args){0, NULL, NULL}),
              "relu() missing 1 required positional arguments: \"input\"");
    CHECK_STR(explain("relu", 1, relu, CFX_ARGS(tensor(), CFX_KW(foo, 1))),
              "relu() got an unexpected keyword argument 'foo'");
    CHECK_STR(explain("relu", 1, relu, CFX_ARGS(tensor(), CFX_KW(input, tensor()))),
              "relu() got multiple values for argument 'input'");
    const char *const cat[] = {"cat(Tensor[] tensors, int dim=0) -> Tensor"};
    CHECK_STR(explain("cat", 1, cat, CFX_ARGS(cfx_tuple(tensor(), 1))),
              "expected Tensor as element 1 in argument 0, but got int");
}

TEST(bind_fail_picks_the_one_that_may_be_meant) {
    const char *const add[] = {
        ADD, "aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        ("aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) "
         "-> Tensor(a!)")};
    CHECK_STR(explain("add", 3, add, CFX_ARGS(tensor(), "abc")),
              "add(): argument 'other' (position 2) must be Tensor, not str");
}

TEST(bind_fail_lists_signatures) {
    const char *const max[] = {
        "aten::clamp_max(Tensor self, Scalar max) -> Tensor",
        "aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor",
        "aten::clamp_max.Tensor_out(Tensor self, Tensor max, *, Tensor(a!) out) -> Tensor(a!)",
        "aten::clamp_max.out(Tensor self, Scalar max, *, Tensor(a!) out) -> Tensor(a!)"};
    CHECK_STR(explain("clamp_max", 4, max, CFX_ARGS(tensor(), "x")),
              "clamp_max() received an invalid combination of arguments - got (Tensor, str), but "
              "expected one of:\n"
              " * (Tensor input, Number max, *, Tensor out = None)\n"
              " * (Tensor input, Tensor max, *, Tensor out = None)\n");
    const char *const flat[] = {"f(Tensor self, int a, int b) -> Tensor",
                                "f.x(Tensor self, int[2] a=1, *, str c=\"v\") -> Tensor",
                                "f.y(Tensor self, float a, str b) -> Tensor"};
    CHECK_STR(explain("f", 3, flat, CFX_ARGS(tensor(), cfx_list(1, 2), 3)),
              "f() received an invalid combination of arguments - got (Tensor, list, int), but "
              "expected one of:\n"
              " * (Tensor input, int a, int b)\n"
              "      didn't match because some of the arguments have invalid types: (Tensor, "
              "!list of [int, int]!, int)\n"
              " * (Tensor input, tuple of ints a = 1, *, str c = \"v\")\n"
              " * (Tensor input, float a, str b)\n"
              "      didn't match because some of the arguments have invalid types: (Tensor, "
              "!list of [int, int]!, !int!)\n");
}

TEST(bind_fail_of_a_factory) {
    const char *const zeros[] = {
        ("aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, "
         "Device? device=None, bool? pin_memory=None) -> Tensor"),
        "aten::zeros.out(SymInt[] size, *, Tensor(a!) out) -> Tensor(a!)",
        "aten::zeros.names(int[] size, *, str[]? names, ScalarType? dtype=None) -> Tensor"};
    CHECK_STR(explain("zeros", 3, zeros, CFX_ARGS("x", "y")),
              "zeros() received an invalid combination of arguments - got (str, str), but expected "
              "one of:\n"
              " * (tuple of ints size, *, Tensor out = None, torch.dtype dtype = None, "
              "torch.layout layout = None, torch.device device = None, bool pin_memory = False, "
              "bool requires_grad = False)\n"
              " * (tuple of ints size, *, tuple of strs names, torch.dtype dtype = None)\n");
}
