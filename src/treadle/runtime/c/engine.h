/* Executes one rank's part of a program with MPI messages.

   A unit of work is one slice of one operation. Slices are opened in order, a window of them at a time: all
   ranks can always go on with the lowest slice that is not complete, so that a window adds no deadlock.
   Receives that store go straight into their target once the units that they wait for are complete.
   Receives that reduce are posted into spare memory in list order, a few ahead of the additions, so that what
   has arrived is still in the cache when it is added. Too few could make ranks wait in a circle: when nothing
   has arrived for a while there may be twice as many. Sends that another operation waits for go from a copy:
   they complete at once, as the program demands, even where MPI waits for the receiver. */
#ifndef TREADLE_ENGINE_H
#define TREADLE_ENGINE_H

#include "memory.h"

enum { LEAST_AHEAD = 2 };
#define STALL_S 0.05

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
    const Memory *memory;
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
    Requests receives, sends;
    int *indices;                     /* of what MPI_Waitsome found */
    Spare *spares;
    int64_t n_spares, spare_capacity, free_spare, spare_bytes;
    int64_t used_spares;              /* that hold or await a message */
    char **kept;
    int64_t n_kept, kept_capacity;
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
    return (Piece){.chunk = operation->first, .past_chunk = operation->first + operation->count,
                   .slice = unit / engine->width, .slices = engine->memory->slices};
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
        engine->spares[spare].data = allocate_large(engine->spare_bytes, 1);
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

static void complete(Engine *engine, int64_t unit) {
    const Program *program = engine->memory->program;
    const Operation *operation = &program->operations[unit % engine->width];
    int64_t slice = unit / engine->width, base = unit - unit % engine->width;
    engine->left--;
    engine->slice_left[slice]--;
    while (engine->lowest < engine->opened && engine->slice_left[engine->lowest] == 0) {
        engine->lowest++;
    }
    for (int64_t i = 0; i < operation->n_followers; i++) {
        int64_t follower = base + program->followers[operation->follower_offset + i];
        if (--engine->missing[follower] == 0) {
            engine->ready[engine->ready_tail++] = follower;
        }
    }
}

static void add_values(const Engine *engine, char *target, const char *source, const char *arrived,
                       int64_t n) {
    if (!engine->memory->has_data) {
        return;
    }
    if (engine->memory->type == FLOAT32) {
        const float *one = (const float *)source, *other = (const float *)arrived;
        float *sum = (float *)target;
        for (int64_t i = 0; i < n; i++) {
            sum[i] = one[i] + other[i];
        }
    } else {
        const uint32_t *one = (const uint32_t *)source, *other = (const uint32_t *)arrived;
        uint32_t *sum = (uint32_t *)target; /* unsigned: wrong programs may overflow */
        for (int64_t i = 0; i < n; i++) {
            sum[i] = one[i] + other[i];
        }
    }
}

/* The unit has started and its messages are there. */
static void reduce(Engine *engine, int64_t unit) {
    const Memory *memory = engine->memory;
    const Operation *operation = &memory->program->operations[unit % engine->width];
    int64_t source = range_of(engine, operation, operation->source);
    int64_t target = range_of(engine, operation, operation->target);
    const char *arrived = engine->spares[engine->spare_of[unit]].data;
    for (Piece piece = first_piece(engine, unit); next_piece(memory, &piece);) {
        int64_t n = piece.past - piece.first;
        add_values(engine, address(memory, operation->target, target, piece.first),
                   address(memory, operation->source, source, piece.first), arrived, n);
        arrived += memory->has_data ? n * ELEMENT_BYTES : 0;
    }
    give_back_spare(engine, engine->spare_of[unit]);
    engine->spare_of[unit] = -1;
    complete(engine, unit);
}

static void arrived(Engine *engine, int64_t unit) {
    if (engine->memory->program->operations[unit % engine->width].kind == RECEIVE) {
        complete(engine, unit);
    } else if (engine->started[unit]) {
        reduce(engine, unit);
    }
}

