/* Run a compiled model on the cores of a chip, without the ONNX nodes of the host.
 *
 *     cc -O2 -std=c99 main.c driver.c -o model
 *     ./model INPUT OUTPUT
 *
 * INPUT holds frames of the model's input, float32. The results of each frame are written to OUTPUT
 * as stored integers in the order of `results`. The SHA-256 of OUTPUT is printed.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM_STEPS
#include "driver.h"

static float values[INPUT_VALUES];
static int16_t buffers[BUFFERS][BUFFER_ELEMENTS];

static void quit(const char *what, const char *where)
{
    fprintf(stderr, "%s: %s\n", where, what);
    exit(1);
}

/* ---- SHA-256 (FIPS 180-4) -------------------------------------------------------------------- */

struct sha {
    uint32_t state[8];
    uint8_t block[64];
    uint64_t bytes;
};

static const uint32_t SHA_K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void sha_block(struct sha *sha)
{
    uint32_t w[64], s[8], one, two;
    int i;
    for (i = 0; i < 16; i++)
        w[i] = (uint32_t)sha->block[4 * i] << 24 | (uint32_t)sha->block[4 * i + 1] << 16
               | (uint32_t)sha->block[4 * i + 2] << 8 | sha->block[4 * i + 3];
    for (; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7]
               + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3)
               + (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(s, sha->state, sizeof s);
    for (i = 0; i < 64; i++) {
        one = s[7] + (turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25))
              + ((s[4] & s[5]) ^ (~s[4] & s[6])) + SHA_K[i] + w[i];
        two = (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22))
              + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (i = 0; i < 8; i++)
        sha->state[i] += s[i];
}

static void sha_add(struct sha *sha, uint8_t byte)
{
    sha->block[sha->bytes++ % 64] = byte;
    if (sha->bytes % 64 == 0)
        sha_block(sha);
}

static void sha_print(struct sha *sha)
{
    uint64_t bits = sha->bytes * 8;
    int i;
    sha_add(sha, 0x80);
    while (sha->bytes % 64 != 56)
        sha_add(sha, 0);
    for (i = 7; i >= 0; i--)
        sha_add(sha, (uint8_t)(bits >> (8 * i)));
    for (i = 0; i < 8; i++)
        printf("%08lx", (unsigned long)sha->state[i]);
    printf("\n");
}

/* ---- host ------------------------------------------------------------------------------------ */

/* QuantizeLinear: float32, round half to even, clip. Adding 1.5 * 2^23 rounds to an integer; larger
 * numbers are clipped before. */
static int16_t quantised(float value, const struct step *step)
{
    const volatile float large = 12582912.0f;
    float low = (float)(-(1L << (step->bits - 1)) - step->zero_point);
    float high = (float)((1L << (step->bits - 1)) - 1 - step->zero_point);
    volatile float steps = value / step->scale;
    if (steps <= low)
        steps = low;
    else if (steps >= high)
        steps = high;
    else {
        steps = steps + large;
        steps = steps - large;
    }
    return (int16_t)((long)steps + step->zero_point);
}

static void quantise(const struct step *step)
{
    int16_t *to = buffers[step->to];
    int y, x, c;
    for (y = 0; y < step->rows; y++)
        for (x = 0; x < step->columns; x++)
            for (c = 0; c < step->channels; c++)
                *to++ = quantised(values[y * step->strides[0] + x * step->strides[1]
                                         + c * step->strides[2]],
                                  step);
}

/* im2col: a result pixel is a window of the map (kernel rows, kernel columns, channels). */
static void windows(const struct step *step)
{
    const int16_t *from = buffers[step->from];
    int16_t *to = buffers[step->to];
    int oy, ox, ky, kx, c, y, x;
    for (oy = 0; oy < step->results[0]; oy++)
        for (ox = 0; ox < step->results[1]; ox++)
            for (ky = 0; ky < step->size[0]; ky++)
                for (kx = 0; kx < step->size[1]; kx++)
                    for (c = 0; c < step->channels; c++) {
                        y = oy * step->stride[0] + ky * step->dilation[0] - step->pad[0];
                        x = ox * step->stride[1] + kx * step->dilation[1] - step->pad[1];
                        *to++ = y >= 0 && y < step->rows && x >= 0 && x < step->columns
                            ? from[(y * step->columns + x) * step->channels + c]
                            : (int16_t)step->zero_point;
                    }
}

