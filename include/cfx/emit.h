/* Text: a graph becomes text, and text a graph. Every form equals PyTorch 2.11's byte for byte. */
#ifndef CFX_EMIT_H
#define CFX_EMIT_H

#include <cfx/run.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How print_readable writes; zero means PyTorch's default. */
typedef struct cfx_readable_options {
    bool include_stride;
    bool include_device;
    bool include_several; /* of nodes with several results too, which PyTorch leaves out */
    bool colored;
    bool expanded_def;
    const char *const *additional_meta; /* metadata keys to show, ended by NULL; NULL: none */
} cfx_readable_options;

/* The texts of a graph or GraphModule; scope. */
CFX_API const char *cfx_graph_tabular(const cfx_graph *g); /* graph.print_tabular() */
CFX_API const char *cfx_graph_code(const cfx_graph *g);   /* graph.python_code("self").src */
CFX_API const char *cfx_module_code(const cfx_module *gm); /* gm.code */
/* graph.python_code("self", verbose=True).src: with shapes and source lines */
CFX_API const char *cfx_graph_readable(const cfx_graph *g, cfx_readable_options options);
CFX_API const char *cfx_graph_module_str(const cfx_module *gm); /* print(gm) */
CFX_API const char *cfx_module_readable(const cfx_module *gm, cfx_readable_options options);

/* What torch.fx's graph.python_code("self") tells of the code; scope. */
typedef struct cfx_python_code {
    const char *src;   /* cfx_graph_code */
    cfx_dict *globals; /* names in it that are neither torch's nor Python's: to the caller's object
                          that one stands for, or to the text of its target ("math.sqrt") */
    cfx_dict *lines;   /* a line of the body, counted from that of "def" as 0, to the number of the
                          node in the graph that it is of, or to None */
    int start;         /* the line of "def", the first being 1 */
} cfx_python_code;
CFX_API cfx_python_code cfx_graph_python_code(const cfx_graph *g);

/* What an object of the caller's writes of itself in code (cfx_object_type): texts as they are, and
 * the name of a global variable, which is called after a dotted path and stands for an object. */
CFX_API void cfx_code_text(cfx_code *code, const char *text);
CFX_API void cfx_code_global(cfx_code *code, const char *path, cfx_value object);

/* print(program), and str(program.graph_signature) alone; scope. "" for NULL. */
CFX_API const char *cfx_program_str(const cfx_program *p);
CFX_API const char *cfx_program_signature_str(const cfx_program *p);

/* A program as text that is read again, as .fx files hold it: its module with strides, the
 * signature as PyTorch prints it, what arguments and result are made of, and the ranges and
 * examples of sizes; scope. "" for NULL. */
CFX_API const char *cfx_program_fx(const cfx_program *p);

/* Signature, ranges and nodes of a program as JSON, for other programs to read; scope. "" for NULL.
 * A node in an argument is {"node": name}, what JSON has no form for {"repr": Python's text}. */
CFX_API const char *cfx_program_json(const cfx_program *p);

/* The same, printed. */
CFX_API void cfx_print_graph(const cfx_module *gm, FILE *out);
CFX_API void cfx_print_tabular(const cfx_module *gm, FILE *out);
CFX_API void cfx_print_code(const cfx_module *gm, FILE *out);
CFX_API void cfx_print_readable(const cfx_module *gm, FILE *out);
CFX_API void cfx_print_program(const cfx_program *p, FILE *out);

/* A graph from its text; scope. Bad, with an error that names the place ("what:LINE:COLUMN") and
 * shows the line, where it cannot be read.
 *
 * The code form ("def forward(...)"; gm.code, print_readable) comes back whole: printed and parsed,
 * a graph equals itself. Its placeholders must come first; functions that are not torch's, Python's
 * or math's come back with underscores for dots; tensors that stand in arguments are refused. From
 * print_readable shapes and source lines come back too. `.fx` files hold this form.
 *
 * The graph form ("graph():") says less: strings have no quotes. A bare word is None, a bool, a
 * number, a dtype, a slice, a device or an operator if it reads as one, else the string up to the
 * next ", " or the bracket that closes its list. The type of the result is missing. */
CFX_API cfx_graph *cfx_graph_parse(const char *text, const char *what);
/* A GraphModule from its text, the children that print_readable shows included; scope. Of the other
 * modules and tensors that it names there are none: add them (cfx_nn_add, cfx_module_set_attr)
 * before it is called. Bad, with an error, as above. */
CFX_API cfx_module *cfx_module_parse(const char *text, const char *what);
/* A program from its text, of cfx_program_fx or cfx_program_str, without its tensors; scope. Parts
 * may be left out: placeholders and results that the signature does not list are the caller's, and
 * shapes are inferred. Bad, with an error as above, where a part says what is not so: an input that
 * forward does not take, a write to a buffer that is not there. */
CFX_API cfx_program *cfx_program_parse(const char *text, const char *what);

#ifdef __cplusplus
}
#endif
#endif
