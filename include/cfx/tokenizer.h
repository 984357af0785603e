/* Texts as the numbers that language models take, and back: Hugging Face's tokenizer.json. */
#ifndef CFX_TOKENIZER_H
#define CFX_TOKENIZER_H

#include <cfx/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a tokenizer.json says; counted like any object. Read-only once it was opened: threads may
 * share it. */
typedef struct cfx_tokenizer cfx_tokenizer;

/* Opens such a file; scope. Models are byte-level or plain BPE, WordPiece and WordLevel, with the
 * normalizers, pre-tokenizers, post-processors and decoders that these come with. NULL, with an
 * error that names the file and what cannot be done, otherwise. Texts that are not ASCII need the
 * library utf8proc, which is opened then. */
CFX_API cfx_tokenizer *cfx_tokenizer_open(const char *path);
/* The same of the text of such a file, which `name` stands for in errors. */
CFX_API cfx_tokenizer *cfx_tokenizer_parse(const char *json, const char *name);

/* The tokens of a text as int64[n]; scope. With `special` those that the model wants around it
 * ("[CLS] ... [SEP]"). Ids are those of Hugging Face's tokenizers; a length that the file sets is
 * kept, padding is left to the caller. Bad, with an error, where the text is no UTF-8. */
CFX_API cfx_tensor *cfx_tokenizer_encode(const cfx_tokenizer *t, const char *text, bool special);
/* The text of tokens, integers of any dtype; scope. With `plain` without special tokens. NULL, with
 * an error, where a number is no token. */
CFX_API const char *cfx_tokenizer_decode(const cfx_tokenizer *t, const cfx_tensor *ids, bool plain);

/* How many numbers there are, added ones included. */
CFX_API int64_t cfx_tokenizer_size(const cfx_tokenizer *t);
/* The number of a token as the file writes it ("[PAD]", "</s>"); -1 where there is none. */
CFX_API int64_t cfx_tokenizer_id(const cfx_tokenizer *t, const char *token);
/* A token as the file writes it, borrowed; NULL where there is none. */
CFX_API const char *cfx_tokenizer_token(const cfx_tokenizer *t, int64_t id);
/* The number that stands where a text is shorter than the others: what the file says, or the token
 * that is called like one; -1 where there is none. */
CFX_API int64_t cfx_tokenizer_padding(const cfx_tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif
