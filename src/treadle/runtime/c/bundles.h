/* Messages between the same two ranks that are ready together travel as one: a bundle.

   Messages of one level wait for messages of lower levels only (treadle/lowering/message_levels.py), so a send
   that waits for the others of its level adds no deadlock. Both ends form the same bundles, because they know
   the same messages, levels and lengths.
   Messages whose data are adjacent at both ends make a run. A run that is a bundle of its own is direct: it goes
   from and to the operations' own memory. Short runs are packed by the sender into memory of the bundle, and
   stored or added by the receiver as each of its operations starts; such sends are thereby buffered. */
#ifndef TREADLE_BUNDLES_H
#define TREADLE_BUNDLES_H

#include "memory.h"

typedef struct {
    int is_send, peer, tag, is_direct;
    int is_awaited;        /* of a send: something waits for a member */
    int64_t first, past;   /* members[first] up to members[past] */
    int64_t elements;
    int64_t missing;       /* members that have not started */
    int has_arrived;       /* of a receive */
    char *data;            /* memory of its own; if it is direct, that of the operations */
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
    int64_t piece_bytes;   /* longest run that is packed; 0: no bundles at all */
    int64_t bundle_bytes;  /* longest packed bundle */
    int64_t run_bytes;     /* longest direct one */
} Limits;

typedef struct {
    int is_send, peer;
    int64_t level, message, place, elements, run;
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

/* All messages in the order in which bundles are filled. */
static int64_t list_candidates(const Memory *memory, Candidate *candidates) {
    const Program *program = memory->program;
    int64_t n = 0;
    for (int64_t place = 0; place < program->n_operations; place++) {
        const Operation *o = &program->operations[place];
        int64_t elements = element(memory, o->first + o->count) - element(memory, o->first);
        if (o->kind != COPY) {
            candidates[n++] = (Candidate){.is_send = o->kind == SEND, .peer = o->peer, .level = o->level,
                                          .message = o->message, .place = place, .elements = elements};
        }
    }
    qsort(candidates, (size_t)n, sizeof *candidates, compare_candidates);
    return n;
}

static int is_same_level(const Candidate *one, const Candidate *other) {
    return one->is_send == other->is_send && one->peer == other->peer && one->level == other->level;
}

/* How many of the n candidates from the first on are one run, or (`packs`) one packed bundle. */
static int64_t count_together(const Program *program, const Candidate *first, int64_t n, int packs,
                              int64_t most) {
    int64_t taken = 1, elements = first->elements;
    for (; taken < n && is_same_level(first, &first[taken]); taken++) {
        int joins = packs || (program->operations[first[taken].place].mode & CONTINUES) != 0;
        if (!joins || elements + first[taken].elements > most) {
            break;
        }
        elements += first[taken].elements;
    }
    return taken;
}

/* Whether the operations' chunks lie one after another in one range of a buffer. */
static int is_contiguous(const Program *program, const Candidate *one, int64_t n) {
    const Operation *first = &program->operations[one->place];
    int buffer = one->is_send ? first->source : first->target;
    int64_t past = first->first;
    for (int64_t i = 0; i < n; i++) {
        const Operation *o = &program->operations[one[i].place];
        if (o->first != past || (one->is_send ? o->source : o->target) != buffer || o->kind == RECEIVE_REDUCE
            || (o->mode & COPIED) != 0) {
            return 0;
        }
        past += o->count;
    }
    return find_range(program, buffer, first->first, past - first->first) >= 0;
}

static char *address_of(const Memory *memory, const Operation *operation, int buffer) {
    int64_t range = find_range(memory->program, buffer, operation->first, operation->count);
    return address(memory, buffer, range, element(memory, operation->first));
}

static void add_bundle(Bundles *all, const Memory *memory, const Candidate *one, int64_t n, int is_run) {
    Bundle *bundle = &all->bundles[all->n];
    *bundle = (Bundle){.is_send = one->is_send, .peer = one->peer, .tag = (int)one->message,
                       .first = all->n_members, .past = all->n_members + n,
                       .is_direct = is_run && is_contiguous(memory->program, one, n)};
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
        bundle->is_awaited |= o->is_awaited;
    }
    for (int64_t i = 0; i < n && bundle->elements > 0; i++) { /* else nothing is sent */
        all->member_of[one[i].place] = all->n_members + i;
    }
    all->n_members += bundle->elements > 0 ? n : 0;
    all->n += bundle->elements > 0;
}