/* Post the unit's receives into its target, or into spare memory if it reduces. */
static void post(Engine *engine, int64_t unit) {
    const Memory *memory = engine->memory;
    const Operation *operation = &memory->program->operations[unit % engine->width];
    int reduces = operation->kind == RECEIVE_REDUCE;
    int64_t range = reduces ? 0 : range_of(engine, operation, operation->target);
    char *spare = NULL;
    if (reduces) {
        engine->spare_of[unit] = take_spare(engine);
        spare = engine->spares[engine->spare_of[unit]].data;
    }
    for (Piece piece = first_piece(engine, unit); next_piece(memory, &piece);) {
        int64_t n = piece.past - piece.first;
        char *at = reduces ? spare : address(memory, operation->target, range, piece.first);
        MPI_Request request;
        MPI_Irecv(at, (int)n, engine->type, operation->peer, tag_of(engine, unit), MPI_COMM_WORLD, &request);
        add_request(&engine->receives, request, unit);
        engine->outstanding[unit]++;
        spare += reduces && memory->has_data ? n * ELEMENT_BYTES : 0;
    }
    if (engine->outstanding[unit] == 0) {
        arrived(engine, unit);
    }
}

static const char *keep(Engine *engine, const char *data, int64_t bytes) {
    grow((void **)&engine->kept, engine->n_kept, &engine->kept_capacity, sizeof(char *));
    char *copy = allocate(bytes, 1);
    memcpy(copy, data, (size_t)bytes);
    engine->kept[engine->n_kept++] = copy;
    return copy;
}

static void send(Engine *engine, int64_t unit) {
    const Memory *memory = engine->memory;
    const Operation *operation = &memory->program->operations[unit % engine->width];
    int64_t range = range_of(engine, operation, operation->source);
    for (Piece piece = first_piece(engine, unit); next_piece(memory, &piece);) {
        int64_t n = piece.past - piece.first;
        const char *data = address(memory, operation->source, range, piece.first);
        if (operation->is_awaited && memory->has_data) {
            data = keep(engine, data, n * ELEMENT_BYTES);
        }
        MPI_Request request;
        MPI_Isend(data, (int)n, engine->type, operation->peer, tag_of(engine, unit), MPI_COMM_WORLD,
                  &request);
        add_request(&engine->sends, request, unit);
    }
    complete(engine, unit);
}

static void copy(Engine *engine, int64_t unit) {
    const Memory *memory = engine->memory;
    const Operation *operation = &memory->program->operations[unit % engine->width];
    int64_t source = range_of(engine, operation, operation->source);
    int64_t target = range_of(engine, operation, operation->target);
    for (Piece piece = first_piece(engine, unit); memory->has_data && next_piece(memory, &piece);) {
        memmove(address(memory, operation->target, target, piece.first),
                address(memory, operation->source, source, piece.first),
                (size_t)(piece.past - piece.first) * ELEMENT_BYTES);
    }
    complete(engine, unit);
}

/* All that the unit waits for is complete. */
static void start(Engine *engine, int64_t unit) {
    engine->started[unit] = 1;
    switch (engine->memory->program->operations[unit % engine->width].kind) {
    case SEND:
        send(engine, unit);
        break;
    case COPY:
        copy(engine, unit);
        break;
    case RECEIVE:
        post(engine, unit);
        break;
    default:
        if (engine->spare_of[unit] >= 0 && engine->outstanding[unit] == 0) {
            reduce(engine, unit);
        }
    }
}

static void open_slice(Engine *engine) {
    const Program *program = engine->memory->program;
    int64_t base = engine->opened++ * engine->width;
    for (int receives = 1; receives >= 0; receives--) { /* receives first: their messages may be there */
        for (int64_t place = 0; place < engine->width; place++) {
            const Operation *operation = &program->operations[place];
            int waits = operation[1].wait_offset > operation->wait_offset;
            if (!waits && (operation->kind == RECEIVE) == receives) {
                engine->ready[engine->ready_tail++] = base + place;
            }
        }
    }
}

static void open_slices(Engine *engine) {
    while (engine->opened < engine->memory->slices && engine->opened < engine->lowest + engine->window) {
        open_slice(engine);
        while (engine->lowest < engine->opened && engine->slice_left[engine->lowest] == 0) {
            engine->lowest++; /* a rank without operations */
        }
    }
    while (engine->next_reducing < engine->n_reducing * engine->opened
           && engine->used_spares < engine->ahead) {
        int64_t number = engine->next_reducing++;
        post(engine, number / engine->n_reducing * engine->width
                         + engine->reducing[number % engine->n_reducing]);
    }
}

