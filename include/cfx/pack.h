/* Programs in files: .pt2, as torch.export.save writes them, and .fx, graphs as text. */
#ifndef CFX_PACK_H
#define CFX_PACK_H

#include <cfx/emit.h>
#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a program; scope: a .pt2, .fx or .onnx, by its name, or, where that says nothing, by how it
 * begins. The file is mapped: weights are views into it and cost nothing until they
 * are used, and what is written to them stays in this process. Bad, with an error that names the
 * file and what is wrong with it, when it holds none that can be read. Nothing in a file is ever
 * executed.
 *
 * In `extra`: "guards" (a list of texts, what sizes must be: checked when it runs), "verifiers" (a
 * list: "TRAINING", "ATEN"), "torch_version", "schema_version"; as JSON texts, to be written again,
 * "metadata", "opset_version", "treespec_namedtuple_fields"; as tensors of bytes "sample_inputs"
 * and, by name, "files" and "objects" (what only Python could make of it).
 *
 * Of an archive that holds several programs "two.pt2:decoder" is the one called decoder; without a
 * name it is the one called model, else an error tells the names. */
CFX_API cfx_program *cfx_open(const char *path);
/* The names of the programs in an archive, a list; scope. Bad, with an error, where it has none. */
CFX_API cfx_value cfx_archive_names(const char *path);
/* The inputs that the program was exported with, (args, kwargs); scope. None where it carries none;
 * a bad value, with an error, where they cannot be read (classes of the user's). */
CFX_API cfx_value cfx_program_sample_inputs(const cfx_program *p);

/* Writes the weights of a program that was opened from `path` as its kernels read them, to a file
 * beside it: "model.pt2.prepared". Those are written that were packed by running it, so run it
 * first, as it will be run. The next process that opens the same model maps them in place of
 * packing again. The file is the user's own alone (mode 0600) and appears whole or not at all.
 * False, with an error, where it cannot be written or nothing was packed; what was written goes to
 * `report` (NULL: nowhere): "path", "forms", "bytes". */
CFX_API bool cfx_program_prepare(const cfx_program *p, const char *path, cfx_dict *report);
/* What became of the prepared file beside the one that a program was opened from; scope. None where
 * there is none; else a dict: "path"; "refused", why it is not used, or None; "forms", how many it
 * has; "used" and "bytes", how many of them runs have asked for so far and how large they are;
 * "other" and "broken": how many were not believed, since they were made of other weights or are
 * not what was written. A file is refused that others could have written, or that was made for
 * another machine or by another version; what is not believed is packed anew. */
CFX_API cfx_value cfx_program_prepared(const cfx_program *p);

/* What torch.save wrote (.pt, .pth): dicts, lists, tuples, numbers, words and tensors, nested in
 * any way; scope. Tensors are views into the mapped file. Nothing is executed: a bad value, with an
 * error that names the file, where it holds objects of other classes. */
CFX_API cfx_value cfx_torch_load(const char *path);
/* Writes such a value so that torch.load reads it. The file appears whole or not at all. False,
 * with an error, where it cannot be written or holds anything else. */
CFX_API bool cfx_torch_save(const char *path, cfx_value what);

/* The tensors of a file by their names: a .safetensors, NumPy's .npy or .npz, or what torch.save
 * wrote, known by what is in it, or a tensor of ONNX, known by its name (.pb); scope. Nested ones
 * are called by their path, "model.fc.weight"; what has no name by its number: "0", "1". Numbers
 * that torch.save wrote are tensors of no dimension; words and the like are left out. NULL, with an
 * error that names the file. */
CFX_API cfx_dict *cfx_tensors_read(const char *path);
/* Whether a file is one of these, by how it begins. False, without an error, where it cannot be
 * read. */
CFX_API bool cfx_tensors_are_in(const char *path);

/* Gives a program the weights of such a file by their names; what stands in front of all names may
 * differ ("module.", "model."). Floats are brought to the dtype that the program has; shapes must
 * be the same. With `partial` weights that the file lacks stay as they were. What happened is put
 * into `report` (NULL: nowhere) as lists of names: "loaded", "converted" (to another float dtype),
 * "missing" (in the file), "unused" (of the file). False, with an error that names what does not
 * fit; nothing is changed then. */
CFX_API bool cfx_program_load_weights(cfx_program *p, const char *path, bool partial,
                                      cfx_dict *report);
/* Merges a LoRA adapter into the weights: W + alpha / r * B A, for linear layers, convolutions and
 * embeddings, by the names that PEFT gives (lora_A, lora_B; lora_down, lora_up). Alpha is NaN for
 * what adapter_config.json beside the file says (also alpha_pattern, use_rslora, fan_in_fan_out).
 * Lists in `report`: "merged", "replaced" (weights that the adapter has whole), "unused". False,
 * with an error, where nothing fits; nothing is changed then. */
CFX_API bool cfx_program_merge_lora(cfx_program *p, const char *path, double alpha,
                                    cfx_dict *report);

/* Writes a program to a file that torch.export.load and cfx_open read: a .pt2 of the current layout
 * (PyTorch 2.11's), or, where the path ends in .fx, the graph as text with its tensors in a
 * .safetensors file beside it; where it ends in .onnx, an ONNX model, which cfx_open reads, with
 * its tensors in a file beside it (.onnx.data) where it would have more than 2 GB. The file appears
 * whole or not at all. False, with an error that names the file and the node (for .onnx, each
 * node), when the program has problems (cfx_program_problems), or holds what a file has no form
 * for, and where the path has another end than these ("model.xyz"); without one it is a .pt2. */
CFX_API bool cfx_save(const cfx_program *p, const char *path);
/* Writes n programs to one .pt2, as torch.export.pt2_archive's package_pt2 does, each under its
 * name; weights that they share are written once. False, with an error as above, or where a name is
 * empty, comes twice or has a '/'. */
CFX_API bool cfx_save_archive(const char *path, int n, const char *const *names,
                              cfx_program *const *programs);
/* The same of a program that may have problems: it is written as it is. */
CFX_API bool cfx_save_unchecked(const cfx_program *p, const char *path);

#ifdef __cplusplus
}
#endif
#endif
