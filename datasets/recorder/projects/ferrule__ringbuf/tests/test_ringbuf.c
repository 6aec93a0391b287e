#include "check.h"
#include "ringbuf.h"

int main(void)
{
    uint8_t storage[8], out[8] = {0}, byte;
    const uint8_t in[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    ringbuf rb;

    CHECK_EQ(ringbuf_init(&rb, storage, 6), -1);
    CHECK_EQ(ringbuf_init(&rb, storage, 8), 0);
    CHECK_EQ(ringbuf_free(&rb), 8);
    CHECK_EQ(ringbuf_write(&rb, in, 10), 8);
    CHECK_EQ(ringbuf_used(&rb), 8);
    CHECK_EQ(ringbuf_read(&rb, out, 5), 5);
    CHECK_EQ(out[4], 5);
    CHECK_EQ(ringbuf_write(&rb, in, 4), 4);
    CHECK_EQ(ringbuf_peek(&rb, 3, &byte), 0);
    CHECK_EQ(byte, 1);
    CHECK_EQ(ringbuf_peek(&rb, 7, &byte), -1);
    CHECK_EQ(ringbuf_read(&rb, out, 8), 7);
    CHECK_EQ(out[6], 4);
    return DONE("test_ringbuf");
}
