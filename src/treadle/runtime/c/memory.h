/* Buffers of one rank at one size: addresses of chunks and slices, known inputs, and the check. */
#ifndef TREADLE_MEMORY_H
#define TREADLE_MEMORY_H

#include "reader.h"

enum { ELEMENT_BYTES = 4 };
enum { LONG_PERIOD = 65521, SHORT_PERIOD = 1021, FEW_RANKS = 256 };

typedef enum { FLOAT32, INT32 } ElementType;

typedef struct {
    const Program *program;
    ElementType type;
    int64_t count;              /* elements of the collective's whole buffer */
    int64_t slices;             /* slice s of S of n elements is floor(s n / S) up to floor((s + 1) n / S) */
    int has_data;               /* 0: all pieces share one spare buffer, and nothing is checked */
    char *arrays[BUFFERS];      /* what a buffer's ranges hold, one after another */
    char *allocated[BUFFERS];
    int64_t *bases[BUFFERS];    /* of each range: its first element minus its place in the array */
    int64_t lengths[BUFFERS];   /* elements */
} Memory;

/* Inputs repeat after `period` elements: rank r has values[r * period + g % period] as element g. */
typedef struct {
    int64_t period;
    int32_t *values, *sums;
} Pattern;

static int64_t scaled(int64_t part, int64_t size, int64_t whole) {
    return (int64_t)((__int128)part * size / whole);
}

/* First element of a chunk. */
static int64_t element(const Memory *memory, int64_t chunk) {
    return scaled(chunk, memory->count, memory->program->chunks);
}

static char *address(const Memory *memory, int buffer, int64_t range, int64_t first_element) {
    if (!memory->has_data) {
        return memory->arrays[INPUT];
    }
    return memory->arrays[buffer] + (first_element - memory->bases[buffer][range]) * ELEMENT_BYTES;
}

static int64_t lay_out(Memory *memory, int buffer) {
    const Program *program = memory->program;
    int64_t place = 0;
    memory->bases[buffer] = allocate(program->n_ranges[buffer], sizeof(int64_t));
    for (int64_t i = 0; i < program->n_ranges[buffer]; i++) {
        Range range = program->ranges[buffer][i];
        memory->bases[buffer][i] = element(memory, range.first) - place;
        place += element(memory, range.past) - element(memory, range.first);
    }
    return memory->lengths[buffer] = place;
}

/* The most elements of one message. */
static int64_t longest_piece(const Program *program, int64_t count, int64_t slices) {
    int64_t longest = 0;
    for (int64_t i = 0; i < program->n_operations; i++) {
        Operation o = program->operations[i];
        int is_whole = slices == 1 || o.mode == WHOLE;
        int64_t past = is_whole ? o.first + o.count : o.first + 1;
        int64_t length = scaled(past, count, program->chunks) - scaled(o.first, count, program->chunks) + 1;
        length = is_whole ? length : length / slices + 1;
        longest = length > longest ? length : longest;
    }
    return longest;
}

static Memory make_memory(const Program *program, ElementType type, int64_t count, int64_t slices,
                          int has_data) {
    Memory memory = {.program = program, .type = type, .count = count, .slices = slices,
                     .has_data = has_data};
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        lay_out(&memory, buffer);
    }
    if (!has_data) {
        memory.allocated[INPUT] = allocate(longest_piece(program, count, slices), ELEMENT_BYTES);
        memory.arrays[INPUT] = memory.allocated[INPUT];
        return memory;
    }
    int large = memory.lengths[INPUT] > memory.lengths[OUTPUT] ? INPUT : OUTPUT, small = 1 - large;
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        if (!(program->in_place && buffer == small)) {
            memory.allocated[buffer] = (buffer == SCRATCH ? allocate_own : allocate_large)(
                memory.lengths[buffer], ELEMENT_BYTES);
            memory.arrays[buffer] = memory.allocated[buffer];
        }
    }
    if (program->in_place) { /* one of the two covers the other */
        int64_t ahead = program->n_ranges[small] > 0 ? memory.bases[small][0] - memory.bases[large][0] : 0;
        memory.arrays[small] = memory.arrays[large] + ahead * ELEMENT_BYTES;
    }
    return memory;
}

static void free_memory(Memory *memory) {
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        free(memory->allocated[buffer]);
        free(memory->bases[buffer]);
    }
}

