/* Files: programs as .pt2, .fx and .onnx, and tensors. */
#ifndef CFX_PACK_H
#define CFX_PACK_H

#include <cfx/emit.h>
#include <cfx/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a .pt2, .fx or .onnx, recognised by its extension or by its content; scope. The file is
 * mapped: weights are views of the mapping and cost nothing until they are used; writes to them
 * stay in this process. Bad, with an error that names the file and the problem, where it cannot be
 * read. Nothing in a file is ever executed.
 *
 * `extra` contains: "guards" (a list of texts, conditions on sizes that are checked at run time),
 * "verifiers" (a list: "TRAINING", "ATEN"), "torch_version", "schema_version"; as JSON texts, kept
 * for saving, "metadata", "opset_version", "treespec_namedtuple_fields"; as byte tensors
 * "sample_inputs" and, by name, "files" and "objects" (contents that only Python can read).
 *
 * In an archive of several programs, "two.pt2:decoder" selects decoder; without a name, the
 * program called model is opened, or an error lists the names. */
CFX_API cfx_program *cfx_open(const char *path);
/* The names of the programs in an archive, a list; scope. Bad, with an error, where it has none. */
CFX_API cfx_value cfx_archive_names(const char *path);
/* The sample inputs of the program, (args, kwargs); scope. None if it has none; a bad value,
 * with an error, where they cannot be read (user-defined classes). */
CFX_API cfx_value cfx_program_sample_inputs(const cfx_program *p);

/* Writes the packed weights of a program opened from `path` to a file beside it,
 * "model.pt2.prepared", which later processes map instead of packing. Writes those packed so
 * far, so run the program first, with the settings of later runs. The file has mode 0600 and is
 * written atomically. False, with an error, where it cannot be written or nothing was packed.
 * `report` (or NULL) receives "path", "forms", "bytes". */
CFX_API bool cfx_program_prepare(const cfx_program *p, const char *path, cfx_dict *report);
/* The state of the prepared file of a program; scope. None without one; otherwise a dict:
 * "path"; "refused", why it is not used, or None; "forms", the number in it; "used" and "bytes",
 * number and size of those that runs have used; "other" and "broken", the numbers of forms
 * skipped because they were made from other weights, or are damaged. A file is refused if others
 * could have written it, or if it was made for another machine or by another version. Skipped
 * forms are packed again. */
CFX_API cfx_value cfx_program_prepared(const cfx_program *p);

/* Reads a file of torch.save (.pt, .pth): nested dicts, lists, tuples, numbers, strings and
 * tensors; scope. Tensors are views of the mapped file. Nothing is executed: objects of other
 * classes give a bad value, with an error that names the file. */
CFX_API cfx_value cfx_torch_load(const char *path);
/* Writes such a value for torch.load, atomically. False, with an error, where it cannot be
 * written or contains other types. */
CFX_API bool cfx_torch_save(const char *path, cfx_value what);

/* Reads the tensors of a file by name: a .safetensors, .npy, .npz or torch.save file, recognised
 * by content, or an ONNX tensor (.pb), recognised by extension; scope. Nested tensors are named
 * by their path, "model.fc.weight"; unnamed ones by their number: "0", "1". Numbers in a
 * torch.save file are 0-d tensors; strings and others are skipped. NULL, with an error that
 * names the file. */
CFX_API cfx_dict *cfx_tensors_read(const char *path);
/* Whether a file is one of these, by its content. False, without an error, where it cannot be
 * read. */
CFX_API bool cfx_tensors_are_in(const char *path);

/* Loads the weights of such a file into a program by name; a prefix common to all names may
 * differ ("module.", "model."). Floats are converted to the program's dtype; shapes must be
 * equal. With `partial`, weights missing in the file are unchanged. `report` (or NULL) receives
 * lists of names: "loaded", "converted" (from another float dtype), "missing" (in the file),
 * "unused" (of the file). False, with an error that names the mismatch; nothing is changed then. */
CFX_API bool cfx_program_load_weights(cfx_program *p, const char *path, bool partial,
                                      cfx_dict *report);
/* Merges a LoRA adapter: W + alpha / r * B A, for linear layers, convolutions and embeddings, by
 * PEFT's names (lora_A, lora_B; lora_down, lora_up). alpha NaN: from adapter_config.json beside
 * the file (also alpha_pattern, use_rslora, fan_in_fan_out). `report` receives lists: "merged",
 * "replaced" (weights that the adapter contains completely), "unused". False, with an error,
 * where nothing matches; nothing is changed then. */
CFX_API bool cfx_program_merge_lora(cfx_program *p, const char *path, double alpha,
                                    cfx_dict *report);

/* Saves a program for torch.export.load and cfx_open: a .pt2 of the current layout (PyTorch
 * 2.11); a path ending in .fx gives text, with the tensors in a .safetensors file beside it;
 * .onnx gives an ONNX model, with tensors of more than 2 GB in a file beside it (.onnx.data). A
 * path without extension is a .pt2, another extension ("model.xyz") is an error. The file is
 * written atomically. False, with an error that names the file and the node (for .onnx, each
 * node), where the program has problems (cfx_program_problems), or contains what the format
 * cannot express. */
CFX_API bool cfx_save(const cfx_program *p, const char *path);
/* Writes n programs to one .pt2, like package_pt2 of torch.export.pt2_archive, each under its
 * name; shared weights are written once. False, with an error as above, or where a name is
 * empty, occurs twice or contains '/'. */
CFX_API bool cfx_save_archive(const char *path, int n, const char *const *names,
                              cfx_program *const *programs);
/* cfx_save without checking for problems. */
CFX_API bool cfx_save_unchecked(const cfx_program *p, const char *path);

#ifdef __cplusplus
}
#endif
#endif