/* Bundles of runs, which are left out of the candidates; how many of these are left. */
static int64_t bundle_runs(Bundles *all, const Memory *memory, Candidate *candidates, int64_t n,
                           const Limits *limits) {
    int64_t left = 0, most = limits->run_bytes / ELEMENT_BYTES;
    for (int64_t at = 0, taken; at < n; at += taken) {
        int64_t elements = 0;
        taken = count_together(memory->program, &candidates[at], n - at, 0, most);
        for (int64_t i = 0; i < taken; i++) {
            elements += candidates[at + i].elements;
            candidates[at + i].run = at;
        }
        if (elements * ELEMENT_BYTES <= limits->piece_bytes) {
            memmove(&candidates[left], &candidates[at], (size_t)taken * sizeof *candidates);
            left += taken;
        } else if (taken > 1) {
            add_bundle(all, memory, &candidates[at], taken, 1);
        }
    }
    return left;
}

static Bundles make_bundles(const Memory *memory, Limits limits) {
    const Program *program = memory->program;
    int64_t width = program->n_operations, total = 0, most = limits.bundle_bytes / ELEMENT_BYTES;
    Bundles all = {.member_of = allocate(width, sizeof(int64_t))};
    for (int64_t place = 0; place < width; place++) {
        all.member_of[place] = -1;
    }
    if (memory->slices > 1 || limits.piece_bytes == 0) { /* sliced messages are long ones */
        return all;
    }
    Candidate *candidates = allocate(width, sizeof(Candidate));
    int64_t n = list_candidates(memory, candidates);
    all.bundles = allocate(n + 1, sizeof(Bundle));
    all.members = allocate(n, sizeof(Member));
    n = bundle_runs(&all, memory, candidates, n, &limits);
    for (int64_t at = 0, taken; at < n; at += taken) {
        taken = count_together(program, &candidates[at], n - at, 1, most);
        if (taken > 1) {
            int is_run = candidates[at].run == candidates[at + taken - 1].run;
            add_bundle(&all, memory, &candidates[at], taken, is_run);
        }
    }
    free(candidates);
    for (int64_t i = 0; i < all.n; i++) {
        total += all.bundles[i].is_direct ? 0 : all.bundles[i].elements;
    }
    char *data = all.memory = allocate_own(total, ELEMENT_BYTES);
    for (int64_t i = 0; i < all.n; i++) {
        Bundle *bundle = &all.bundles[i];
        bundle->data = bundle->is_direct ? all.members[bundle->first].data : data;
        data += bundle->is_direct ? 0 : bundle->elements * ELEMENT_BYTES;
    }
    return all;
}

static void reset_bundles(Bundles *all) {
    for (int64_t i = 0; i < all->n; i++) {
        all->bundles[i].missing = all->bundles[i].past - all->bundles[i].first;
        all->bundles[i].has_arrived = 0;
    }
}

/* Copy what a send's bundle carries into its memory; all members have started. */
static void pack(const Bundles *all, const Bundle *bundle) {
    for (int64_t i = bundle->first; i < bundle->past; i++) {
        const Member *member = &all->members[i];
        memcpy(bundle->data + member->start * ELEMENT_BYTES, member->data,
               (size_t)member->elements * ELEMENT_BYTES);
    }
}

static void free_bundles(Bundles *all) {
    free(all->bundles);
    free(all->members);
    free(all->member_of);
    free(all->memory);
}

#endif
