/* session: one user's state over programs that many share.
 *
 * Programs keep state in their own buffers: caches of keys and values, counters, statistics. Who
 * serves several users from one program gives each a session, which has copies of what programs
 * write to, and of nothing else: weights, packed weights and plans stay shared. */
#ifndef CFX_SESSION_H
#define CFX_SESSION_H

#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_session cfx_session;

/* A session in which everything is as programs have it; scope. It is used by one thread at a time;
 * any number of sessions run the same programs at once. */
CFX_API cfx_session *cfx_session_new(void);
/* cfx_program_run, but what the program writes to is the session's own: parameters, buffers and
 * constants that it writes are copied when the session first runs it, and are the same ones for
 * every program that shares those tensors (the prompt and the step of a language model). Scope;
 * bad, with an error. */
CFX_API cfx_value cfx_session_run_from(cfx_site at, cfx_session *s, cfx_program *p, cfx_args args);
#define cfx_session_run(s, p, ...) cfx_session_run_from(CFX_HERE, s, p, CFX_ARGS(__VA_ARGS__))
/* The session's copy of a tensor of a program; the tensor itself where it has none. Borrowed. */
CFX_API cfx_tensor *cfx_session_tensor(cfx_session *s, cfx_tensor *t);
/* Forgets what was written: everything is as programs have it again. */
CFX_API void cfx_session_reset(cfx_session *s);

#ifdef __cplusplus
}
#endif

#endif
