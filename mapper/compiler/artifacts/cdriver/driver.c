/* A portable interpreter of NPU programs: every core of a chip, one frame at a time.
 *
 * program.h holds the programs and memory sizes, isa.h the bit positions of instruction fields. All
 * memories are static; nothing is allocated. A core runs its instructions in order until one waits
 * for a stream; then the next core runs. Tokens order parallel units; program order satisfies them,
 * so they are ignored.
 */

#define PROGRAM_CORES
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BANK (2 * COLUMNS)                      /* bytes of a word in a bank, layout T */
#define GROUP ((ROWS + LANES - 1) / LANES)      /* parameter words with one number per row */
#define SUM_BYTES (ACC_BITS > 32 ? 8 : 4)       /* bytes per accumulator in a feature map */

enum { LANES = 16, STREAMS = 16 };              /* per parameter word; per core */
enum { FACTOR_BITS = 26 };                      /* of the source of ALU.MUL */
enum { BASE_LOAD, BASE_STORE, BASE_WEIGHTS, BASES };
enum { DIST_LOAD, DIST_ACC, DIST_WGT, DIST_STORE, DISTANCES };

struct memory {
    int8_t maps[MAP_VECTORS][COLUMNS];
    int16_t inputs[INPUT_VECTORS][COLUMNS];
    int64_t sums[ENTRIES][ROWS];
    int16_t results[ENTRIES][COLUMNS];
    int8_t weights[WEIGHT_WORDS][ROWS][COLUMNS];
    int32_t parameters[PARAMETER_WORDS][LANES];
    uint32_t micro_ops[MICRO_OPS][2];
    uint32_t headers[HEADERS][2];
    int64_t base[BASES], distance[DISTANCES], streams[STREAMS];
    int next;                                   /* next instruction */
};

static struct memory memories[CORES];
struct sent npu_sent[HOST_VECTORS];
int npu_sent_count;
static int running, odd;                        /* core, for messages; frame number is odd */

static void stop(const char *what)
{
    const struct core *core = &cores[running];
    fprintf(stderr, "core (%d, %d): instruction %d: %s\n", core->x, core->y,
            memories[running].next, what);
    exit(1);
}

