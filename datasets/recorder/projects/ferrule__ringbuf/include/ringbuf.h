#ifndef RINGBUF_H
#define RINGBUF_H
#include <stddef.h>
#include <stdint.h>

/* A byte queue of fixed size; the size must be a power of two. */
typedef struct {
    uint8_t *data;
    size_t mask;
    size_t head; /* next byte to write, counts up for ever */
    size_t tail; /* next byte to read, counts up for ever */
} ringbuf;

int ringbuf_init(ringbuf *rb, uint8_t *storage, size_t size);
size_t ringbuf_used(const ringbuf *rb);
size_t ringbuf_free(const ringbuf *rb);
size_t ringbuf_write(ringbuf *rb, const uint8_t *src, size_t n);
size_t ringbuf_read(ringbuf *rb, uint8_t *dst, size_t n);
int ringbuf_peek(const ringbuf *rb, size_t offset, uint8_t *out);
#endif
