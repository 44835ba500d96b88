/* Short messages between the same two ranks that are ready together travel as one: a bundle.

   Messages of one level wait for messages of lower levels only (treadle/program/message_levels.py), so a send
   that waits for the others of its level adds no deadlock. Both ends form the same bundles, because they know
   the same messages, levels and lengths. A bundle goes through memory of its own: packed by the sender, and
   stored or added by the receiver as each of its operations starts. Sends are thereby buffered. */
#ifndef TREADLE_BUNDLES_H
#define TREADLE_BUNDLES_H

#include "memory.h"

typedef struct {
    int is_send, peer, tag;
    int64_t first, past;   /* members[first] up to members[past] */
    int64_t elements;
    int64_t missing;       /* of a send: members that have not started */
    int has_arrived;       /* of a receive */
    char *data;
} Bundle;

/* An operation in a bundle. */
typedef struct {
    int64_t bundle, place;
    int64_t start, elements;   /* of the bundle */
    char *data;                /* what a send reads and a receive writes */
    const char *added;         /* to what arrives */
} Member;

typedef struct {
    int64_t n, n_members;
    Bundle *bundles;
    Member *members;
    int64_t *member_of;        /* of each operation: its number among the members, or -1 */
    char *memory;
} Bundles;

typedef struct {
    int is_send, peer;
    int64_t level, message, place, elements;
} Candidate;

static int compare_candidates(const void *one, const void *other) {
    const Candidate *a = one, *b = other;
    int64_t keys[4][2] = {{a->is_send, b->is_send}, {a->peer, b->peer}, {a->level, b->level},
                          {a->message, b->message}};
    for (int i = 0; i < 4; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

/* Messages of so many elements at most, in the order in which bundles are filled. */
static int64_t list_candidates(const Memory *memory, int64_t most, Candidate *candidates) {
    const Program *program = memory->program;
    int64_t n = 0;
    for (int64_t place = 0; place < program->n_operations; place++) {
        const Operation *o = &program->operations[place];
        int64_t elements = element(memory, o->first + o->count) - element(memory, o->first);
        if (o->kind != COPY && elements <= most) {
            candidates[n++] = (Candidate){.is_send = o->kind == SEND, .peer = o->peer, .level = o->level,
                                          .message = o->message, .place = place, .elements = elements};
        }
    }
    qsort(candidates, (size_t)n, sizeof *candidates, compare_candidates);
    return n;
}

/* How many of the n candidates from the first on fill one bundle of so many elements at most. */
static int64_t count_together(const Candidate *first, int64_t n, int64_t most) {
    int64_t taken = 1, elements = first->elements;
    for (; taken < n; elements += first[taken++].elements) {
        const Candidate *next = &first[taken];
        int is_same = first->is_send == next->is_send && first->peer == next->peer
                      && first->level == next->level;
        if (!is_same || elements + next->elements > most) {
            break;
        }
    }
    return taken;
}

static char *address_of(const Memory *memory, const Operation *operation, int buffer) {
    int64_t range = find_range(memory->program, buffer, operation->first, operation->count);
    return address(memory, buffer, range, element(memory, operation->first));
}

static void add_bundle(Bundles *all, const Memory *memory, const Candidate *one, int64_t n) {
    Bundle *bundle = &all->bundles[all->n];
    *bundle = (Bundle){.is_send = one->is_send, .peer = one->peer, .tag = (int)one->message,
                       .first = all->n_members, .past = all->n_members + n};
    for (int64_t i = 0; i < n; i++) {
        const Operation *o = &memory->program->operations[one[i].place];
        Member *member = &all->members[all->n_members + i];
        *member = (Member){.bundle = all->n, .place = one[i].place, .start = bundle->elements,
                           .elements = one[i].elements,
                           .data = address_of(memory, o, one->is_send ? o->source : o->target)};
        if (o->kind == RECEIVE_REDUCE) {
            member->added = address_of(memory, o, o->source);
        }
        bundle->elements += one[i].elements;
    }
    for (int64_t i = 0; i < n && bundle->elements > 0; i++) { /* else nothing is sent */
        all->member_of[one[i].place] = all->n_members + i;
    }
    all->n_members += bundle->elements > 0 ? n : 0;
    all->n += bundle->elements > 0;
}

/* `piece_bytes`: longest message that is packed, 0: none is; `bundle_bytes`: longest bundle. */
static Bundles make_bundles(const Memory *memory, int64_t piece_bytes, int64_t bundle_bytes) {
    int64_t width = memory->program->n_operations;
    Bundles all = {.member_of = allocate(width, sizeof(int64_t))};
    for (int64_t place = 0; place < width; place++) {
        all.member_of[place] = -1;
    }
    if (memory->slices > 1 || piece_bytes == 0) { /* sliced messages are long ones */
        return all;
    }
    Candidate *candidates = allocate(width, sizeof(Candidate));
    int64_t n = list_candidates(memory, piece_bytes / ELEMENT_BYTES, candidates), elements = 0;
    all.bundles = allocate(n + 1, sizeof(Bundle));
    all.members = allocate(n, sizeof(Member));
    for (int64_t at = 0, taken; at < n; at += taken) {
        taken = count_together(&candidates[at], n - at, bundle_bytes / ELEMENT_BYTES);
        if (taken > 1) {
            add_bundle(&all, memory, &candidates[at], taken);
        }
    }
    free(candidates);
    for (int64_t i = 0; i < all.n; i++) {
        elements += all.bundles[i].elements;
    }
    char *data = all.memory = allocate_own(elements, ELEMENT_BYTES);
    for (int64_t i = 0; i < all.n; data += all.bundles[i++].elements * ELEMENT_BYTES) {
        all.bundles[i].data = data;
    }
    return all;
}

static void reset_bundles(Bundles *all) {
    for (int64_t i = 0; i < all->n; i++) {
        all->bundles[i].missing = all->bundles[i].past - all->bundles[i].first;
        all->bundles[i].has_arrived = 0;
    }
}

static void free_bundles(Bundles *all) {
    free(all->bundles);
    free(all->members);
    free(all->member_of);
    free(all->memory);
}

#endif
