/* Rooms of the arena: those that are in use at the same time lie apart, others share bytes. */
#include "compile.h"
#include "../../tests/test.h"

typedef struct {
    int64_t bytes;
    int first, last;
} want;

/* The arena of rooms, 0 where two of them lie in each other while both are in use, or one is not
 * aligned. */
static int64_t arena_of(int n, const want *rooms, int clock) {
    cfx__c c = {.clock = clock};
    for (int i = 0; i < n; i++) {
        const cfx__c_room r = {rooms[i].bytes, 0, rooms[i].first, rooms[i].last, NULL};
        VEC_PUSH(c.rooms, r);
        cfx__text_printf(&c.out, "%s;", cfx__c_room_text(i, 8));
    }
    cfx__c_rooms_place(&c);
    bool fine = true;
    cfx__text text = {0};
    for (int i = 0; i < n; i++) {
        const cfx__c_room *a = &c.rooms.data[i];
        fine &= a->at % (a->bytes < 64 ? 16 : 64) == 0 && a->at + a->bytes <= c.arena;
        for (int k = 0; k < i; k++) {
            const cfx__c_room *b = &c.rooms.data[k];
            fine &= a->last < b->first || b->last < a->first || a->at + a->bytes <= b->at ||
                    b->at + b->bytes <= a->at;
        }
        cfx__text_printf(&text, "c->arena + %lld;", (long long)a->at + 8);
    }
    fine &= !strcmp(text.data, c.out.data);
    cfx__text_release(&text);
    cfx__text_release(&c.out);
    VEC_FREE(c.rooms);
    return fine ? c.arena : 0;
}

TEST(c_rooms_share_bytes_by_when_they_are_in_use) {
    CHECK(arena_of(2, (const want[]){{128, 1, 2}, {128, 3, 4}}, 4) == 128);
    CHECK(arena_of(2, (const want[]){{128, 1, 3}, {128, 3, 4}}, 4) == 256);
    /* a small one lives through two large ones; scratch fits beside the second */
    CHECK(arena_of(4, (const want[]){{64, 1, 4}, {512, 1, 2}, {256, 3, 4}, {256, 3, 3}}, 4) == 576);
    /* numbers of one element do not take a line each */
    CHECK(arena_of(3, (const want[]){{8, 1, 1}, {4, 1, 1}, {1, 1, 1}}, 1) <= 48);
    /* each order of placing wins somewhere; whichever it is, nothing is in the way of others */
    uint64_t h = 7;
    for (int round = 0; round < 200; round++) {
        want rooms[40];
        for (int i = 0; i < 40; i++) {
            h = h * 6364136223846793005u + 1442695040888963407u;
            rooms[i].bytes = (int64_t)(1 + (h >> 40) % 700);
            rooms[i].first = (int)(1 + (h >> 20) % 30);
            rooms[i].last = rooms[i].first + (int)((h >> 33) % 8);
        }
        CHECK(arena_of(40, rooms, 40) > 0);
    }
}
