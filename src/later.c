/* The table of what earlier rooms ask of later ones: see value/later.h. */
#include "value/later.h"

#include <cfx/cuda.h>

#include "cuda/device.h"
#include "cuda/optim.h"
#include "cuda/single.h"
#include "dispatch/dispatch.h"
#include "grad/grad.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "trace/control.h"
#include "trace/marks.h"
#include "trace/trace.h"

const cfx__later cfx__later_rooms = {
    .repr = cfx__dispatch_repr,
    .item = cfx__dispatch_item,
    .append = cfx__trace_append,
    .node_name = cfx__node_name,
    .module_str = cfx_module_str,
    .grad_fn = cfx_tensor_grad_fn,
    .bad_tensor = &cfx__tensor_bad,
    .bad_node = &cfx__node_bad,
    .bad_module = &cfx__module_bad,
    .traced_node = cfx__traced_node,
    .read_marked = cfx__mark_read,
    .marked_text = cfx__mark_shown,
    .read_sizes = cfx__mark_read_sizes,
    .read_size = cfx__mark_read_size,
    .may_read = cfx__mark_may_read,
    .refresh = cfx__mirror_refresh,
    .autograd = cfx__grad_call,
    .while_loop = cfx__control_rounds,
    .to_card = cfx__cuda_copy_of,
    .card_memory = cfx__cuda_memory,
    .cards = cfx_cuda_count,
    .card_threads = cfx__cuda_threads,
    .card_kernel = cfx__cuda_call,
    .card_steps = cfx__cuda_optim,
    .card_executor = cfx_cuda_executor,
    .executor = &cfx_planner,
};
