/* Gradients: what flows back, how it adds up, and what is refused. */
#include <cfx.h>

static cfx_tensor *show(cfx_tensor *grad, void *name) {
    printf("gradient of %s: %s\n", (const char *)name, cfx_str(grad));
    return NULL; /* let it go on as it is */
}

/* The slope of f at x by a gradient, and the slope of that. */
static void slopes(double at) {
    cfx_tensor *x = cfx_requires_grad(cfx_tensor_new(CFX_F64, 0, NULL, &at), true);
    cfx_tensor *y = cfx_mul(cfx_sin(x), x);
    cfx_tensor *first = cfx_tensor_at(cfx_grad(y, x, .create_graph = true), 0);
    cfx_tensor *second = cfx_tensor_at(cfx_grad(first, x), 0);
    printf("f = %.4f, f' = %.4f, f'' = %.4f\n", cfx_tensor_get(y, 0), cfx_tensor_get(first, 0),
           cfx_tensor_get(second, 0));
}

/* Least squares by steps against the gradient: y = 2 x - 1 is found again. */
static void fit(void) {
    cfx_tensor *x = cfx_linspace(-1, 1, 5), *y = cfx_sub(cfx_mul(x, 2), 1);
    cfx_tensor *w = cfx_requires_grad(cfx_zeros(1), true);
    cfx_tensor *b = cfx_requires_grad(cfx_zeros(1), true);
    for (int step = 0; step < 200; step++)
        CFX_SCOPE {
            cfx_tensor *miss = cfx_sub(cfx_add(cfx_mul(x, w), b), y);
            cfx_backward(cfx_mean(cfx_mul(miss, miss)));
            cfx_grad_mode before = cfx_set_grad_mode(CFX_NO_GRAD);
            cfx_sub_(w, cfx_mul(cfx_tensor_grad(w), 0.3));
            cfx_sub_(b, cfx_mul(cfx_tensor_grad(b), 0.3));
            cfx_set_grad_mode(before);
            cfx_tensor_set_grad(w, NULL);
            cfx_tensor_set_grad(b, NULL);
        }
    printf("w = %s\nb = %s\n", cfx_str(w), cfx_str(b));
}

int main(void) {
    cfx_tensor *x = cfx_requires_grad(cfx_tensor_from_value(cfx_list(1.0, 2.0, 3.0)), true);
    cfx_tensor *h = cfx_mul(x, x), *loss = cfx_sum(cfx_exp(cfx_neg(h)));
    printf("%s\n%s\n", cfx_str(x), cfx_str(h));
    cfx_tensor_hook(h, show, "h");
    cfx_backward(loss);
    printf("gradient of x: %s\n", cfx_str(cfx_tensor_grad(x)));

    slopes(0.5);
    fit();

    cfx_backward(loss); /* what the tape had saved is gone */
    printf("%.62s\n", cfx_error_last()->message);
    cfx_error_clear();
    cfx_add_(x, 1);
    printf("%s\n", cfx_error_last()->message);
    cfx_error_clear();
    return cfx_finish(stderr);
}
