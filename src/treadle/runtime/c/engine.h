/* Executes one rank's part of a program with MPI messages.

   A unit of work is one slice of one operation. Slices are opened in order, a window of them at a time: all
   ranks can always go on with the lowest slice that is not complete, so that a window adds no deadlock.
   Receives that store go straight into their target once the units that they wait for are complete.
   Receives that reduce are posted into spare memory in list order, a few ahead of the additions, so that what
   has arrived is still in the cache when it is added. Too few could make ranks wait in a circle: when nothing
   has arrived for a while there may be twice as many.
   A program's sends complete without the receiver. One that another operation waits for goes from a copy if that
   operation may come before the receive; else the operation waits until the message has left. */
#ifndef TREADLE_ENGINE_H
#define TREADLE_ENGINE_H

#include "state.h"

#define STALL_S 0.05

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

/* The unit has started and what comes from its peer is at `arrived`. */
static void reduce(Engine *engine, int64_t unit, const char *arrived) {
    const Memory *memory = engine->memory;
    const Operation *operation = &memory->program->operations[unit % engine->width];
    int64_t source = range_of(engine, operation, operation->source);
    int64_t target = range_of(engine, operation, operation->target);
    for (Piece piece = first_piece(engine, unit); next_piece(memory, &piece);) {
        int64_t n = piece.past - piece.first;
        add_values(engine, address(memory, operation->target, target, piece.first),
                   address(memory, operation->source, source, piece.first), arrived, n);
        arrived += memory->has_data ? n * ELEMENT_BYTES : 0;
    }
    complete(engine, unit);
}

static void reduce_spare(Engine *engine, int64_t unit) {
    int64_t spare = engine->spare_of[unit];
    engine->spare_of[unit] = -1;
    give_back_spare(engine, spare); /* the next to take it cannot do so before the end of the addition */
    reduce(engine, unit, engine->spares[spare].data);
}

/* The unit has started and its bundle has arrived. */
static void take_from_bundle(Engine *engine, const Bundle *bundle, const Member *member) {
    const char *arrived = bundle->data + member->start * ELEMENT_BYTES;
    if (member->added != NULL) {
        add_values(engine, member->data, member->added, arrived, member->elements);
    } else if (engine->memory->has_data) {
        memcpy(member->data, arrived, (size_t)member->elements * ELEMENT_BYTES);
    }
    complete(engine, member->place);
}

/* All messages of a unit, or a bundle's, have come or gone. */
static void settled(Engine *engine, int64_t unit) {
    if (unit >= engine->n_units) {
        Bundle *bundle = &engine->bundles.bundles[unit - engine->n_units];
        bundle->has_arrived = 1;
        for (int64_t i = bundle->first; i < bundle->past; i++) {
            const Member *member = &engine->bundles.members[i];
            if (engine->started[member->place]) {
                take_from_bundle(engine, bundle, member);
            }
        }
    } else if (engine->memory->program->operations[unit % engine->width].kind != RECEIVE_REDUCE) {
        complete(engine, unit);
    } else if (engine->started[unit]) {
        reduce_spare(engine, unit);
    }
}

static void post_bundles(Engine *engine) {
    for (int64_t i = 0; i < engine->bundles.n; i++) {
        const Bundle *bundle = &engine->bundles.bundles[i];
        if (!bundle->is_send) {
            MPI_Request request;
            MPI_Irecv(bundle->data, (int)bundle->elements, engine->type, bundle->peer, bundle->tag,
                      engine->communicator, &request);
            add_request(&engine->awaited, request, engine->n_units + i);
        }
    }
}

/* One more of the bundle's operations has started; sends are packed, and complete, at once. */
static void start_member(Engine *engine, const Member *member) {
    Bundle *bundle = &engine->bundles.bundles[member->bundle];
    if (!bundle->is_send) {
        if (bundle->has_arrived) {
            take_from_bundle(engine, bundle, member);
        }
        return;
    }
    if (engine->memory->has_data) {
        memcpy(bundle->data + member->start * ELEMENT_BYTES, member->data,
               (size_t)member->elements * ELEMENT_BYTES);
    }
    if (--bundle->missing == 0) {
        MPI_Request request;
        MPI_Isend(bundle->data, (int)bundle->elements, engine->type, bundle->peer, bundle->tag,
                  engine->communicator, &request);
        add_request(&engine->sends, request, -1);
        engine->n_sent++;
    }
    complete(engine, member->place);
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
        MPI_Irecv(at, (int)n, engine->type, operation->peer, tag_of(engine, unit), engine->communicator, &request);
        add_request(&engine->awaited, request, unit);
        engine->outstanding[unit]++;
        spare += reduces && memory->has_data ? n * ELEMENT_BYTES : 0;
    }
    if (engine->outstanding[unit] == 0) {
        settled(engine, unit);
    }
}

static void send(Engine *engine, int64_t unit) {
    const Memory *memory = engine->memory;
    const Operation *operation = &memory->program->operations[unit % engine->width];
    int64_t range = range_of(engine, operation, operation->source);
    int is_copied = operation->is_awaited && (operation->mode == COPIED || engine->copies_all);
    int is_settled = is_copied || !operation->is_awaited;
    for (Piece piece = first_piece(engine, unit); next_piece(memory, &piece);) {
        int64_t n = piece.past - piece.first;
        const char *data = address(memory, operation->source, range, piece.first);
        if (is_copied && memory->has_data) {
            data = keep(engine, data, n * ELEMENT_BYTES);
        }
        MPI_Request request;
        MPI_Isend(data, (int)n, engine->type, operation->peer, tag_of(engine, unit), engine->communicator,
                  &request);
        add_request(is_settled ? &engine->sends : &engine->awaited, request, unit);
        engine->outstanding[unit]++;
        engine->n_sent++;
    }
    if (is_settled || engine->outstanding[unit] == 0) {
        complete(engine, unit);
    }
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
    int64_t member = engine->bundles.member_of[unit % engine->width];
    engine->started[unit] = 1;
    if (member >= 0) {
        start_member(engine, &engine->bundles.members[member]);
        return;
    }
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
            reduce_spare(engine, unit);
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

/* Wait until at least one message has come or gone, or (0) for so long that more receives should be posted. */
static int wait_some(Engine *engine) {
    Requests *list = &engine->awaited;
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
    Requests *list = &engine->awaited;
    if (list->n == 0) {
        fail("rank %d: nothing is under way and %lld units are left: deadlock",
             engine->memory->program->rank, (long long)engine->left);
    }
    int n = wait_some(engine);
    if (n == 0) {
        engine->ahead *= 2;
        return;
    }
    for (int i = 0; i < n; i++) {
        engine->done[i] = list->units[engine->indices[i]];
        list->units[engine->indices[i]] = -1;
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < list->n; i++) {
        if (list->units[i] >= 0) {
            list->requests[kept] = list->requests[i];
            list->units[kept++] = list->units[i];
        }
    }
    list->n = kept;
    for (int i = 0; i < n; i++) {
        int64_t unit = engine->done[i];
        if (unit >= engine->n_units || --engine->outstanding[unit] == 0) {
            settled(engine, unit);
        }
    }
}

/* Execute once, from INPUT to OUTPUT; all ranks call it after `reset`. */
static void execute(Engine *engine) {
    post_bundles(engine);
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
}

#endif
