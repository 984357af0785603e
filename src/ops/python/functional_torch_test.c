/* Functions of torch.functional, in all the ways in which they are called. */
#include "test.h"

static cfx_tensor *grid(void) { return cfx_reshape(cfx_arange(6.0), cfx_list(2, 3)); }

static const char *py_text(cfx_value v) { return cfx_repr(v); }

TEST(split_takes_a_size_or_sections) {
    CHECK_STR(py_text(cfx_py("torch.split", grid(), 1)),
              "(tensor([[0., 1., 2.]]), tensor([[3., 4., 5.]]))");
    CHECK_STR(py_text(cfx_at(cfx_py("torch.split", grid(), cfx_list(1, 2), CFX_KW(dim, 1)), 1)),
              "tensor([[1., 2.],\n        [4., 5.]])");
}

TEST(norms_are_of_vectors_or_matrices) {
    CHECK_STR(py_text(cfx_py("torch.norm", grid())), "tensor(7.4162)");
    CHECK_STR(py_text(cfx_py("torch.norm", grid(), 1, CFX_KW(dim, 1))), "tensor([ 3., 12.])");
    CHECK_STR(py_text(cfx_py("torch.norm", grid(), "nuc")), "tensor(8.3485)");
    CHECK_STR(py_text(cfx_py("torch.norm", grid(), "fro", cfx_list(0, 1), cfx_bool(true))),
              "tensor([[7.4162]])");
}

TEST(tensors_are_taken_one_by_one_or_in_a_list) {
    cfx_tensor *v = cfx_arange(2.0);
    const char *rows = "(tensor([[0., 0.],\n        [1., 1.]]), tensor([[0., 1.],\n"
                       "        [0., 1.]]))";
    CHECK_STR(py_text(cfx_py("torch.meshgrid", v, v)), rows);
    CHECK_STR(py_text(cfx_py("torch.meshgrid", cfx_list(v, v), CFX_KW(indexing, "ij"))), rows);
    CHECK_STR(py_text(cfx_py("torch.meshgrid", v, v, CFX_KW(indexing, "ij"))), rows);
    CHECK_STR(py_text(cfx_py("torch.einsum", "i,i->", v, v)), "tensor(1.)");
    CHECK_STR(py_text(cfx_py("torch.einsum", "i,i->", cfx_list(v, v))), "tensor(1.)");
    CHECK_STR(py_text(cfx_broadcast_tensors(v, cfx_ones(1))),
              "[tensor([0., 1.]), tensor([1., 1.])]");
    cfx_graph *g = cfx_graph_new();
    cfx_node *x = cfx_graph_input(g, "x");
    cfx_graph_output(g, cfx_node_value(cfx_graph_call(g, "torch.einsum", "i,i->", x, x)));
    CHECK_STR(cfx_str(cfx_forward(cfx_graph_module(NULL, g, NULL), v)), "tensor(1.)");
}

TEST(tensordot_counts_or_names_dimensions) {
    CHECK_STR(py_text(cfx_py("torch.tensordot", grid(), grid())), "tensor(55.)");
    cfx_value dims = cfx_tuple(cfx_list(1), cfx_list(1));
    CHECK_STR(py_text(cfx_py("torch.tensordot", grid(), grid(), CFX_KW(dims, dims))),
              "tensor([[ 5., 14.],\n        [14., 50.]])");
    cfx_py("torch.tensordot", grid(), grid(), 3);
    CHECK_ERROR("tensordot expects dims < ndim_a or ndim_b, but got dims=3");
    cfx_py("torch.tensordot", grid(), grid(), "a");
    CHECK_ERROR("tensordot expects dims to be int or tuple[list[int], list[int]]");
}

TEST(unique_gives_what_is_asked_for) {
    cfx_tensor *t = cfx_tensor_from_value(cfx_list(3, 1, 3, 3));
    cfx_value yes = cfx_bool(true);
    CHECK_STR(py_text(cfx_py("torch.unique", t)), "tensor([1, 3])");
    CHECK_STR(py_text(cfx_py("torch.unique", t, CFX_KW(return_counts, yes))),
              "(tensor([1, 3]), tensor([1, 3]))");
    CHECK_STR(py_text(cfx_py("torch.unique", t, CFX_KW(return_inverse, yes))),
              "(tensor([1, 3]), tensor([1, 0, 1, 1]))");
    CHECK_STR(py_text(cfx_py("torch.unique_consecutive", t)), "tensor([3, 1, 3])");
    cfx_py("torch.unique", "a");
    CHECK_ERROR("unique(): argument 'input' (position 1) must be Tensor, not str");
}

TEST(distances_have_a_way_to_compute_them) {
    CHECK_STR(py_text(cfx_py("torch.cdist", grid(), grid())),
              "tensor([[0.0000, 5.1962],\n        [5.1962, 0.0000]])");
    cfx_py("torch.cdist", grid(), grid(), 2.0, "nope");
    CHECK_ERROR("nope is not a valid value for compute_mode");
}
