/* What the layout of packed weights depends on, beside what keys say: see cfx__packed_key. */
#include "bf16.h"
#include "int8.h"
#include "widths.h"

#include "../ready.h"
#include "packers.inc"

const char *cfx__ready_machine(void) {
    return cfx__text_format("vectors of %d bytes%s%s%s; packers %s", vector_bytes(),
                            bf16_has(BF16_DOTS) ? ", bf16" : "",
                            bf16_has(BF16_TILES) ? ", tiles" : "",
                            int8_has_dots() ? ", int8" : "", CFX__PACKERS);
}
