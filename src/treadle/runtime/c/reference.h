/* MPI's own collective on the program's buffers. */
#ifndef TREADLE_REFERENCE_H
#define TREADLE_REFERENCE_H

#include "memory.h"

/* Elements that go to and come from each rank, and where these begin. */
typedef struct {
    int *send_counts, *send_starts, *receive_counts, *receive_starts;
} Reference;

static int fit(int64_t value) {
    if (value > INT32_MAX) {
        fail("MPI's own collective does not take so large a buffer");
    }
    return (int)value;
}

static Reference make_reference(const Memory *memory) {
    const Program *program = memory->program;
    int ranks = program->ranks, rank = program->rank;
    Reference reference = {.send_counts = allocate(ranks, sizeof(int)),
                           .send_starts = allocate(ranks, sizeof(int)),
                           .receive_counts = allocate(ranks, sizeof(int)),
                           .receive_starts = allocate(ranks, sizeof(int))};
    int64_t sent = 0, received = 0;
    for (int64_t peer = 0; peer < ranks; peer++) {
        int64_t out = program->collective == ALLTOALL ? rank * (int64_t)ranks + peer : peer;
        int64_t in = program->collective == ALLTOALL ? peer * (int64_t)ranks + rank : peer;
        int64_t n_out = element(memory, program->shards[out + 1]) - element(memory, program->shards[out]);
        int64_t n_in = element(memory, program->shards[in + 1]) - element(memory, program->shards[in]);
        reference.send_counts[peer] = fit(n_out);
        reference.receive_counts[peer] = fit(n_in);
        reference.send_starts[peer] = fit(sent);
        reference.receive_starts[peer] = fit(received);
        sent += n_out;
        received += n_in;
    }
    return reference;
}

static void call_reference(const Memory *memory, const Reference *r, MPI_Datatype type) {
    const Program *program = memory->program;
    MPI_Comm world = program->communicator;
    int count = (int)memory->count, rank = program->rank, in_place = program->in_place;
    void *output = memory->arrays[OUTPUT], *input = in_place ? MPI_IN_PLACE : memory->arrays[INPUT];
    switch (program->collective) {
    case ALLGATHER:
        MPI_Allgatherv(input, r->send_counts[rank], type, output, r->receive_counts, r->receive_starts, type,
                       world);
        break;
    case REDUCE_SCATTER: /* in place, the sum comes to the beginning of the input */
        MPI_Reduce_scatter(input, in_place ? memory->arrays[INPUT] : output, r->receive_counts, type, MPI_SUM,
                           world);
        break;
    case ALLREDUCE:
        MPI_Allreduce(input, output, count, type, MPI_SUM, world);
        break;
    case BROADCAST:
        MPI_Bcast(output, count, type, program->root, world);
        break;
    case REDUCE:
        MPI_Reduce(rank == program->root ? input : memory->arrays[INPUT], output, count, type, MPI_SUM,
                   program->root, world);
        break;
    default:
        MPI_Alltoallv(input, r->send_counts, r->send_starts, type, output, r->receive_counts,
                      r->receive_starts, type, world);
    }
}

static void free_reference(Reference *reference) {
    free(reference->send_counts);
    free(reference->send_starts);
    free(reference->receive_counts);
    free(reference->receive_starts);
}

#endif
