/* What one rank's execution has under way: units of work, messages, and spare memory.

   A unit of work is one slice of one operation. */
#ifndef TREADLE_STATE_H
#define TREADLE_STATE_H

#include "bundles.h"

enum { LEAST_AHEAD = 2 };

/* Under way; a unit is an operation's slice or, from n_units on, a bundle. */
typedef struct {
    MPI_Request *requests;
    int64_t *units;
    int64_t n, capacity;
} Requests;

typedef struct {
    char *data;
    int64_t next; /* number of the next free one, or -1 */
} Spare;

typedef struct {
    char *data;
    int64_t bytes;
} Kept;

typedef struct {
    const Memory *memory;
    MPI_Comm communicator;
    MPI_Datatype type;
    int64_t width, n_units;           /* operations, and operations times slices */
    int64_t window;                   /* open slices at most */
    int64_t ahead;                    /* posted receives that reduce, at most */
    int64_t *reducing, n_reducing;    /* operations that reduce, in list order */
    int64_t next_reducing;            /* of all slices: the next one to post */
    int64_t *missing;                 /* of each unit: what it still waits for */
    int64_t *outstanding;             /* of each posted unit: messages that have not arrived */
    int64_t *spare_of;                /* of each posted unit that reduces: its spare memory, or -1 */
    char *started;                    /* of each unit: all that it waits for is complete */
    int64_t *ready, ready_head, ready_tail;
    int64_t *slice_left, lowest, opened, left;
    Bundles bundles;
    Requests awaited, sends;          /* what some unit waits for, and other sends */
    int *indices;                     /* of what MPI_Waitsome found */
    int64_t *done;                    /* its units */
    int copies_all;                   /* of sends that another operation waits for */
    int64_t n_sent;                   /* messages of this run */
    Spare *spares;
    int64_t n_spares, spare_capacity, free_spare, spare_bytes;
    int64_t used_spares;              /* that hold or await a message */
    Kept *kept;                       /* copies that are being sent; their memory is used again */
    int64_t n_kept, n_keeps, kept_capacity;
} Engine;

static void grow(void **items, int64_t n, int64_t *capacity, size_t bytes) {
    if (n < *capacity) {
        return;
    }
    *capacity = *capacity > 0 ? *capacity * 2 : 64;
    void *larger = realloc(*items, (size_t)*capacity * bytes);
    if (larger == NULL) {
        fail("out of memory");
    }
    *items = larger;
}

static void add_request(Requests *list, MPI_Request request, int64_t unit) {
    int64_t capacity = list->capacity;
    grow((void **)&list->requests, list->n, &capacity, sizeof(MPI_Request));
    grow((void **)&list->units, list->n, &list->capacity, sizeof(int64_t));
    list->requests[list->n] = request;
    list->units[list->n++] = unit;
}

/* Contiguous elements of one message. */
typedef struct {
    int64_t first, past, chunk, past_chunk, slice, slices;
} Piece;

static Piece first_piece(const Engine *engine, int64_t unit) {
    const Operation *operation = &engine->memory->program->operations[unit % engine->width];
    int64_t slice = unit / engine->width, past = operation->first + operation->count;
    if (operation->mode == WHOLE) { /* all with the first slice */
        return (Piece){.chunk = slice > 0 ? past : operation->first, .past_chunk = past, .slices = 1};
    }
    return (Piece){.chunk = operation->first, .past_chunk = past, .slice = slice,
                   .slices = engine->memory->slices};
}

/* The next piece that is not empty: all chunks at once, or one chunk's slice after another. */
static int next_piece(const Memory *memory, Piece *piece) {
    while (piece->chunk < piece->past_chunk) {
        int64_t past_chunk = piece->slices == 1 ? piece->past_chunk : piece->chunk + 1;
        int64_t start = element(memory, piece->chunk), length = element(memory, past_chunk) - start;
        piece->chunk = past_chunk;
        piece->first = start + scaled(piece->slice, length, piece->slices);
        piece->past = start + scaled(piece->slice + 1, length, piece->slices);
        if (piece->past > piece->first) {
            return 1;
        }
    }
    return 0;
}

static int64_t unit_elements(const Engine *engine, int64_t unit) {
    int64_t total = 0;
    for (Piece piece = first_piece(engine, unit); next_piece(engine->memory, &piece);) {
        total += piece.past - piece.first;
    }
    return total;
}

static int tag_of(const Engine *engine, int64_t unit) {
    const Program *program = engine->memory->program;
    return (int)(program->operations[unit % engine->width].message * engine->memory->slices
                 + unit / engine->width);
}

static int64_t range_of(const Engine *engine, const Operation *operation, int buffer) {
    return find_range(engine->memory->program, buffer, operation->first, operation->count);
}

