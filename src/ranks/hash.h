/* Hashes by which ranks find out that they have different files or inputs. */
#ifndef CFX__RANKS_HASH_H
#define CFX__RANKS_HASH_H

#include "../base/base.h"

/* A hash with all of n bytes in it. */
uint64_t cfx__hash_bytes(uint64_t hash, const void *bytes, size_t n);

#endif
