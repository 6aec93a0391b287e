#ifndef FRAME_H
#define FRAME_H
#include "ringbuf.h"

enum { FRAME_START = 0x7E, FRAME_MAX = 64 };
enum { FRAME_NONE = 0, FRAME_OK = 1, FRAME_BAD_CRC = -1, FRAME_TOO_LONG = -2 };

size_t frame_encode(const uint8_t *payload, size_t n, uint8_t *out);
int frame_decode(ringbuf *rb, uint8_t *payload, size_t *n);
#endif
