/* cfx: PyTorch FX in C. Capture, show, tap, change, run and save PyTorch programs without Python.
 *
 * Read in this order: base (scopes, errors), value, object, tensor, group, op, ops, grad, nn,
 * graph, program, cost, pair, trace, run, session, check, rewrite, split, stages, pass, quant,
 * emit, draw, pack, image, tokenizer, ranks.
 *
 * Threads. Each has a context of its own: scopes, the recorded error, limits, modes, the random
 * stream. Counts are atomic, so any object may be kept by one thread and dropped by another. What
 * more may be shared:
 *
 *     cfx_op, cfx_fn     by all threads; registering one takes a lock
 *     cfx_program        opened or exported: shown, run, copied, saved, made modules of by all at
 *                        once, while nobody edits it or writes to its tensors
 *     cfx_graph, cfx_node, cfx_module    read by all while nobody changes them; calling a module
 *                        with buffers that it writes (batch norm in training) is a change
 *     cfx_tensor         read by all while nobody writes to it; .grad and hooks are writes
 *     cfx_value, lists, dicts, strings   read by all while nobody changes them
 *     cfx_session, cfx_interp, cfx_tracer, cfx_optim, cfx_schedule, cfx_loader   by one thread at a
 *                        time */
#ifndef CFX_H
#define CFX_H

#include <cfx/version.h>
#include <cfx/base.h>
#include <cfx/value.h>
#include <cfx/object.h>
#include <cfx/tree.h>
#include <cfx/tensor.h>
#include <cfx/group.h>
#include <cfx/op.h>
#include <cfx/ops.h>
#include <cfx/grad.h>
#include <cfx/nn.h>
#include <cfx/layers.h>
#include <cfx/optim.h>
#include <cfx/watch.h>
#include <cfx/graph.h>
#include <cfx/compile.h>
#include <cfx/cuda.h>
#include <cfx/program.h>
#include <cfx/cost.h>
#include <cfx/pair.h>
#include <cfx/trace.h>
#include <cfx/export.h>
#include <cfx/run.h>
#include <cfx/select.h>
#include <cfx/session.h>
#include <cfx/check.h>
#include <cfx/rewrite.h>
#include <cfx/split.h>
#include <cfx/stages.h>
#include <cfx/pass.h>
#include <cfx/quant.h>
#include <cfx/quantize.h>
#include <cfx/emit.h>
#include <cfx/draw.h>
#include <cfx/pack.h>
#include <cfx/ranks.h>
#include <cfx/image.h>
#include <cfx/tokenizer.h>

#endif