static int64_t take_spare(Engine *engine) {
    int64_t spare = engine->free_spare;
    if (spare < 0) {
        grow((void **)&engine->spares, engine->n_spares, &engine->spare_capacity, sizeof(Spare));
        spare = engine->n_spares++;
        engine->spares[spare].data = allocate_own(engine->spare_bytes, 1);
    } else {
        engine->free_spare = engine->spares[spare].next;
    }
    engine->used_spares++;
    return spare;
}

static void give_back_spare(Engine *engine, int64_t spare) {
    engine->spares[spare].next = engine->free_spare;
    engine->free_spare = spare;
    engine->used_spares--;
}

static const char *keep(Engine *engine, const char *data, int64_t bytes) {
    if (engine->n_kept == engine->n_keeps) {
        grow((void **)&engine->kept, engine->n_keeps, &engine->kept_capacity, sizeof(Kept));
        engine->kept[engine->n_keeps++] = (Kept){0};
    }
    Kept *copy = &engine->kept[engine->n_kept++];
    if (copy->bytes < bytes) {
        free(copy->data);
        *copy = (Kept){.data = allocate_own(bytes, 1), .bytes = bytes};
    }
    memcpy(copy->data, data, (size_t)bytes);
    return copy->data;
}

static void reset(Engine *engine) {
    const Operation *operations = engine->memory->program->operations;
    for (int64_t unit = 0; unit < engine->n_units; unit++) {
        const Operation *operation = &operations[unit % engine->width];
        engine->missing[unit] = operation[1].wait_offset - operation->wait_offset;
        engine->outstanding[unit] = 0;
        engine->spare_of[unit] = -1;
        engine->started[unit] = 0;
    }
    for (int64_t slice = 0; slice < engine->memory->slices; slice++) {
        engine->slice_left[slice] = engine->width;
    }
    engine->ready_head = engine->ready_tail = engine->lowest = engine->opened = engine->next_reducing = 0;
    engine->left = engine->n_units;
    engine->awaited.n = engine->sends.n = engine->n_kept = engine->n_sent = 0;
    reset_bundles(&engine->bundles);
}

/* `ahead_bytes`: of receives that reduce, posted before their turn; 0: no limit, and no polling. */
static Engine make_engine(const Memory *memory, Bundles bundles, int64_t window, int64_t ahead_bytes) {
    const Program *program = memory->program;
    Engine engine = {.memory = memory, .communicator = program->communicator,
                     .width = program->n_operations, .window = window,
                     .free_spare = -1, .bundles = bundles,
                     .type = memory->type == FLOAT32 ? MPI_FLOAT : MPI_INT32_T};
    int64_t n = engine.n_units = program->n_operations * memory->slices, pieces = 0;
    engine.reducing = allocate(engine.width, sizeof(int64_t));
    for (int64_t place = 0; place < engine.width; place++) {
        const Operation *operation = &program->operations[place];
        int64_t last = (memory->slices - 1) * engine.width + place; /* no slice has more but for rounding */
        int64_t bytes = (unit_elements(&engine, last) + operation->count) * ELEMENT_BYTES;
        if (operation->kind == RECEIVE_REDUCE && bundles.member_of[place] < 0) {
            engine.reducing[engine.n_reducing++] = place;
            engine.spare_bytes = bytes > engine.spare_bytes ? bytes : engine.spare_bytes;
        }
        pieces += memory->slices == 1 ? 1 : operation->count * memory->slices;
    }
    if (pieces > INT32_MAX) {
        fail("too many messages; use larger slices");
    }
    engine.ahead = ahead_bytes > 0 ? ahead_bytes / (engine.spare_bytes + 1) + LEAST_AHEAD : INT64_MAX;
    engine.missing = allocate(n, sizeof(int64_t));
    engine.outstanding = allocate(n, sizeof(int64_t));
    engine.spare_of = allocate(n, sizeof(int64_t));
    engine.started = allocate(n, 1);
    engine.ready = allocate(n, sizeof(int64_t));
    engine.slice_left = allocate(memory->slices, sizeof(int64_t));
    engine.indices = allocate(pieces, sizeof(int));
    engine.done = allocate(pieces, sizeof(int64_t));
    return engine;
}

static void free_engine(Engine *engine) {
    for (int64_t i = 0; i < engine->n_spares; i++) {
        free(engine->spares[i].data);
    }
    for (int64_t i = 0; i < engine->n_keeps; i++) {
        free(engine->kept[i].data);
    }
    free_bundles(&engine->bundles);
    free(engine->spares);
    free(engine->reducing);
    free(engine->missing);
    free(engine->outstanding);
    free(engine->spare_of);
    free(engine->started);
    free(engine->ready);
    free(engine->slice_left);
    free(engine->indices);
    free(engine->done);
    free(engine->awaited.requests);
    free(engine->awaited.units);
    free(engine->sends.requests);
    free(engine->sends.units);
    free(engine->kept);
}

#endif
