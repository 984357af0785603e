/* half: numbers of 16 bits. */

NAME_INLINE float NAME_from_bf16(uint16_t h) {
    return NAME_of_bits((uint32_t)h << 16);
}

/* To the nearest, ties to even; NaN stays NaN. */
NAME_INLINE uint16_t NAME_to_bf16(float x) {
    const uint32_t bits = NAME_bits_of(x), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (uint16_t)(x != x ? 0x7fc0u : rounded);
}

/* The exponent is moved by a multiplication; numbers below its least by a subtraction. */
NAME_INLINE float NAME_from_f16(uint16_t h) {
    const uint32_t bits = (uint32_t)h << 16, sign = bits & 0x80000000u, rest = bits + bits;
    const float normal = NAME_of_bits((rest >> 4) + (0xe0u << 23)) * 0x1p-112f;
    const float small = NAME_of_bits((rest >> 17) | (126u << 23)) - 0.5f;
    return NAME_of_bits(sign | NAME_bits_of(rest < (1u << 27) ? small : normal));
}

/* To the nearest, ties to even: what there is no room for is rounded away by an addition. */
NAME_INLINE uint16_t NAME_to_f16(float x) {
    const uint32_t bits = NAME_bits_of(x), sign = (bits >> 16) & 0x8000u, rest = bits + bits;
    const uint32_t power = rest & 0xff000000u, least = power < 0x71000000u ? 0x71000000u : power;
    const float size = NAME_of_bits(bits & 0x7fffffffu), moved = (size * 0x1p112f) * 0x1p-110f;
    const uint32_t sum = NAME_bits_of(NAME_of_bits((least >> 1) + 0x07800000u) + moved);
    const uint32_t number = ((sum >> 13) & 0x7c00u) + (sum & 0xfffu);
    return (uint16_t)(sign | (rest > 0xff000000u ? 0x7e00u : number));
}
