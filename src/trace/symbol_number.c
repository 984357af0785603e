/* The numbers of symbols: torch.export calls a size s77 because the text that says where it comes
 * from has a SHA-256 which ends so. */
#include "worlds.h"

static uint32_t turned(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* The first 32 bits of the fractions of the square roots of 8 primes and the cube roots of 64, as
 * the standard takes its constants. */
static const uint32_t first[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static void mix(uint32_t *h, const uint8_t *block) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] +
               (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t e = v[4], a = v[0];
        uint32_t t = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                     ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t u = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                     ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t, v[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

int cfx__symbol_number(const char *source) {
    uint32_t h[8];
    size_t len = strlen(source), rounds = (len + 8) / 64 + 1;
    uint8_t *text = cfx__alloc0(rounds * 64);
    memcpy(text, source, len);
    text[len] = 0x80;
    for (int i = 0; i < 8; i++)
        text[rounds * 64 - 1 - (size_t)i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
    memcpy(h, first, sizeof h);
    for (size_t i = 0; i < rounds; i++)
        mix(h, text + 64 * i);
    cfx__free(text);
    uint64_t rest = 0;
    for (int i = 0; i < 8; i++)
        rest = (rest << 32 | h[i]) % 100;
    return (int)rest;
}
