/* Pickles of torch.save: values, and tensors over the storages beside them.
 *
 * Invariant: nothing is executed. A pickle is a program for a small stack machine that may call any
 * function of Python's; here only the few that rebuild tensors and plain containers are known, and
 * any other name is an error. What comes out holds no cycle and is at most CFX__PICKLE_DEPTH
 * levels deep. */
#ifndef CFX__PICKLE_H
#define CFX__PICKLE_H

#include "zip.h"

enum { CFX__PICKLE_DEPTH = 200 };

/* The storage called so as a flat tensor of a dtype; NULL, with an error. Borrowed or scope. */
typedef cfx_tensor *cfx__pickle_storage_fn(void *user, const char *key, cfx_dtype dtype);

/* The value of the pickle that bytes begin with; scope. Bad, with a FileError that names `what`,
 * when it is damaged or holds what may not be read. *used is how many bytes are its own. Where
 * `look` is set, storages are asked for as they come, and tensors are None. */
cfx_value cfx__pickle_part(const char *what, const char *data, size_t size, bool look,
                           cfx__pickle_storage_fn *storage, void *user, size_t *used);
/* The same of one that is alone. */
static inline cfx_value cfx__pickle_read(const char *what, const char *data, size_t size,
                                         cfx__pickle_storage_fn *storage, void *user) {
    size_t used;
    return cfx__pickle_part(what, data, size, false, storage, user, &used);
}

/* Whether bytes are what torch.save wrote before PyTorch 1.6, and the value in them; scope. */
bool cfx__pickle_is_old(const char *data, size_t size);
cfx_value cfx__pickle_load_old(const char *what, cfx__pack_bytes bytes);

/* The value in the bytes of a torch.save file: a zip archive with a pickle and its storages, or the
 * pickles and storages in a row that came before; scope.
 * Tensors keep the bytes' owner. Empty bytes are None. */
cfx_value cfx__pickle_load(const char *what, cfx__pack_bytes bytes);
/* What torch.save writes for a value, a tensor of bytes; scope. None, with an error. */
cfx_value cfx__torch_bytes(cfx_value what);

/* Bytes as a flat tensor of a dtype, those left over at the end ignored: in place where they lie as
 * the dtype needs it, else copied. Keeps the owner. Scope. */
cfx_tensor *cfx__pack_bytes_tensor(cfx__pack_bytes bytes, cfx_dtype dtype);
/* An entry of an archive as such a tensor. Tensors that share a storage in the file share it here:
 * `bases` has what was opened, by the entry's name and dtype, and by its name alone. */
cfx_tensor *cfx__pack_base(cfx_dict *bases, cfx__zip *zip, cfx__zip_entry *e, cfx_dtype dtype);

#endif