/* Integers of at most 8 bits, so that float32 adds those of 2^16 ranks exactly in any order. */
static Pattern make_pattern(int ranks, int64_t count, int group) {
    int64_t period = ranks <= FEW_RANKS ? LONG_PERIOD : SHORT_PERIOD;
    Pattern pattern = {.period = count < period ? (count > 0 ? count : 1) : period};
    pattern.values = allocate(ranks * pattern.period, sizeof(int32_t));
    pattern.sums = allocate(pattern.period, sizeof(int32_t));
    uint64_t state = 0x9e3779b97f4a7c15u * (2 * (uint64_t)group + 1); /* other data for every group */
    for (int rank = 0; rank < ranks; rank++) {
        for (int64_t i = 0; i < pattern.period; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int32_t value = (int32_t)(state >> 56) - 128;
            pattern.values[rank * pattern.period + i] = value;
            pattern.sums[i] += value;
        }
    }
    return pattern;
}

static void store(const Memory *memory, char *at, int32_t value) {
    if (memory->type == FLOAT32) {
        float number = (float)value;
        memcpy(at, &number, sizeof number);
    } else {
        memcpy(at, &value, sizeof value);
    }
}

static void fill_input(const Memory *memory, const Pattern *pattern) {
    const Program *program = memory->program;
    const int32_t *values = pattern->values + program->rank * pattern->period;
    for (int64_t i = 0; i < program->n_ranges[INPUT]; i++) {
        int64_t first = element(memory, program->ranges[INPUT][i].first);
        int64_t past = element(memory, program->ranges[INPUT][i].past);
        char *at = address(memory, INPUT, i, first);
        for (int64_t g = first; g < past; g++, at += ELEMENT_BYTES) {
            store(memory, at, values[g % pattern->period]);
        }
    }
}

/* A NaN, or an integer that no sum reaches. */
static void poison(const Memory *memory) {
    for (int buffer = OUTPUT; buffer <= SCRATCH; buffer++) {
        memset(memory->arrays[buffer], 0x7f, (size_t)memory->lengths[buffer] * ELEMENT_BYTES);
        for (int64_t i = 0; memory->type == FLOAT32 && i < memory->lengths[buffer]; i++) {
            memset(memory->arrays[buffer] + i * ELEMENT_BYTES, 0xff, ELEMENT_BYTES);
        }
    }
}

/* Elements of chunks [first, past) of OUTPUT that differ from `values`, which repeat. */
static int64_t count_differing(const Memory *memory, const Pattern *pattern, const int32_t *values,
                               Range chunks) {
    int64_t wrong = 0;
    if (chunks.first == chunks.past) {
        return 0;
    }
    int64_t range = find_range(memory->program, OUTPUT, chunks.first, chunks.past - chunks.first);
    if (range < 0) {
        fail("rank %d: its output lacks chunks %lld to %lld", memory->program->rank,
             (long long)chunks.first, (long long)chunks.past - 1);
    }
    int64_t first = element(memory, chunks.first), past = element(memory, chunks.past);
    const char *at = address(memory, OUTPUT, range, first);
    for (int64_t g = first; g < past; g++, at += ELEMENT_BYTES) {
        char right[ELEMENT_BYTES];
        store(memory, right, values[g % pattern->period]);
        wrong += memcmp(at, right, ELEMENT_BYTES) != 0;
    }
    return wrong;
}

/* Elements of this rank's OUTPUT that are not what the collective's definition asks for. */
static int64_t count_wrong(const Memory *memory, const Pattern *pattern) {
    const Program *program = memory->program;
    const int64_t *shards = program->shards;
    Range all = {0, program->chunks};
    int rank = program->rank, ranks = program->ranks;
    switch (program->collective) {
    case ALLREDUCE:
        return count_differing(memory, pattern, pattern->sums, all);
    case REDUCE:
        return rank == program->root ? count_differing(memory, pattern, pattern->sums, all) : 0;
    case BROADCAST:
        return count_differing(memory, pattern, pattern->values + program->root * pattern->period, all);
    case REDUCE_SCATTER:
        return count_differing(memory, pattern, pattern->sums, (Range){shards[rank], shards[rank + 1]});
    default:
        break;
    }
    int64_t wrong = 0;
    for (int64_t owner = 0; owner < ranks; owner++) {
        int64_t shard = program->collective == ALLTOALL ? owner * ranks + rank : owner;
        wrong += count_differing(memory, pattern, pattern->values + owner * pattern->period,
                                 (Range){shards[shard], shards[shard + 1]});
    }
    return wrong;
}

#endif
