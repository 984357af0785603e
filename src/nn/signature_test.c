#include "test.h"

#include "nn.h"

static const char *bound(const char *signature, cfx_args a) {
    cfx__signature *s = cfx__signature_parse(signature);
    if (!s)
        return "no signature";
    cfx_value v[16];
    const char *text = cfx__signature_bind(s, CFX_HERE, "f", false, a, v)
                           ? cfx_value_repr(cfx_tuple_value(s->n, v))
                           : "no";
    cfx__signature_free(s);
    return text;
}

static cfx_args none(void) { return (cfx_args){0}; }

static cfx_args with(cfx_args a, const char *name, int value) {
    if (!a.kw)
        a.kw = cfx_dict_new();
    cfx_dict_set(a.kw, name, cfx_int(value));
    return a;
}

TEST(a_signature_is_read) {
    cfx__signature *s = cfx__signature_parse(
        "x, y : Dict[str, int] = None, *args, z : float = -1.5, **kw -> Tuple[torch.Tensor, int]");
    if (!CHECK(s != NULL))
        return;
    CHECK_INT(s->n, 5);
    CHECK_INT(s->npositional, 2);
    CHECK_INT(s->nrequired, 1);
    CHECK_STR(s->params[1].type, "Dict[str, int]");
    CHECK(s->params[1].has_default);
    CHECK_INT(s->params[2].kind, CFX__VAR_ARGS);
    CHECK_INT(s->params[3].kind, CFX__KEYWORD_ONLY);
    CHECK_NEAR(cfx_number(s->params[3].fallback), -1.5, 0);
    CHECK_STR(s->params[4].name, "kw");
    CHECK_STR(s->returns, "Tuple[torch.Tensor, int]");
    cfx__signature_free(s);
    s = cfx__signature_parse("");
    CHECK_INT(s->n, 0);
    cfx__signature_free(s);
    s = cfx__signature_parse("x, *, k=(1, 'a'), ");
    CHECK_INT(s->n, 2);
    CHECK_INT(s->params[1].kind, CFX__KEYWORD_ONLY);
    cfx__signature_free(s);
}

TEST(a_malformed_signature_shows_the_column) {
    static const struct {
        const char *text, *error;
    } rows[] = {{"x y", "expected ',' at column 3"},
                {"x, x", "duplicate argument"},
                {"x=1, y", "non-default argument follows default argument"},
                {"x=foo", "expected a Python literal at column 3\nx=foo\n  ^"},
                {"**k, x", "nothing may follow"},
                {"*a, *b", "only one star"},
                {"1x", "expected a name"},
                {"x :", "expected a type"},
                {"*a=1", "cannot have a default"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK(!cfx__signature_parse(rows[i].text));
        CHECK_ERROR(rows[i].error);
    }
}

TEST(arguments_bind_as_in_python) {
    CHECK_STR(bound("x, y=2", CFX_ARGS(1)), "(1, 2)");
    CHECK_STR(bound("x, y=2", with(CFX_ARGS(1), "y", 5)), "(1, 5)");
    CHECK_STR(bound("x, y", with(with(none(), "y", 5), "x", 4)), "(4, 5)");
    CHECK_STR(bound("x, *args, k=3, **kw", CFX_ARGS(1, 2, 3)), "(1, (2, 3), 3, {})");
    CHECK_STR(bound("x, *args, k=3, **kw", with(with(CFX_ARGS(1), "k", 4), "z", 5)),
              "(1, (), 4, {'z': 5})");
    CHECK_STR(bound("", none()), "()");
    CHECK_OK();
}

TEST(arguments_that_do_not_fit_are_refused_in_python_s_words) {
    bound("x, y", CFX_ARGS(1));
    CHECK_ERROR("f() missing 1 required positional argument: 'y'");
    bound("x, y", none());
    CHECK_ERROR("f() missing 2 required positional arguments: 'x' and 'y'");
    bound("x, y, z", none());
    CHECK_ERROR("f() missing 3 required positional arguments: 'x', 'y', and 'z'");
    bound("x, *, k", CFX_ARGS(1));
    CHECK_ERROR("f() missing 1 required keyword-only argument: 'k'");
    bound("x", CFX_ARGS(1, 2));
    CHECK_ERROR("f() takes 1 positional argument but 2 were given");
    bound("", CFX_ARGS(1));
    CHECK_ERROR("f() takes 0 positional arguments but 1 was given");
    bound("x, y=1", CFX_ARGS(1, 2, 3));
    CHECK_ERROR("f() takes from 1 to 2 positional arguments but 3 were given");
    bound("x, *, k", with(CFX_ARGS(1, 2), "k", 1));
    CHECK_ERROR("f() takes 1 positional argument but 2 positional arguments (and 1 keyword-only "
                "argument) were given");
    bound("x", with(CFX_ARGS(1), "z", 2));
    CHECK_ERROR("f() got an unexpected keyword argument 'z'");
    bound("x", with(CFX_ARGS(1), "x", 2));
    CHECK_ERROR("f() got multiple values for argument 'x'");
}
