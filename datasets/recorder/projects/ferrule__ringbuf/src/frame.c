#include "frame.h"
#include "crc16.h"

size_t frame_encode(const uint8_t *payload, size_t n, uint8_t *out)
{
    size_t i;
    uint16_t crc;
    if (n > FRAME_MAX)
        return 0;
    out[0] = FRAME_START;
    out[1] = (uint8_t)n;
    for (i = 0; i < n; i++)
        out[2 + i] = payload[i];
    crc = crc16(out + 1, n + 1);
    out[2 + n] = (uint8_t)(crc & 0xFF);
    out[3 + n] = (uint8_t)(crc >> 8);
    return n + 4;
}

static void drop(ringbuf *rb, size_t n)
{
    uint8_t byte;
    while (n-- && ringbuf_read(rb, &byte, 1) == 1)
        ;
}

int frame_decode(ringbuf *rb, uint8_t *payload, size_t *n)
{
    uint8_t head[FRAME_MAX + 1], byte, low, high;
    size_t i, length;
    while (ringbuf_peek(rb, 0, &byte) == 0 && byte != FRAME_START)
        drop(rb, 1);
    if (ringbuf_peek(rb, 1, &byte) != 0)
        return FRAME_NONE;
    length = byte;
    if (length > FRAME_MAX) {
        drop(rb, 1);
        return FRAME_TOO_LONG;
    }
    if (ringbuf_used(rb) < length + 4)
        return FRAME_NONE;
    head[0] = (uint8_t)length;
    for (i = 0; i < length; i++) {
        ringbuf_peek(rb, 2 + i, &byte);
        head[1 + i] = payload[i] = byte;
    }
    ringbuf_peek(rb, 2 + length, &low);
    ringbuf_peek(rb, 3 + length, &high);
    if (crc16(head, length + 1) != (uint16_t)(low | high << 8)) {
        drop(rb, 1);
        return FRAME_BAD_CRC;
    }
    drop(rb, length + 4);
    *n = length;
    return FRAME_OK;
}
