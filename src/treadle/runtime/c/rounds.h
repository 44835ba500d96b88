/* What the program's dependences alone cost on this host.

   Of the messages of one level none waits for another. In bare rounds a rank sends to every peer, level by level,
   all bytes of that level as one message, and waits for all that comes at that level; nothing is copied, added
   or looked up. The same bytes go between the same ranks over as many hops. */
#ifndef TREADLE_ROUNDS_H
#define TREADLE_ROUNDS_H

#include "bundles.h"

typedef struct {
    int64_t n;
    Candidate *messages;   /* by level; `place` is the first element in `sent` or `received` */
    char *sent, *received;
    MPI_Request *requests;
} Rounds;

static int compare_levels(const void *one, const void *other) {
    const Candidate *a = one, *b = other;
    if (a->level != b->level) {
        return a->level < b->level ? -1 : 1;
    }
    return a->is_send != b->is_send ? a->is_send - b->is_send : a->peer - b->peer;
}

static Rounds make_rounds(const Memory *memory) {
    int64_t width = memory->program->n_operations, ends[2] = {0, 0};
    Rounds rounds = {.messages = allocate(width, sizeof(Candidate)),
                     .requests = allocate(width, sizeof(MPI_Request))};
    int64_t n = list_candidates(memory, INT64_MAX, rounds.messages);
    qsort(rounds.messages, (size_t)n, sizeof(Candidate), compare_levels);
    for (int64_t i = 0; i < n; i++) {
        Candidate next = rounds.messages[i];
        if (rounds.n > 0 && compare_levels(&rounds.messages[rounds.n - 1], &next) == 0) {
            rounds.messages[rounds.n - 1].elements += next.elements;
        } else {
            next.place = ends[next.is_send];
            rounds.messages[rounds.n++] = next;
        }
        ends[next.is_send] += next.elements;
    }
    rounds.received = allocate_large(ends[0], ELEMENT_BYTES);
    rounds.sent = allocate_large(ends[1], ELEMENT_BYTES);
    memset(rounds.sent, 1, (size_t)ends[1] * ELEMENT_BYTES); /* pages that were never written are all one */
    return rounds;
}

static void execute_rounds(const Rounds *rounds, MPI_Comm ranks, MPI_Datatype type) {
    for (int64_t i = 0; i < rounds->n;) {
        int n = 0;
        for (int64_t level = rounds->messages[i].level; i < rounds->n && rounds->messages[i].level == level; i++) {
            const Candidate *m = &rounds->messages[i];
            char *at = (m->is_send ? rounds->sent : rounds->received) + m->place * ELEMENT_BYTES;
            if (m->is_send) {
                MPI_Isend(at, (int)m->elements, type, m->peer, 0, ranks, &rounds->requests[n++]);
            } else {
                MPI_Irecv(at, (int)m->elements, type, m->peer, 0, ranks, &rounds->requests[n++]);
            }
        }
        MPI_Waitall(n, rounds->requests, MPI_STATUSES_IGNORE);
    }
}

static void free_rounds(Rounds *rounds) {
    free(rounds->messages);
    free(rounds->sent);
    free(rounds->received);
    free(rounds->requests);
}

#endif
