/* Tensors and operators: make some, call a few, print them; and what a mistake looks like. */
#include <cfx.h>

int main(void) {
    /* Nested lists become tensors as torch.tensor makes them. */
    cfx_tensor *a = cfx_tensor_from_value(cfx_list(cfx_list(1.0, -2.0, 3.0),
                                                   cfx_list(-4.0, 5.0, -6.0)));
    printf("a =\n%s\n", cfx_str(a));
    printf("%d dimensions, %lld by %lld, %s\n\n", cfx_tensor_ndim(a), (long long)cfx_dim(a, 0),
           (long long)cfx_dim(a, -1), cfx_dtype_name(cfx_tensor_dtype(a)));

    /* Operators nest, and take numbers, broadcast and promote as PyTorch's do. */
    cfx_tensor *row = cfx_tensor_from_value(cfx_list(10, 20, 30));
    printf("relu(a) =\n%s\n", cfx_str(cfx_relu(a)));
    printf("a + row =\n%s\n", cfx_str(cfx_add(a, row)));
    printf("a + 2 * row =\n%s\n", cfx_str(cfx_add(a, row, CFX_KW(alpha, 2))));
    printf("exp(relu(a) * 0.5) =\n%s\n\n", cfx_str(cfx_exp(cfx_mul(cfx_relu(a), 0.5))));

    /* The same call by the name that Python uses. */
    printf("operator.sub(row, 1) = %s\n", cfx_str(cfx_py("operator.sub", row, 1)));

    /* In place: the result is written to the first argument. */
    cfx_mul_(row, 3);
    printf("row, tripled         = %s\n\n", cfx_str(row));

    /* A scope frees what is made in it; in a loop, memory stays flat. */
    cfx_tensor *sum = cfx_keep(cfx_sub(row, row));
    for (int i = 0; i < 1000; i++)
        CFX_SCOPE {
            cfx_add_(sum, cfx_mul(row, i));
        }
    printf("sum = %s\n\n", cfx_str(sum));
    cfx_drop(sum);

    /* The first mistake is recorded; what follows from it does nothing. */
    cfx_tensor *bad = cfx_relu(cfx_add(a, cfx_tensor_from_value(cfx_list(1, 2))));
    printf("ok: %s\n", cfx_ok() ? "yes" : "no");
    cfx_exp(bad);
    cfx_report(stdout);
    return cfx_finish(stderr);
}
