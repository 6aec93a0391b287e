#include "ringbuf.h"

int ringbuf_init(ringbuf *rb, uint8_t *storage, size_t size)
{
    if (size == 0 || (size & (size - 1)) != 0)
        return -1;
    rb->data = storage;
    rb->mask = size - 1;
    rb->head = rb->tail = 0;
    return 0;
}

size_t ringbuf_used(const ringbuf *rb)
{
    return rb->head - rb->tail;
}

size_t ringbuf_free(const ringbuf *rb)
{
    return rb->mask + 1 - ringbuf_used(rb);
}

size_t ringbuf_write(ringbuf *rb, const uint8_t *src, size_t n)
{
    size_t i;
    if (n > ringbuf_free(rb))
        n = ringbuf_free(rb);
    for (i = 0; i < n; i++)
        rb->data[rb->head++ & rb->mask] = src[i];
    return n;
}

size_t ringbuf_read(ringbuf *rb, uint8_t *dst, size_t n)
{
    size_t i;
    if (n > ringbuf_used(rb))
        n = ringbuf_used(rb);
    for (i = 0; i < n; i++)
        dst[i] = rb->data[rb->tail++ & rb->mask];
    return n;
}

int ringbuf_peek(const ringbuf *rb, size_t offset, uint8_t *out)
{
    if (offset >= ringbuf_used(rb))
        return -1;
    *out = rb->data[(rb->tail + offset) & rb->mask];
    return 0;
}
