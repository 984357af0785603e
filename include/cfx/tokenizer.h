/* Converts text to tokens and back, by Hugging Face's tokenizer.json. */
#ifndef CFX_TOKENIZER_H
#define CFX_TOKENIZER_H

#include <cfx/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tokenizer; reference-counted. Read-only after opening: threads may share it. */
typedef struct cfx_tokenizer cfx_tokenizer;

/* Opens a tokenizer.json; scope. Supports byte-level and plain BPE, WordPiece and WordLevel,
 * with the normalizers, pre-tokenizers, post-processors and decoders that these use. NULL, with
 * an error that names the file and the unsupported part. Text outside of ASCII needs the library
 * utf8proc, which is then opened. */
CFX_API cfx_tokenizer *cfx_tokenizer_open(const char *path);
/* The same of the text of such a file, which `name` stands for in errors. */
CFX_API cfx_tokenizer *cfx_tokenizer_parse(const char *json, const char *name);

/* The tokens of a text as int64[n], equal to Hugging Face's; scope. With `special`, including
 * the special tokens of the model ("[CLS] ... [SEP]"). Truncates to a length set in the file,
 * and does not pad. Bad, with an error, where the text is not UTF-8. */
CFX_API cfx_tensor *cfx_tokenizer_encode(const cfx_tokenizer *t, const char *text, bool special);
/* The text of tokens, integers of any dtype; scope. With `plain`, without special tokens. NULL,
 * with an error, where a number is not a token. */
CFX_API const char *cfx_tokenizer_decode(const cfx_tokenizer *t, const cfx_tensor *ids, bool plain);

/* The size of the vocabulary, including added tokens. */
CFX_API int64_t cfx_tokenizer_size(const cfx_tokenizer *t);
/* The number of a token as written in the file ("[PAD]", "</s>"); -1 if unknown. */
CFX_API int64_t cfx_tokenizer_id(const cfx_tokenizer *t, const char *token);
/* A token as written in the file, borrowed; NULL if unknown. */
CFX_API const char *cfx_tokenizer_token(const cfx_tokenizer *t, int64_t id);
/* The number of the padding token: from the file, or a token with such a name; -1 if there is
 * none. */
CFX_API int64_t cfx_tokenizer_padding(const cfx_tokenizer *t);

#ifdef __cplusplus
}
#endif
#endif
