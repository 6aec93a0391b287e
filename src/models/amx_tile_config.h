/* Force-included into llama.cpp's C++ by `make build` where AMX is turned on.
 *
 * GCC before 12.4 and 13.3 declares that `_tile_loadconfig` reads 8 bytes of the 64 that `ldtilecfg` loads, so
 * it deletes the stores to the other 56 as dead and the first matrix product crashes (GCC bug target/114098).
 * Here the operand is all 64 bytes. */
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>

struct trajpress_tile_config {
    unsigned char bytes[64];
};

static inline __attribute__((always_inline)) void trajpress_tile_loadconfig(const void * config) {
    __asm__ volatile("ldtilecfg\t%X0" ::"m"(*(const struct trajpress_tile_config *) config));
}

#define _tile_loadconfig trajpress_tile_loadconfig
#endif
