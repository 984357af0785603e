/* The numbers of symbols: torch.export calls a size s77 because the text that says where it comes
 * from has a SHA-256 which ends so. */
#include "worlds.h"

static uint32_t turned(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* The fraction of the square or cube root of a prime, as the standard takes its constants. */
static uint32_t fraction(int prime, bool cube) {
    /* the largest r with r^2 (or r^3) <= prime * 2^64 (2^96), by bits; its low 32 are the answer */
    unsigned __int128 r = 0;
    for (int bit = 35; bit >= 0; bit--) {
        unsigned __int128 t = r | (unsigned __int128)1 << bit;
        bool fits = cube ? t * t <= ((unsigned __int128)prime << 96) / t
                         : t * t <= (unsigned __int128)prime << 64;
        r = fits ? t : r;
    }
    return (uint32_t)r;
}

static void constants(uint32_t *h, uint32_t *k) {
    for (int n = 0, p = 2; n < 64; p++) {
        bool prime = true;
        for (int d = 2; d * d <= p; d++)
            prime &= p % d != 0;
        if (!prime)
            continue;
        if (n < 8)
            h[n] = fraction(p, false);
        k[n++] = fraction(p, true);
    }
}

static void mix(uint32_t *h, const uint32_t *k, const uint8_t *block) {
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
    uint32_t h[8], k[64];
    size_t len = strlen(source), rounds = (len + 8) / 64 + 1;
    uint8_t *text = cfx__alloc0(rounds * 64);
    memcpy(text, source, len);
    text[len] = 0x80;
    for (int i = 0; i < 8; i++)
        text[rounds * 64 - 1 - (size_t)i] = (uint8_t)((uint64_t)len * 8 >> 8 * i);
    constants(h, k);
    for (size_t i = 0; i < rounds; i++)
        mix(h, k, text + 64 * i);
    cfx__free(text);
    uint64_t rest = 0;
    for (int i = 0; i < 8; i++)
        rest = (rest << 32 | h[i]) % 100;
    return (int)rest;
}