static size_t in(int64_t at, int64_t size, const char *memory)
{
    if (at < 0 || at >= size)
        stop(memory);
    return (size_t)at;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int64_t field(const uint32_t *word, int high, int low, int is_signed)
{
    int width = high - low + 1, place = low % 32;
    uint64_t value = word[low / 32] >> place;
    if (place + width > 32)
        value |= (uint64_t)word[low / 32 + 1] << (32 - place);
    value &= ((uint64_t)1 << width) - 1;
    if (is_signed && value >> (width - 1))
        return (int64_t)value - ((int64_t)1 << width);
    return (int64_t)value;
}

static int64_t shifted(int64_t x, int n)        /* arithmetic right shift: floor */
{
    return x >= 0 ? x >> n : ~(~x >> n);
}

static int64_t wrapped(int64_t x, int bits)     /* low bits as a signed number */
{
    uint64_t sign = (uint64_t)1 << (bits - 1), low = (uint64_t)x & (2 * sign - 1);
    return (int64_t)(low ^ sign) - (int64_t)sign;
}

static int64_t rounded(int64_t x, int n, int mode)
{
    int64_t half, low, rest;
    if (n == 0)
        return x;
    if (mode == ROUND_FLOOR)
        return shifted(x, n);
    half = (int64_t)1 << (n - 1);
    if (mode == ROUND_UP)
        return shifted(x + half, n);
    if (mode == ROUND_AWAY)
        return shifted(x + half - (x < 0), n);
    low = shifted(x, n);
    rest = x - low * ((int64_t)1 << n);
    return low + (rest > half || (rest == half && low % 2 != 0));
}

/* If low > high, the result is high, as in the hardware. */
static int64_t clamped(int64_t x, int64_t low, int64_t high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* ---- memories -------------------------------------------------------------------------------- */

static int8_t *map_at(struct memory *m, int64_t at)
{
    return m->maps[in(at, MAP_VECTORS, "address outside the feature memory")];
}

static int16_t *input_at(struct memory *m, int64_t at)
{
    return m->inputs[in(at, INPUT_VECTORS, "address outside the input buffer")];
}

static int64_t *sum_at(struct memory *m, int64_t at)
{
    return m->sums[in(at, ENTRIES, "address outside the accumulators")];
}

static int16_t *result_at(struct memory *m, int64_t at)
{
    return m->results[in(at, ENTRIES, "address outside the result buffer")];
}

static int8_t (*weight_at(struct memory *m, int64_t at))[COLUMNS]
{
    return m->weights[in(at, WEIGHT_WORDS, "address outside the weight memory")];
}

static int64_t parameter(struct memory *m, int64_t at, int lane)
{
    at += lane / LANES;
    return m->parameters[in(at, PARAMETER_WORDS, "address outside the parameter memory")]
                        [lane % LANES];
}

static const uint32_t *micro_op_at(struct memory *m, int64_t at)
{
    return m->micro_ops[in(at, MICRO_OPS, "address outside the micro-op memory")];
}

static struct memory *memory_of(int64_t x, int64_t y)
{
    int core;
    for (core = 0; core < CORES; core++)
        if (cores[core].x == x && cores[core].y == y)
            return &memories[core];
    stop("target core has no program");
    return NULL;
}

/* ---- LOAD ------------------------------------------------------------------------------------ */

static int64_t map_sum(struct memory *m, int64_t at, int row)
{
    int k, place;
    uint64_t number = 0;
    for (k = 0; k < SUM_BYTES; k++) {
        place = row * SUM_BYTES + k;
        number |= (uint64_t)(uint8_t)map_at(m, at + place / COLUMNS)[place % COLUMNS] << (8 * k);
    }
    return wrapped((int64_t)number, ACC_BITS);
}

static int64_t map_value(struct memory *m, int64_t at, int64_t high, int lane)
{
    int64_t low = map_at(m, at)[lane];
    if (high == 0)
        return low;
    return (int64_t)map_at(m, at + high)[lane] * 256 + (low & 255);
}

static void load_area(struct memory *m, const uint32_t *w, int kind)
{
    int64_t dst = field(w, LOAD_INP_DST), c_size = field(w, LOAD_INP_C_SIZE);
    int64_t x_size = field(w, LOAD_INP_X_SIZE), y_size = field(w, LOAD_INP_Y_SIZE);
    int64_t x_stride = field(w, LOAD_INP_X_STRIDE), y_stride = field(w, LOAD_INP_Y_STRIDE);
    int64_t top = field(w, LOAD_INP_PAD_T), left = field(w, LOAD_INP_PAD_L);
    int64_t bottom = y_size - field(w, LOAD_INP_PAD_B), right = x_size - field(w, LOAD_INP_PAD_R);
    int64_t value = field(w, LOAD_INP_VALUE), slots = field(w, LOAD_INP_PP);
    int64_t source = m->base[BASE_LOAD] + field(w, LOAD_INP_SRC);
    int64_t high = DUAL && kind != LOAD_ACC32 ? m->distance[DIST_LOAD] : 0;
    int64_t wrap = field(w, LOAD_INP_WRAP) ? field(w, LOAD_INP_WRAP) : x_size;
    int64_t y, x, c, at, to;
    int lane, width = kind == LOAD_ACC32 ? SUM_BYTES * ROWS / COLUMNS : 1;
    if (kind == LOAD_INP && !DUAL)
        value = wrapped(value, 8);
    if (slots > 0 && odd)
        source += (int64_t)1 << (slots + 2);
    for (y = 0; y < y_size; y++)
        for (x = 0; x < x_size; x++)
            for (c = 0; c < c_size; c++) {
                int pad = y < top || y >= bottom || x < left || x >= right;
                to = dst + (c * y_size + y) * x_size + x;
                at = source + (y - top - (x - left >= wrap)) * y_stride + (x - left) * x_stride
                     + c * width;
                for (lane = 0; lane < ROWS; lane++) {
                    int64_t number = pad ? value
                        : kind == LOAD_ACC32 ? map_sum(m, at, lane)
                                             : map_value(m, at, high, lane);
                    if (kind == LOAD_INP)
                        input_at(m, to)[lane] = (int16_t)number;
                    else
                        sum_at(m, to)[lane] = number;
                }
            }
}

static void load_bias(struct memory *m, const uint32_t *w)
{
    int64_t o, i, to;
    int lane;
    for (o = 0; o < field(w, LOAD_BIAS_N_OUT); o++)
        for (i = 0; i < field(w, LOAD_BIAS_N_IN); i++) {
            to = field(w, LOAD_BIAS_DST) + o * field(w, LOAD_BIAS_DST_OUT)
                 + i * field(w, LOAD_BIAS_DST_IN);
            for (lane = 0; lane < ROWS; lane++)
                sum_at(m, to)[lane] = parameter(m, field(w, LOAD_BIAS_BM) + o * GROUP, lane);
        }
}

static void load_windows(struct memory *m, const uint32_t *w)
{
    int64_t width = field(w, LOAD_WIN_WIDTH), height = field(w, LOAD_WIN_HEIGHT);
    int64_t kh = field(w, LOAD_WIN_KH), kw = field(w, LOAD_WIN_KW);
    int64_t groups = field(w, LOAD_WIN_GROUPS), columns = field(w, LOAD_WIN_COLUMNS);
    int64_t top = field(w, LOAD_WIN_PAD_T), left = field(w, LOAD_WIN_PAD_L);
    int64_t words = (width * height + BANK - 1) / BANK;
    int64_t base = m->base[BASE_LOAD] / 8 + field(w, LOAD_WIN_SRC);
    int64_t vectors = (4 * groups * kh * kw + COLUMNS - 1) / COLUMNS;
    int64_t packet, window = 0, group, ky, kx, x, y, py, px, at, to, place;
    int64_t slots = field(w, LOAD_WIN_PP);
    int filter, channel;
    if (slots > 0 && odd)
        base += ((int64_t)1 << (slots + 2)) / 8;
    for (packet = 0; packet < field(w, LOAD_WIN_PACKETS); packet++) {
        const uint32_t *header = m->headers[in(field(w, LOAD_WIN_HEAD) + packet, HEADERS,
                                               "address outside the header memory")];
        x = header[1] & 0xffff;
        y = header[1] >> 16;
        for (filter = 0; filter < FILTERS && y < height + top; filter++) {
            to = field(w, LOAD_WIN_DST) + window * vectors;
            place = 0;
            for (group = 0; group < groups; group++)
                for (ky = 0; ky < kh; ky++)
                    for (kx = 0; kx < kw; kx++) {
                        py = y + ky - top;
                        px = x + kx - left;
                        at = py * width + px;
                        for (channel = 0; channel < 4; channel++, place++) {
                            int64_t byte = field(w, LOAD_WIN_VALUE);
                            if (py >= 0 && py < height && px >= 0 && px < width)
                                byte = map_at(m, (base + group * words + at / BANK) * 8
                                                 + at % BANK / COLUMNS + 2 * channel)
                                             [at % COLUMNS];
                            input_at(m, to + place / COLUMNS)[place % COLUMNS] = (int16_t)byte;
                        }
                    }
            for (; place < vectors * COLUMNS; place++)
                input_at(m, to + place / COLUMNS)[place % COLUMNS] = 0;
            window++;
            x += field(w, LOAD_WIN_SW);
            if (x >= columns * field(w, LOAD_WIN_SW)) {
                x = 0;
                y += field(w, LOAD_WIN_SH);
            }
        }
    }
}

static void load_weights(struct memory *m, const uint32_t *w)
{
    int64_t k, host;
    for (k = 0; k < field(w, LOAD_WSTREAM_WORDS); k++) {
        host = (int64_t)in(field(w, LOAD_WSTREAM_HOST) + k, HOST_WORDS,
                           "address outside the weights of the host");
        memcpy(weight_at(m, field(w, LOAD_WSTREAM_DST) + k), host_weights[host], ROWS * COLUMNS);
    }
}

static uint32_t map_word(struct memory *m, int64_t byte)
{
    int k;
    uint32_t number = 0;
    for (k = 0; k < 4; k++, byte++)
        number |= (uint32_t)(uint8_t)map_at(m, byte / COLUMNS)[byte % COLUMNS] << (8 * k);
    return number;
}

static void load_table(struct memory *m, const uint32_t *w)
{
    int64_t dst = field(w, LOAD_TABLE_DST), table = field(w, LOAD_TABLE_MEMORY), k;
    int64_t first = (m->base[BASE_LOAD] + field(w, LOAD_TABLE_SRC)) * COLUMNS;
    int64_t bytes = field(w, LOAD_TABLE_VECTORS) * COLUMNS;
    int lane;
    if (table == TABLE_PARAMETERS) {
        for (k = 0; k < bytes / 64; k++)
            for (lane = 0; lane < LANES; lane++)
                m->parameters[in(dst + k, PARAMETER_WORDS, "table outside its memory")][lane]
                    = (int32_t)wrapped(map_word(m, first + 64 * k + 4 * lane), 32);
        return;
    }
    for (k = 0; k < bytes / 8; k++) {
        uint32_t *word = table == TABLE_MICRO_OPS
            ? m->micro_ops[in(dst + k, MICRO_OPS, "table outside its memory")]
            : m->headers[in(dst + k, HEADERS, "table outside its memory")];
        word[0] = map_word(m, first + 8 * k);
        word[1] = map_word(m, first + 8 * k + 4);
    }
}

/* ---- GEMM ------------------------------------------------------------------------------------ */

static int64_t low_byte(int64_t lane)
{
    return wrapped(lane, 8);
}

static int64_t signs(int8_t weight, int8_t input)
{
    int bit, count = 0, same = ~(weight ^ input);
    for (bit = 0; bit < 8; bit++)
        count += same >> bit & 1;
    return 2 * count - 8;
}

/* Contribution of one product to row r; high: use the upper bytes of the inputs (DUAL_PIXEL). */
static int64_t product(struct memory *m, int kind, int64_t w, int64_t tap, int64_t i, int r,
                       int high)
{
    const int8_t *row = weight_at(m, w)[r];
    const int16_t *x = input_at(m, i);
    int64_t sum = 0;
    int c;
    if (kind == GEMM_DEPTHWISE)
        return (int64_t)weight_at(m, w)[tap][r] * low_byte(x[r]);
    for (c = 0; c < COLUMNS; c++)
        if (kind == GEMM_BINARY)
            sum += signs(row[c], (int8_t)low_byte(x[c]));
        else if (kind == GEMM_INT16)
            sum += ((int64_t)weight_at(m, w + 1)[r][c] * 256 + (row[c] & 255)) * x[c];
        else
            sum += (int64_t)row[c] * (high ? shifted(x[c], 8) : low_byte(x[c]));
    return sum;
}

static void add(struct memory *m, int64_t a, int r, int64_t number)
{
    int64_t *sum = &sum_at(m, a)[r];
    *sum = wrapped(*sum + number, ACC_BITS);
}

static void multiply(struct memory *m, const uint32_t *w, int kind)
{
    int64_t n_out = field(w, GEMM_INT8_N_OUT), n_in = field(w, GEMM_INT8_N_IN);
    int64_t second = m->distance[DIST_ACC];
    int64_t first = field(w, GEMM_INT8_UOP), uops = field(w, GEMM_INT8_UOPS);
    int64_t acc_out = field(w, GEMM_INT8_ACC_OUT), acc_in = field(w, GEMM_INT8_ACC_IN);
    int64_t inp_out = field(w, GEMM_INT8_INP_OUT), inp_in = field(w, GEMM_INT8_INP_IN);
    int64_t wgt_out = field(w, GEMM_INT8_WGT_OUT), wgt_in = field(w, GEMM_INT8_WGT_IN);
    int64_t init = field(w, GEMM_INT8_INIT), bm = field(w, GEMM_INT8_BM);
    int64_t u, o, i, a, vector, word, bias;
    int r, pair = kind == GEMM_DUAL_PIXEL || kind == GEMM_DUAL_KERNEL;
    for (u = first; u < first + uops; u++) {
        const uint32_t *op = micro_op_at(m, u);
        int64_t acc = field(op, UOP_ACC), inp = field(op, UOP_INP), wgt = field(op, UOP_WGT);
        int64_t tap = field(op, UOP_TAP), how = field(op, UOP_INIT) ? init : INIT_NONE;
        bias = bm + field(op, UOP_BM);
        for (o = 0; o < n_out; o++)
            for (i = 0; i < n_in; i++) {
                a = acc + o * acc_out + i * acc_in;
                vector = inp + o * inp_out + i * inp_in;
                word = wgt + o * wgt_out + i * wgt_in;
                for (r = 0; r < ROWS; r++) {
                    if (how != INIT_NONE) {
                        sum_at(m, a)[r] = how == INIT_ZERO ? 0 : parameter(m, bias, r);
                        if (pair)
                            sum_at(m, a + second)[r] = how == INIT_ZERO ? 0
                                : parameter(m, bias + (kind == GEMM_DUAL_KERNEL ? GROUP : 0), r);
                    }
                    add(m, a, r, product(m, kind, word, tap, vector, r, 0));
                    if (kind == GEMM_DUAL_PIXEL)
                        add(m, a + second, r, product(m, kind, word, tap, vector, r, 1));
                    if (kind == GEMM_DUAL_KERNEL)
                        add(m, a + second, r,
                            product(m, kind, word + m->distance[DIST_WGT], tap, vector, r, 0));
                }
            }
    }
}

/* ---- ALU ------------------------------------------------------------------------------------- */

static int64_t scaled(int64_t x, int64_t scale, int64_t offset, int mode)
{
    return rounded(x * shifted(scale, 6) + offset, (int)(scale & 63), mode);
}

static void calculate(struct memory *m, const uint32_t *w, int kind)
{
    int64_t first = field(w, ALU_ADD_UOP), uops = field(w, ALU_ADD_UOPS);
    int64_t n_out = field(w, ALU_ADD_N_OUT), n_in = field(w, ALU_ADD_N_IN);
    int64_t dst_out = field(w, ALU_ADD_DST_OUT), dst_in = field(w, ALU_ADD_DST_IN);
    int64_t src_out = field(w, ALU_ADD_SRC_OUT), src_in = field(w, ALU_ADD_SRC_IN);
    int64_t source = field(w, ALU_ADD_SOURCE), imm = field(w, ALU_ADD_IMM);
    int64_t rec = field(w, ALU_ADD_REC), out = field(w, ALU_ADD_OUT);
    int64_t u, o, i, to, at, x, s, y;
    int r, mode = (int)field(w, ALU_ADD_ROUND), shift = (int)(imm & 63);
    for (u = first; u < first + uops; u++)
        for (o = 0; o < n_out; o++)
            for (i = 0; i < n_in; i++) {
                to = field(micro_op_at(m, u), UOP_ACC) + o * dst_out + i * dst_in;
                at = field(micro_op_at(m, u), UOP_INP) + o * src_out + i * src_in;
                for (r = 0; r < ROWS; r++) {
                    x = sum_at(m, to)[r];
                    s = imm;
                    if (kind <= ALU_MOV && source == SOURCE_ACCUMULATOR)
                        s = sum_at(m, at)[r];
                    else if (kind <= ALU_MOV && source == SOURCE_PARAMETERS)
                        s = parameter(m, at, r);
                    switch (kind) {
                    case ALU_ADD: y = x + s; break;
                    case ALU_MAX: y = x > s ? x : s; break;
                    case ALU_MIN: y = x < s ? x : s; break;
                    case ALU_MOV: y = s; break;
                    case ALU_RSHR: y = rounded(x, shift, mode); break;
                    case ALU_SHL: y = (int64_t)((uint64_t)x << shift); break;
                    case ALU_RMUL:
                        y = scaled(wrapped(x, 32), parameter(m, rec + 1, r), 0, mode);
                        y = clamped(y, -2147483647 - 1, 2147483647);
                        break;
                    case ALU_MUL:
                        y = wrapped(x, 32) * wrapped(sum_at(m, at)[r], FACTOR_BITS);
                        break;
                    default:
                        y = wrapped(wrapped(x, 32) * parameter(m, rec, 0), ACC_BITS)
                            + wrapped(wrapped(sum_at(m, at)[r], 32) * parameter(m, rec, 1),
                                      ACC_BITS)
                            + parameter(m, rec, 2);
                    }
                    y = wrapped(y, ACC_BITS);
                    sum_at(m, to)[r] = y;
                    if (out)
                        result_at(m, to)[r] = (int16_t)wrapped(y, DUAL ? 16 : 8);
                }
            }
}

/* An entry of a table: low bits of a lane first. */
static int64_t table_entry(struct memory *m, int64_t table, int number)
{
    int bits = DUAL ? 16 : 8, each = 32 / bits;
    return wrapped(shifted(parameter(m, table, number / each), number % each * bits), bits);
}

static void requantise(struct memory *m, const uint32_t *w, int kind)
{
    int64_t dst = field(w, RQ_RQ_DST), rec = field(w, RQ_RQ_REC), out = field(w, RQ_RQ_OUT);
    int64_t dst_out = field(w, RQ_RQ_DST_OUT), dst_in = field(w, RQ_RQ_DST_IN);
    int64_t flags = parameter(m, rec, RECORD_FLAGS), offsets = flags & 1, leaks = flags >> 1 & 1;
    int64_t o, i, to, at, t, y;
    int r, mode = (int)(parameter(m, rec, RECORD_ROUNDING) & 3);
    for (o = 0; o < field(w, RQ_RQ_N_OUT); o++)
        for (i = 0; i < field(w, RQ_RQ_N_IN); i++) {
            to = dst + o * dst_out + i * dst_in;
            for (r = 0; r < ROWS; r++) {
                at = rec + 1 + o * (1 + offsets + leaks) * GROUP;
                t = rounded(sum_at(m, to)[r], (int)(parameter(m, rec, RECORD_P) & 63), mode);
                t = wrapped(t, 32);
                y = offsets ? parameter(m, at + GROUP, r) : 0;
                if (kind == RQ_LEAKY && leaks && t < 0)
                    at += (1 + offsets) * GROUP;
                y = scaled(t, parameter(m, at, r), y, mode) + parameter(m, rec, RECORD_Z);
                y = clamped(y, parameter(m, rec, RECORD_LO), parameter(m, rec, RECORD_HI));
                if (kind == RQ_LOOKUP)
                    y = table_entry(m, field(w, RQ_RQ_TABLE), (int)(y & 255));
                sum_at(m, to)[r] = y;
                if (out)
                    result_at(m, to)[r] = (int16_t)wrapped(y, DUAL ? 16 : 8);
            }
        }
}

static void threshold(struct memory *m, const uint32_t *w)
{
    int64_t n_in = field(w, RQ_RQ_N_IN), rec = field(w, RQ_RQ_REC), o, i, from, number;
    int r, bit, blocks = 8 * COLUMNS / ROWS;
    for (o = 0; o < field(w, RQ_RQ_N_OUT); o++)
        for (i = 0; i < n_in; i++) {
            from = field(w, RQ_RQ_DST) + o * field(w, RQ_RQ_DST_OUT)
                   + i * field(w, RQ_RQ_DST_IN);
            number = field(w, RQ_RQ_BLOCK) + o;
            for (r = 0; r < ROWS; r++) {
                int16_t *lanes = result_at(m, field(w, RQ_RQ_BITS) + number / blocks * n_in + i);
                int place = (int)(number % blocks) * ROWS + r;
                int64_t at = rec + 1 + 2 * GROUP * o;
                int flip = (int)(parameter(m, at + GROUP, r) & 1);
                bit = (sum_at(m, from)[r] >= parameter(m, at, r)) != flip;
                lanes[place / 8] = (int16_t)wrapped(
                    (lanes[place / 8] & 255 & ~(1 << place % 8)) | bit << place % 8, 8);
            }
        }
}

/* ---- STORE ----------------------------------------------------------------------------------- */

static void send(int64_t address, const int8_t *vector)
{
    size_t at = in(npu_sent_count, HOST_VECTORS, "too many vectors for the host");
    npu_sent[at].core = running;
    npu_sent[at].address = address;
    memcpy(npu_sent[at].vector, vector, COLUMNS);
    npu_sent_count++;
}

static void store(struct memory *m, const uint32_t *w, int kind)
{
    int64_t src = field(w, STORE_LOCAL_SRC), c_size = field(w, STORE_LOCAL_C_SIZE);
    int64_t x_size = field(w, STORE_LOCAL_X_SIZE), y_size = field(w, STORE_LOCAL_Y_SIZE);
    int64_t x_stride = field(w, STORE_LOCAL_X_STRIDE), y_stride = field(w, STORE_LOCAL_Y_STRIDE);
    int64_t base = m->base[BASE_STORE] + field(w, STORE_LOCAL_DST);
    int64_t times = 1 + field(w, STORE_LOCAL_UP), slots = field(w, STORE_LOCAL_PP);
    int whole = kind == STORE_PARTIAL || kind == STORE_PARTIAL_HOST;
    int64_t high = DUAL && !field(w, STORE_LOCAL_BITS) && !whole ? m->distance[DIST_STORE] : 0;
    int64_t width = whole ? SUM_BYTES : 1, parts = width + (high > 0);
    int64_t wrap = field(w, STORE_LOCAL_WRAP) ? field(w, STORE_LOCAL_WRAP) : x_size;
    int64_t c, y, x, k, copy, at, entry, written = 0;
    struct memory *to = kind == STORE_REMOTE
        ? memory_of(field(w, STORE_LOCAL_X), field(w, STORE_LOCAL_Y)) : m;
    int8_t vector[COLUMNS];
    int lane;
    if (slots > 0 && odd)
        base += (int64_t)1 << (slots + 2);
    for (c = 0; c < c_size; c++)
        for (y = 0; y < y_size; y++)
            for (x = 0; x < x_size; x++)
                for (k = 0; k < parts; k++) {
                    entry = src + (c * y_size + y) * x_size + x;
                    for (lane = 0; lane < COLUMNS; lane++) {
                        int64_t place = k * COLUMNS + lane;
                        int64_t byte = whole
                            ? shifted(sum_at(m, entry)[place / width], (int)(place % width * 8))
                            : shifted(result_at(m, entry)[lane], (int)(8 * k));
                        vector[lane] = (int8_t)wrapped(byte, 8);
                    }
                    for (copy = 0; copy < times * times; copy++, written++) {
                        at = base + (times * y + copy / times - (x >= wrap)) * y_stride
                             + (times * x + copy % times) * x_stride + c * width
                             + (high > 0 ? high * k : k);
                        if (kind == STORE_HOST || kind == STORE_PARTIAL_HOST)
                            send(at, vector);
                        else
                            memcpy(map_at(to, at), vector, COLUMNS);
                    }
                }
    if (kind == STORE_REMOTE)
        to->streams[field(w, STORE_LOCAL_STREAM)] += written;
}

/* ---- control --------------------------------------------------------------------------------- */

static int64_t *register_of(struct memory *m, int64_t space)
{
    return &m->base[in(space, BASES, "unknown base register")];
}

/* Return 0 if the core must wait or is at its end. */
static int control(struct memory *m, const uint32_t *w, int kind)
{
    int64_t *counted = &m->streams[field(w, CTRL_NOP_STREAM)], count = field(w, CTRL_NOP_COUNT);
    switch (kind) {
    case CTRL_WAIT:
        if (*counted < count)
            return 0;
        *counted -= count;
        break;
    case CTRL_SEND:
        if (field(w, CTRL_NOP_HOST))
            break; /* here the host sends one frame at a time: it needs no credits */
        memory_of(field(w, CTRL_NOP_X), field(w, CTRL_NOP_Y))
            ->streams[field(w, CTRL_NOP_STREAM)] += count;
        break;
    case CTRL_END:
        return 0;
    case CTRL_BASE:
        *register_of(m, field(w, CTRL_BASE_SPACE)) = field(w, CTRL_BASE_VALUE);
        break;
    case CTRL_DIST:
        switch (field(w, CTRL_DIST_QUEUE)) {
        case QUEUE_LOAD: m->distance[DIST_LOAD] = field(w, CTRL_DIST_SRC); break;
        case QUEUE_STORE: m->distance[DIST_STORE] = field(w, CTRL_DIST_SRC); break;
        case QUEUE_GEMM:
            m->distance[DIST_ACC] = field(w, CTRL_DIST_ACC);
            m->distance[DIST_WGT] = field(w, CTRL_DIST_WGT);
            break;
        default: break;
        }
        break;
    default: break;
    }
    return 1;
}

/* Run an instruction; return 0 if the core must wait or is at its end. */
static int execute(struct memory *m, const uint32_t *w)
{
    int kind = (int)field(w, HEAD_KIND);
    switch (field(w, HEAD_OP)) {
    case OP_CTRL: return control(m, w, kind);
    case OP_LOAD:
        if (kind == LOAD_BIAS)
            load_bias(m, w);
        else if (kind == LOAD_WIN)
            load_windows(m, w);
        else if (kind == LOAD_WSTREAM)
            load_weights(m, w);
        else if (kind == LOAD_TABLE)
            load_table(m, w);
        else
            load_area(m, w, kind);
        break;
    case OP_GEMM: multiply(m, w, kind); break;
    case OP_ALU: calculate(m, w, kind); break;
    case OP_RQ:
        if (kind == RQ_THRESHOLD)
            threshold(m, w);
        else
            requantise(m, w, kind);
        break;
    case OP_STORE: store(m, w, kind); break;
    default: stop("unknown instruction");
    }
    return 1;
}

static int is_end(const uint32_t *w)
{
    return field(w, HEAD_OP) == OP_CTRL && field(w, HEAD_KIND) == CTRL_END;
}

void npu_reset(int frame)
{
    int core, run;
    const int8_t *maps;
    odd = frame & 1;
    npu_sent_count = 0;
    memset(memories, 0, sizeof memories);
    for (core = 0; core < CORES; core++) {
        const struct core *from = &cores[core];
        struct memory *m = &memories[core];
        for (run = 0, maps = from->maps; run < from->runs; run++) {
            size_t bytes = (size_t)from->preset[run][1] * COLUMNS;
            memcpy(m->maps[from->preset[run][0]], maps, bytes);
            maps += bytes;
        }
        memcpy(m->weights, from->weights, (size_t)from->weight_words * ROWS * COLUMNS);
        memcpy(m->parameters, from->parameters, (size_t)from->parameter_words * LANES * 4);
        memcpy(m->micro_ops, from->micro_ops, (size_t)from->micro_op_words * 8);
        memcpy(m->headers, from->headers, (size_t)from->header_words * 8);
    }
}

void npu_run(int function)
{
    int going = 1, waiting;
    for (running = 0; running < CORES; running++)
        memories[running].next = cores[running].begin[function];
    while (going) {
        going = 0;
        for (running = 0; running < CORES; running++) {
            struct memory *m = &memories[running];
            while (execute(m, cores[running].instructions[m->next])) {
                m->next++;
                going = 1;
            }
        }
    }
    for (running = waiting = 0; running < CORES; running++)
        waiting += !is_end(cores[running].instructions[memories[running].next]);
    for (running = 0; waiting && running < CORES; running++)
        if (!is_end(cores[running].instructions[memories[running].next]))
            stop("deadlock: the awaited stream never arrives");
}

int8_t *npu_map(int core, int32_t address)
{
    running = core;
    return map_at(&memories[core], address);
}
