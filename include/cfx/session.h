/* session: the mutable state of one user of shared programs.
 *
 * Programs keep state in their buffers: caches of keys and values, counters, statistics. A
 * server gives each user a session, which has copies of the tensors that programs mutate, and of
 * nothing else: weights, packed weights and plans are shared. */
#ifndef CFX_SESSION_H
#define CFX_SESSION_H

#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cfx_session cfx_session;

/* A new session, with the state of the programs; scope. One thread at a time may use a session;
 * any number of sessions may run the same programs at once. */
CFX_API cfx_session *cfx_session_new(void);
/* cfx_program_run on the session's state: parameters, buffers and constants that the program
 * mutates are copied at its first run in the session; programs that share these tensors share
 * the copies (such as the prompt and the step of a language model). Scope; bad, with an error. */
CFX_API cfx_value cfx_session_run_from(cfx_site at, cfx_session *s, cfx_program *p, cfx_args args);
#define cfx_session_run(s, p, ...) cfx_session_run_from(CFX_HERE, s, p, CFX_ARGS(__VA_ARGS__))
/* The session's copy of a tensor of a program, or the tensor itself if there is none. Borrowed. */
CFX_API cfx_tensor *cfx_session_tensor(cfx_session *s, cfx_tensor *t);
/* Drops all copies: the session has the state of the programs again. */
CFX_API void cfx_session_reset(cfx_session *s);

#ifdef __cplusplus
}
#endif

#endif
