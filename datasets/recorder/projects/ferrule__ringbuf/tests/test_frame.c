#include "check.h"
#include "crc16.h"
#include "frame.h"

static void test_crc(void)
{
    CHECK_EQ(crc16((const uint8_t *)"123456789", 9), 0x29B1);
}

static void test_round_trip(void)
{
    uint8_t storage[128], wire[FRAME_MAX + 4], payload[FRAME_MAX];
    size_t n = 0;
    ringbuf rb;
    ringbuf_init(&rb, storage, sizeof storage);
    ringbuf_write(&rb, wire, frame_encode((const uint8_t *)"hello", 5, wire));
    CHECK_EQ(frame_decode(&rb, payload, &n), FRAME_OK);
    CHECK_EQ(n, 5);
    CHECK_EQ(payload[4], 'o');
    CHECK_EQ(ringbuf_used(&rb), 0);
    CHECK_EQ(wire[7], 0x73);
    CHECK_EQ(wire[8], 0x8E);
}

static void test_resync(void)
{
    uint8_t storage[128], wire[FRAME_MAX + 4], payload[FRAME_MAX];
    const uint8_t noise[3] = {0x00, FRAME_START, 0xFF};
    size_t n = 0;
    ringbuf rb;
    ringbuf_init(&rb, storage, sizeof storage);
    ringbuf_write(&rb, noise, 3);
    ringbuf_write(&rb, wire, frame_encode((const uint8_t *)"ab", 2, wire));
    CHECK_EQ(frame_decode(&rb, payload, &n), FRAME_TOO_LONG);
    CHECK_EQ(frame_decode(&rb, payload, &n), FRAME_OK);
    CHECK_EQ(n, 2);
}

static void test_longest(void)
{
    uint8_t storage[128], wire[FRAME_MAX + 4], payload[FRAME_MAX] = {0}, in[FRAME_MAX];
    size_t i, n = 0;
    ringbuf rb;
    for (i = 0; i < FRAME_MAX; i++)
        in[i] = (uint8_t)i;
    ringbuf_init(&rb, storage, sizeof storage);
    ringbuf_write(&rb, wire, frame_encode(in, FRAME_MAX, wire));
    CHECK_EQ(frame_decode(&rb, payload, &n), FRAME_OK);
    CHECK_EQ(n, 64);
    CHECK_EQ(payload[63], 63);
}

int main(void)
{
    test_crc();
    test_round_trip();
    test_resync();
    test_longest();
    return DONE("test_frame");
}
