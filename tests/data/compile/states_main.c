/* Calls states.fx, as C, twice: whether results, and what is kept, are what they should be. */
#include "states.h"
#include <string.h>
int main(void) {
    static _Alignas(64) unsigned char arena[STATES_ARENA_BYTES];
    static const float x[] = {5, 6}, wants[2][6] = {{1, 2, 5, 6, 7, 8}, {3, 4, 10, 12, 19, 22}};
    static const float kept[] = {1, 2, 3, 4, 1, 2, 3, 4, 0, 0, 5, 6, 0, 0, 5, 6, 19, 22};
    struct states_state state;
    int off = 0;
    states_state_init(&states_weights, &state);
    for (int i = 0; i < 2; i++) {
        const int64_t at[] = {i ? 3 : 1};
        float out[6];
        off |= states_run(&states_weights, &state, arena, at, x, out, out + 2, out + 4);
        off |= memcmp(out, wants[i], sizeof out) != 0;
    }
    return off | (memcmp(&state, kept, sizeof kept) != 0);
}
