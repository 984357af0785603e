/* cfx: PyTorch FX in C. Capture, show, tap, change, run and save PyTorch programs without Python.
 *
 * Read in this order: base (scopes, errors), value, tensor, op, ops, grad, nn, graph, program,
 * cost, pair, trace, run, rewrite, split, pass, emit, draw, pack. */
#ifndef CFX_H
#define CFX_H

#include <cfx/version.h>
#include <cfx/base.h>
#include <cfx/value.h>
#include <cfx/tensor.h>
#include <cfx/op.h>
#include <cfx/ops.h>
#include <cfx/grad.h>
#include <cfx/nn.h>
#include <cfx/layers.h>
#include <cfx/optim.h>
#include <cfx/watch.h>
#include <cfx/graph.h>
#include <cfx/program.h>
#include <cfx/cost.h>
#include <cfx/pair.h>
#include <cfx/trace.h>
#include <cfx/export.h>
#include <cfx/run.h>
#include <cfx/rewrite.h>
#include <cfx/split.h>
#include <cfx/pass.h>
#include <cfx/emit.h>
#include <cfx/draw.h>
#include <cfx/pack.h>

#endif
