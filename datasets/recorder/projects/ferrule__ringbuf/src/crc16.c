#include "crc16.h"

uint16_t crc16(const uint8_t *data, size_t n)
{
    uint16_t crc = 0xFFFF;
    size_t i;
    int bit;
    for (i = 0; i < n; i++) {
        crc ^= (uint16_t)(data[i] << 8);
        for (bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) ? (uint16_t)((crc << 1) ^ 0x1021) : (uint16_t)(crc << 1);
    }
    return crc;
}
