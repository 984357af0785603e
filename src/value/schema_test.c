#include "test.h"

#include "value.h"

/* As PyTorch 2.11 prints them: each shows something that the others do not. */
static const char *const printed[] = {
    "aten::relu(Tensor self) -> Tensor",
    "aten::relu_(Tensor(a!) self) -> Tensor(a!)",
    "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
    "aten::add.out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)",
    "aten::Bool.Tensor(Tensor a) -> bool",
    "aten::Complex.Scalar(Scalar a) -> complex",
    "aten::Delete.Dict_Tensor(Dict(Tensor, t)(a!) self, Tensor key) -> ()",
    "aten::__contains__.bool(Dict(bool, t) dict, bool key) -> bool",
    "aten::__getitem__.Dict_complex(Dict(complex, t) self, complex key) -> t(*)",
    "aten::_set_item.float(Dict(float, t)(a!) l, float(b -> *) idx, t(c -> *) v) -> ()",
    "aten::dict.bool((bool, tVal)[] inputs) -> Dict(bool, tVal)",
    "aten::einsum.sublist(Tensor a, ...) -> Tensor",
    "aten::get.int(Dict(int, t) self, int key) -> t(*)?",
    "aten::items.Tensor(Dict(Tensor, t) self) -> ((Tensor, t)[])",
    "aten::keys.bool(Dict(bool, t) self) -> bool[](*)",
    "aten::popitem.complex(Dict(complex, t)(a!) self) -> ((complex, t))",
    "aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    "aten::unbind.Dimname(Tensor(a -> *) self, str dim) -> Tensor(a)[]",
    "aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, "
    "SymInt? storage_offset=None) -> Tensor(a)",
    "aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)",
    "aten::randint(SymInt high, SymInt[] size, *, ScalarType? dtype=4, Layout? layout=None, "
    "Device? device=None, bool? pin_memory=None) -> Tensor",
    "aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, "
    "int[2] dilation=1, bool ceil_mode=False) -> Tensor",
    "aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], "
    "SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
    "aten::_foreach_addcdiv.Tensor_out(Tensor[] self, Tensor[] tensor1, Tensor[] tensor2, "
    "Tensor scalars, *, Tensor(a!)[] out) -> ()",
    "aten::_foreach_div_.ScalarList(Tensor(a!)[] self, Scalar[] scalars) -> ()",
    "aten::batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? running_mean, "
    "Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, float eps, "
    "bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)",
    "aten::__interpolate.scale_list(Tensor input, int? size=None, float[]? scale_factor=None, "
    "str mode=\"nearest\", bool? align_corners=None, bool? recompute_scale_factor=None, "
    "bool antialias=False) -> Tensor",
    "aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, "
    "Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor",
    "aten::x(float a=0.33333333333333331, float b=10., float c=inf, Scalar d=0.5) -> Tensor",
    "aten::strip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
    "aten::y(str self, str quote=\"\\\"\\\'\\\\\") -> str",
    "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
    "aten::index_put_.hacked(Tensor(a!) self, Tensor?[]? indices) -> Tensor(a!)",
    "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    "aten::linalg_eigh.eigvals(Tensor self, str UPLO=\"L\", *, Tensor(a!) eigvals, "
    "Tensor(b!) eigvecs) -> (Tensor(a!) eigenvalues, Tensor(b!) eigenvectors)",
    "prims::var(Tensor inp, int[]? dims, float? correction=1, *, "
    "ScalarType? output_dtype=None) -> Tensor",
    "aten::affine_grid(Tensor theta) -> Tensor grid",
    "aten::fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor",
    "aten::rand(SymInt[] size, *, Generator? generator, ScalarType? dtype=None) -> Tensor",
    "aten::to_here(RRef(t) self, float timeout=-1.) -> t(*)",
    "aten::cell(__torch__.torch.classes.rnn.CellParamsBase[] params, Any[] rest) -> t[][]",
    "prims::_make_token() -> Tensor",
    "aten::nll(Tensor self, int reduction=1, SymInt ignore_index=-100) -> Tensor",
};

TEST(schema_prints_as_read) {
    for (int i = 0; i < COUNT(printed); i++) {
        cfx__schema *s = cfx__schema_parse(printed[i]);
        if (CHECK(s))
            CHECK_STR(cfx__schema_print(s), printed[i]);
        cfx__schema_free(s);
    }
}

TEST(schema_parts) {
    cfx__schema *s = cfx__schema_parse(printed[3]);
    CHECK_STR(s->ns, "aten");
    CHECK_STR(s->name, "add");
    CHECK_STR(s->overload, "out");
    CHECK_INT(s->nargs, 4);
    CHECK_INT(s->npositional, 2);
    CHECK_INT(s->nrets, 1);
    CHECK_INT(s->args[2].type, CFX__T_SCALAR);
    CHECK(s->args[2].has_default);
    CHECK_INT(cfx_integer(s->args[2].fallback), 1);
    CHECK_INT(s->args[3].alias, 'a');
    CHECK(s->args[3].writes);
    CHECK(!s->args[3].has_default);
    CHECK(s->rets[0].writes);
    cfx__schema_free(s);
}

static const cfx__schema_arg *arg_of(cfx__schema *s, const char *name) {
    for (int i = 0; i < s->nargs; i++)
        if (!strcmp(s->args[i].name, name))
            return &s->args[i];
    return NULL;
}

TEST(schema_types) {
    cfx__schema *s = cfx__schema_parse(
        "x(Tensor?[] a, SymInt[2]? b, Tensor(a!)[] c, ScalarType? d, Dict(str, t) e, int[][] f, "
        "Tensor(a -> *) g) -> (Tensor, ...)");
    CHECK(arg_of(s, "a")->items_optional && !arg_of(s, "a")->optional);
    CHECK(arg_of(s, "a")->list);
    CHECK_INT(arg_of(s, "b")->list_len, 2);
    CHECK(arg_of(s, "b")->sym && arg_of(s, "b")->optional);
    CHECK(arg_of(s, "b")->list && !arg_of(s, "b")->items_optional);
    CHECK(arg_of(s, "c")->list && !arg_of(s, "c")->optional);
    CHECK_STR(arg_of(s, "c")->type_text, "Tensor(a!)[]");
    CHECK_INT(arg_of(s, "d")->type, CFX__T_DTYPE);
    CHECK_INT(arg_of(s, "e")->type, CFX__T_ANY);
    CHECK_STR(arg_of(s, "e")->type_text, "Dict(str, t)");
    CHECK_INT(arg_of(s, "f")->type, CFX__T_ANY);
    CHECK(!arg_of(s, "g")->writes);
    CHECK(s->varrets);
    cfx__schema_free(s);
}

TEST(schema_short_forms_of_the_yaml) {
    cfx__schema *s = cfx__schema_parse(
        "x(Tensor self, int[2] stride=1, int reduction=Mean, float p=2, str m='none', "
        "int[] d=[0,1], *, MemoryFormat f=contiguous_format, ScalarType t=long) -> Tensor");
    CHECK_STR(cfx__schema_print(s),
              "aten::x(Tensor self, int[2] stride=1, int reduction=1, float p=2., str m=\"none\", "
              "int[] d=[0, 1], *, MemoryFormat f=0, ScalarType t=4) -> Tensor");
    CHECK_STR(cfx_repr(arg_of(s, "stride")->fallback), "[1, 1]");
    CHECK_STR(cfx_repr(arg_of(s, "f")->fallback), "torch.contiguous_format");
    CHECK_STR(cfx_repr(arg_of(s, "t")->fallback), "torch.int64");
    CHECK_STR(cfx_repr(arg_of(s, "p")->fallback), "2.0");
    CHECK_STR(cfx_repr(arg_of(s, "m")->fallback), "'none'");
    cfx__schema_free(s);
}

TEST(schema_errors_show_the_column) {
    CHECK(!cfx__schema_parse("add(Tensor self Tensor other) -> Tensor"));
    CHECK_STR(cfx_error_last()->message, "schema: expected ',' at column 17\n"
                                         "add(Tensor self Tensor other) -> Tensor\n"
                                         "                ^");
    cfx_error_clear();
    static const char *const wrong[] = {"",
                                        "add",
                                        "add(",
                                        "add()",
                                        "add(Tensor) -> Tensor",
                                        "add(Tensor a -> Tensor",
                                        "add(Tensor(a a) -> Tensor",
                                        "add(int a=) -> Tensor",
                                        "add(int a=foo) -> Tensor",
                                        "add(str a=\"x) -> Tensor",
                                        "add(int[ a) -> Tensor",
                                        "add(int[99999999999] a=1) -> Tensor",
                                        "add(ScalarType a=77) -> Tensor",
                                        "add(int a) -> Tensor and more",
                                        "aten::(int a) -> Tensor"};
    for (int i = 0; i < COUNT(wrong); i++) {
        CHECK(!cfx__schema_parse(wrong[i]));
        CHECK(!cfx_ok());
        cfx_error_clear();
    }
}
