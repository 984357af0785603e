/* spare: what a whole process tells when even the reserve of memory is used up. */
#ifndef CFX__SPARE_H
#define CFX__SPARE_H

/* Called, on any thread, when neither the heap nor a reserve has what cannot be done without: it
 * tells so, without taking memory, and ends the process, which would be trapped else. */
void cfx__memory_spent(void (*tell)(void));

#endif