/* Wait until at least one message has arrived, or (0) for so long that more receives should be posted. */
static int wait_some(Engine *engine) {
    Requests *list = &engine->receives;
    int n = 0;
    if (engine->next_reducing == engine->n_reducing * engine->memory->slices || engine->ahead == INT64_MAX) {
        MPI_Waitsome((int)list->n, list->requests, &n, engine->indices, MPI_STATUSES_IGNORE);
        return n;
    }
    double begin = MPI_Wtime();
    while (n == 0 && MPI_Wtime() - begin < STALL_S) {
        MPI_Testsome((int)list->n, list->requests, &n, engine->indices, MPI_STATUSES_IGNORE);
        n = n == MPI_UNDEFINED ? 0 : n;
    }
    return n;
}

static void collect(Engine *engine) {
    Requests *list = &engine->receives;
    if (list->n == 0) {
        fail("rank %d: nothing is under way and %lld units are left: deadlock",
             engine->memory->program->rank, (long long)engine->left);
    }
    int n = wait_some(engine);
    if (n == 0) {
        engine->ahead *= 2;
        return;
    }
    int64_t kept = 0;
    int64_t *done = engine->ready + engine->n_units; /* units of the requests that were found */
    for (int i = 0; i < n; i++) {
        done[i] = list->units[engine->indices[i]];
        list->units[engine->indices[i]] = -1;
    }
    for (int64_t i = 0; i < list->n; i++) {
        if (list->units[i] >= 0) {
            list->requests[kept] = list->requests[i];
            list->units[kept++] = list->units[i];
        }
    }
    list->n = kept;
    for (int i = 0; i < n; i++) {
        if (--engine->outstanding[done[i]] == 0) {
            arrived(engine, done[i]);
        }
    }
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
    engine->receives.n = engine->sends.n = 0;
}

/* Execute once, from INPUT to OUTPUT; all ranks call it after `reset`. */
static void execute(Engine *engine) {
    open_slices(engine);
    while (engine->left > 0) {
        while (engine->ready_head < engine->ready_tail) {
            start(engine, engine->ready[engine->ready_head++]);
        }
        open_slices(engine);
        if (engine->left > 0 && engine->ready_head == engine->ready_tail) {
            collect(engine);
        }
    }
    MPI_Waitall((int)engine->sends.n, engine->sends.requests, MPI_STATUSES_IGNORE);
    while (engine->n_kept > 0) {
        free(engine->kept[--engine->n_kept]);
    }
}

/* `ahead_bytes`: of receives that reduce, posted before their turn; 0: no limit, and no polling. */
static Engine make_engine(const Memory *memory, int64_t window, int64_t ahead_bytes) {
    const Program *program = memory->program;
    Engine engine = {.memory = memory, .width = program->n_operations, .window = window,
                     .free_spare = -1,
                     .type = memory->type == FLOAT32 ? MPI_FLOAT : MPI_INT32_T};
    int64_t n = engine.n_units = program->n_operations * memory->slices, pieces = 0;
    engine.reducing = allocate(engine.width, sizeof(int64_t));
    for (int64_t place = 0; place < engine.width; place++) {
        const Operation *operation = &program->operations[place];
        int64_t last = (memory->slices - 1) * engine.width + place; /* no slice has more but for rounding */
        int64_t bytes = (unit_elements(&engine, last) + operation->count) * ELEMENT_BYTES;
        if (operation->kind == RECEIVE_REDUCE) {
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
    engine.ready = allocate(n + pieces, sizeof(int64_t));
    engine.slice_left = allocate(memory->slices, sizeof(int64_t));
    engine.indices = allocate(pieces, sizeof(int));
    return engine;
}

static void free_engine(Engine *engine) {
    for (int64_t i = 0; i < engine->n_spares; i++) {
        free(engine->spares[i].data);
    }
    free(engine->spares);
    free(engine->reducing);
    free(engine->missing);
    free(engine->outstanding);
    free(engine->spare_of);
    free(engine->started);
    free(engine->ready);
    free(engine->slice_left);
    free(engine->indices);
    free(engine->receives.requests);
    free(engine->receives.units);
    free(engine->sends.requests);
    free(engine->sends.units);
    free(engine->kept);
}

#endif
