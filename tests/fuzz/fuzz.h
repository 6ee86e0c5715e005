/* Shared by the libFuzzer targets. The input ends where readable memory ends (AddressSanitizer watches), so a target hands it
 * on as it is; a broken promise of a header ends the run through CHECK. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first `want` bytes of the input steer the target, zeros where it is shorter; the rest is what gets parsed. */
static inline void take_control(const uint8_t **data, size_t *size, uint8_t *control, size_t want) {
    const size_t n = *size < want ? *size : want;
    memset(control, 0, want);
    if (n) memcpy(control, *data, n);
    *data += n;
    *size -= n;
}

#endif
