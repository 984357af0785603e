/* What the machine truly has beyond what base.h asks of it. */
#ifndef CFX__MACHINE_H
#define CFX__MACHINE_H

#include "base.h"

/* Whether its tiles (cfx__machine_has_tiles) multiply bytes too. */
bool cfx__machine_has_byte_tiles(void);

#endif
