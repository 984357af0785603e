/* The passes there are, and the default pipeline. */
#include "pass.h"

/* In the order in which cfx opt --list shows them. */
static const cfx_pass *const passes[] = {
    /* less work */
    &cfx__pass_dead_code, &cfx__pass_remove_noops, &cfx__pass_fold_constants,
    &cfx__pass_fold_batch_norm, &cfx__pass_simplify, &cfx__pass_recognize, &cfx__pass_common,
    &cfx__pass_prune, &cfx__pass_merge_linears, &cfx__pass_merge_convolutions,
    /* nodes that belong together */
    &cfx__pass_group_layers, &cfx__pass_group_pointwise, &cfx__pass_group_rotary,
    &cfx__pass_inline,
    /* another form of the same */
    &cfx__pass_normalize, &cfx__pass_functionalize, &cfx__pass_reinplace,
    &cfx__pass_channels_last, &cfx__pass_tie_weights, &cfx__pass_untie_weights,
    &cfx__pass_annotate_types, &cfx__pass_shapes,
    /* what a program checks and prints while it runs */
    &cfx__pass_check_nan, &cfx__pass_check_range, &cfx__pass_remove_asserts, &cfx__pass_log,
    &cfx__pass_time, &cfx__pass_remove_logging,
    /* what it is made for */
    &cfx__pass_to_dtype, &cfx__pass_specialize,
};

static const cfx_pass_step pipeline[] = {
    {&cfx__pass_dead_code, NULL},
    {&cfx__pass_remove_noops, NULL},
    {&cfx__pass_fold_constants, NULL},
    {&cfx__pass_fold_batch_norm, NULL},
    {&cfx__pass_simplify, NULL},
    {&cfx__pass_recognize, NULL},
    {&cfx__pass_common, NULL},
    {&cfx__pass_dead_code, NULL},
    {&cfx__pass_prune, NULL},
};

const cfx_pass *cfx_pass_number(int i) {
    return i >= 0 && i < COUNT(passes) ? passes[i] : NULL;
}

const cfx_pass *cfx_pass_find(const char *name) {
    for (int i = 0; name && i < COUNT(passes); i++)
        if (!strcmp(passes[i]->name, name))
            return passes[i];
    return NULL;
}

const cfx_pass_step *cfx_pass_default(int *nsteps) {
    if (nsteps)
        *nsteps = COUNT(pipeline);
    return pipeline;
}
