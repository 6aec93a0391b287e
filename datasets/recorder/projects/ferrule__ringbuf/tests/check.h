#ifndef CHECK_H
#define CHECK_H
#include <stdio.h>
static int failures;
#define CHECK_EQ(got, want)                                                              \
    do {                                                                                 \
        long g = (long)(got), w = (long)(want);                                          \
        if (g != w) {                                                                    \
            printf("%s:%d: %s: got %ld, want %ld\n", __FILE__, __LINE__, #got, g, w);    \
            failures++;                                                                  \
        }                                                                                \
    } while (0)
#define DONE(name) (printf("%s: %d failure(s)\n", name, failures), failures != 0)
#endif
