/* optim: one step of an optimiser for one parameter, a thread for each element, by the rules of the
 * host: nn/optim_step.inc, with the structs that it reads, stands before this text. Said before
 * all: T, in which the rules compute, P, a parameter and its gradient in memory, and RULE, the
 * rule's name. The step comes as words of 8 bytes. */

extern "C" __global__ void optim(P *p, const P *g, T *s0, T *s1, T *s2, i64 n, i64 w0, i64 w1,
                                 i64 w2, i64 w3, i64 w4, i64 w5, i64 w6, i64 w7, i64 w8, i64 w9,
                                 i64 w10, i64 w11, i64 w12, i64 w13, i64 w14) {
    const i64 word[] = {w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14};
    cfx__optim_step step;
    static_assert(sizeof step == sizeof word, "a step is handed over whole");
    memcpy(&step, word, sizeof step);
    const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    wait_for_previous();
    if (i >= n)
        return;
    T x = load(p + i);
    const T d = load(g + i);
    T *const s[] = {s0 ? s0 + i : s0, s1 ? s1 + i : s1, s2 ? s2 + i : s2};
    RULE(&x, &d, s, 1, &step);
    store(p + i, x);
}