/* Address of a byte of element (y, x, c) of a stored map. 8-bit maps have one vector per block;
 * 16-bit maps have a separate plane of high bytes; 32-bit maps have four vectors per block. */
static int8_t *place_of(const struct step *step, int y, int x, int c, int byte)
{
    int bytes = step->bits == 32 ? 4 : 1, place = c % COLUMNS * bytes + byte * (bytes > 1);
    int32_t vector = step->address + y * step->strides[0] + x * step->strides[1]
                     + c / COLUMNS * bytes + place / COLUMNS;
    return npu_map(step->core, vector + (step->bits == 16 ? byte * step->high : 0))
           + place % COLUMNS;
}

/* Byte with the sign bit of channel c; the bit is set for +1. */
static int8_t *sign_of(const struct step *step, int y, int x, int c)
{
    return npu_map(step->core, step->address + y * step->strides[0] + x * step->strides[1]
                   + c / (8 * COLUMNS)) + c / 8 % COLUMNS;
}

/* Address of a byte of a map stored in planes: a word is two vectors in each of four banks. */
static int8_t *plane_of(const struct step *step, int y, int x, int c)
{
    int bank = 2 * COLUMNS, pixel = y * step->columns + x;
    int words = (step->rows * step->columns + bank - 1) / bank;
    int32_t word = c / 4 * words + pixel / bank;
    int32_t vector = step->address + 8 * word + c % 4 * 2 + pixel % bank / COLUMNS;
    return npu_map(step->core, vector) + pixel % COLUMNS;
}

static void write_map(const struct step *step)
{
    const int16_t *from = buffers[step->from];
    int y, x, c, byte;
    for (y = 0; y < step->rows; y++)
        for (x = 0; x < step->columns; x++)
            for (c = 0; c < step->channels; c++, from++)
                for (byte = 0; byte < step->bits / 8; byte++)
                    *(step->planes ? plane_of(step, y, x, c) : place_of(step, y, x, c, byte)) =
                        (int8_t)((((uint16_t)*from >> (8 * byte) & 255) ^ 128) - 128);
}

static void put(uint8_t byte, FILE *output, struct sha *sha)
{
    sha_add(sha, byte);
    if (fputc(byte, output) == EOF)
        quit("cannot write", "output");
}

static void read_map(const struct step *step, FILE *output, struct sha *sha)
{
    int y, x, c, byte;
    for (y = 0; y < step->rows; y++)
        for (x = 0; x < step->columns; x++)
            for (c = 0; c < step->channels; c++) {
                for (byte = 0; byte < step->bits / 8; byte++)
                    put((uint8_t)*place_of(step, y, x, c, byte), output, sha);
                if (step->bits == 1)
                    put(*sign_of(step, y, x, c) >> c % 8 & 1 ? 1 : 255, output, sha);
            }
}

int main(int count, char **names)
{
    struct sha sha = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, {0}, 0};
    FILE *input, *output;
    size_t got;
    int frame, at;
    if (count != 3)
        quit("usage: INPUT OUTPUT", names[0]);
    input = fopen(names[1], "rb");
    if (input == NULL)
        quit("cannot be read", names[1]);
    output = fopen(names[2], "wb");
    if (output == NULL)
        quit("cannot be written", names[2]);
    for (frame = 0; (got = fread(values, sizeof *values, INPUT_VALUES, input)) > 0; frame++) {
        if (got != INPUT_VALUES)
            quit("ends within a frame", names[1]);
        npu_reset(frame);
        for (at = 0; at < STEPS; at++)
            switch (steps[at].kind) {
            case STEP_QUANTISE: quantise(&steps[at]); break;
            case STEP_WINDOWS: windows(&steps[at]); break;
            case STEP_WRITE: write_map(&steps[at]); break;
            case STEP_RUN: npu_run(steps[at].function); break;
            default: read_map(&steps[at], output, &sha);
            }
    }
    if (fclose(output) != 0)
        quit("cannot be written", names[2]);
    fclose(input);
    sha_print(&sha);
    return 0;
}
