/* What the interpreter needs of MPI, over libfabric's tagged messages: with this folder first among the include
   paths it compiles unchanged.

   `MPI_Init` forks a process for each of $TREADLE_RANKS ranks. The first process only waits: it ends all ranks as
   soon as one fails, and none outlives it. Libfabric looks for its providers before that, which takes it a
   quarter of a second; nothing is open then. Ranks find each other's addresses in memory that all of them share;
   everything else goes through the provider (tcp, on the loopback device).
   ofi_rxm on top of tcp keeps messages whose receive is not posted yet from holding up those behind them.

   A tag is, from the top: 16 bits for the communicator, 16 for the sender, 1 for what these functions send each
   other, and 31 that the caller chooses. Messages of one tag arrive in order (FI_ORDER_SAS). */
#ifndef TREADLE_LIBFABRIC_MPI_H
#define TREADLE_LIBFABRIC_MPI_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "processes.h"

typedef enum { MPI_INT, MPI_INT32_T, MPI_INT64_T, MPI_FLOAT, MPI_DOUBLE } MPI_Datatype;
typedef enum { MPI_SUM, MPI_MAX, MPI_MIN } MPI_Op;

typedef const Ranks *MPI_Comm;

/* A message under way; libfabric owns `context` until it is done. */
typedef struct Message {
    struct fi_context2 context;
    int is_done; /* or NOTHING_THERE, of a probe */
    struct Message *next_free;
} Message;

typedef Message *MPI_Request;

enum { POOL_MESSAGES = 256, MOST_POSTED = 1 << 14 };
enum { NOTHING_THERE = 2 };
enum { MPI_UNDEFINED = -1, MPI_TAG_UB = 0 };

#define MPI_COMM_WORLD (&ALL_RANKS)
#define MPI_STATUSES_IGNORE NULL
#define MPI_IN_PLACE NULL
#define CONTROL ((uint64_t)1 << 31)
#define NOT_ALL_RANKS ((uint64_t)0xffff << 48)

static struct fid_ep *ENDPOINT;
static struct fid_cq *QUEUE;
static fi_addr_t *PEERS;
static Message *FREE_MESSAGES;

static void check_call(const char *what, ssize_t code) {
    if (code < 0) {
        fail("libfabric: %s: %s", what, fi_strerror((int)-code));
    }
}

/* ---- the provider */

static struct fi_info *find_provider(void) {
    /* buffers of a connection, which ofi_rxm would make for thousands of messages; a user's own word stays */
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "64", 0);
    setenv("FI_OFI_RXM_MSG_TX_SIZE", "64", 0);
    struct fi_info *hints = fi_allocinfo(), *found = NULL;
    if (hints == NULL) {
        fail("out of memory");
    }
    hints->rx_attr->size = hints->tx_attr->size = MOST_POSTED;
    hints->caps = FI_TAGGED | FI_SEND | FI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    int code = fi_getinfo(FI_VERSION(1, 9), "127.0.0.1", NULL, FI_SOURCE, hints, &found);
    if (code != 0) {
        fail("libfabric has no provider tcp;ofi_rxm on 127.0.0.1: %s", fi_strerror(-code));
    }
    fi_freeinfo(hints);
    return found;
}

static void open_endpoint(struct fi_info *info, struct fid_av **table) {
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_cq_attr queue = {.format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE};
    struct fi_av_attr addresses = {.type = FI_AV_TABLE, .count = (size_t)ALL_RANKS.size};
    check_call("fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    check_call("domain", fi_domain(fabric, info, &domain, NULL));
    check_call("completion queue", fi_cq_open(domain, &queue, &QUEUE, NULL));
    check_call("addresses", fi_av_open(domain, &addresses, table, NULL));
    check_call("endpoint", fi_endpoint(domain, info, &ENDPOINT, NULL));
    check_call("endpoint's queue", fi_ep_bind(ENDPOINT, &QUEUE->fid, FI_TRANSMIT | FI_RECV));
    check_call("endpoint's addresses", fi_ep_bind(ENDPOINT, &(*table)->fid, 0));
    check_call("endpoint", fi_enable(ENDPOINT));
    fi_freeinfo(info);
}

static void exchange_addresses(struct fid_av *table) {
    Address *own = &SHARED_ADDRESSES[ALL_RANKS.rank];
    size_t length = ADDRESS_BYTES;
    check_call("own address", fi_getname(&ENDPOINT->fid, own->name, &length));
    __atomic_store_n(&own->is_there, 1, __ATOMIC_RELEASE);
    PEERS = checked_memory((size_t)ALL_RANKS.size, sizeof(fi_addr_t));
    for (int rank = 0; rank < ALL_RANKS.size; rank++) {
        for (int looks = 0; !__atomic_load_n(&SHARED_ADDRESSES[rank].is_there, __ATOMIC_ACQUIRE); looks++) {
            pause_after(looks);
        }
        if (fi_av_insert(table, SHARED_ADDRESSES[rank].name, 1, &PEERS[rank], 0, NULL) != 1) {
            fail("libfabric: the address of rank %d is not taken", rank);
        }
    }
}

/* ---- messages */

static void make_progress(void) {
    static int n_empty = 0;
    struct fi_cq_entry done[16];
    ssize_t n = fi_cq_read(QUEUE, done, 16);
    if (n == -FI_EAGAIN || n == 0) {
        pause_after(++n_empty);
        return;
    }
    n_empty = 0;
    if (n == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(QUEUE, &error, 0);
        if (error.err == FI_ENOMSG) {
            ((Message *)error.op_context)->is_done = NOTHING_THERE;
            return;
        }
        fail("libfabric: a message failed: %s", fi_strerror(error.err));
    }
    check_call("completions", n);
    for (ssize_t i = 0; i < n; i++) {
        ((Message *)done[i].op_context)->is_done = 1;
    }
}

static Message *take_message(void) {
    if (FREE_MESSAGES == NULL) {
        Message *pool = checked_memory(POOL_MESSAGES, sizeof(Message));
        for (int i = 0; i < POOL_MESSAGES; i++) {
            pool[i].next_free = FREE_MESSAGES;
            FREE_MESSAGES = &pool[i];
        }
    }
    Message *message = FREE_MESSAGES;
    FREE_MESSAGES = message->next_free;
    message->is_done = 0;
    return message;
}

static void give_back_message(Message **message) {
    (*message)->next_free = FREE_MESSAGES;
    FREE_MESSAGES = *message;
    *message = NULL;
}

static MPI_Request post_message(int is_send, void *data, size_t bytes, int peer, uint64_t tag, MPI_Comm ranks) {
    Message *message = take_message();
    int source = ranks->members[is_send ? ranks->rank : peer];
    uint64_t whole = (uint64_t)ranks->id << 48 | (uint64_t)source << 32 | tag;
    for (int looks = 0;; looks++) {
        ssize_t code = is_send ? fi_tsend(ENDPOINT, data, bytes, NULL, PEERS[ranks->members[peer]], whole,
                                          &message->context)
                               : fi_trecv(ENDPOINT, data, bytes, NULL, FI_ADDR_UNSPEC, whole, 0,
                                          &message->context);
        if (code != -FI_EAGAIN) {
            check_call(is_send ? "send" : "receive", code);
            return message;
        }
        if (looks == 1000000) { /* receives that wait for later ones would wait for ever */
            fail("more than %d messages are under way at once; use larger slices", MOST_POSTED);
        }
        make_progress();
    }
}

static size_t datatype_bytes(MPI_Datatype type) {
    return type == MPI_INT64_T || type == MPI_DOUBLE ? 8 : 4;
}

static void MPI_Isend(const void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm ranks,
                      MPI_Request *request) {
    *request = post_message(1, (void *)data, (size_t)n * datatype_bytes(type), peer, (uint64_t)tag, ranks);
}

static void MPI_Irecv(void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm ranks,
                      MPI_Request *request) {
    *request = post_message(0, data, (size_t)n * datatype_bytes(type), peer, (uint64_t)tag, ranks);
}

static void MPI_Testsome(int n, MPI_Request *requests, int *n_done, int *indices, void *ignored) {
    (void)ignored;
    make_progress();
    *n_done = 0;
    for (int i = 0; i < n; i++) {
        if (requests[i] != NULL && requests[i]->is_done) {
            give_back_message(&requests[i]);
            indices[(*n_done)++] = i;
        }
    }
}

/* Some request is under way: the interpreter waits for nothing else. */
static void MPI_Waitsome(int n, MPI_Request *requests, int *n_done, int *indices, void *ignored) {
    do {
        MPI_Testsome(n, requests, n_done, indices, ignored);
    } while (*n_done == 0);
}

static void MPI_Waitall(int n, MPI_Request *requests, void *ignored) {
    (void)ignored;
    for (int i = 0; i < n; i++) {
        while (requests[i] != NULL && !requests[i]->is_done) {
            make_progress();
        }
        if (requests[i] != NULL) {
            give_back_message(&requests[i]);
        }
    }
}

/* ---- few bytes of all ranks, by a message from each to each */

/* What each rank brings, in rank order; the caller frees it. */
static char *gather_from_all(const void *own, size_t bytes, MPI_Comm ranks) {
    char *all = checked_memory((size_t)ranks->size, bytes);
    MPI_Request *requests = checked_memory(2 * (size_t)ranks->size, sizeof(MPI_Request));
    memcpy(all + (size_t)ranks->rank * bytes, own, bytes);
    for (int is_send = 0; is_send < 2; is_send++) {
        for (int peer = 0; peer < ranks->size; peer++) {
            char *data = all + (size_t)(is_send ? ranks->rank : peer) * bytes;
            if (peer != ranks->rank) {
                requests[2 * peer + is_send] = post_message(is_send, data, bytes, peer, CONTROL, ranks);
            }
        }
    }
    MPI_Waitall(2 * ranks->size, requests, NULL);
    free(requests);
    return all;
}

#define COMBINE(TYPE)                                                                                             \
    do {                                                                                                          \
        TYPE *to = total;                                                                                         \
        const TYPE *from = (const TYPE *)more;                                                                    \
        for (int i = 0; i < n; i++) {                                                                             \
            to[i] = how == MPI_SUM ? to[i] + from[i] : (how == MPI_MAX) == (from[i] > to[i]) ? from[i] : to[i];   \
        }                                                                                                         \
    } while (0)

static void combine(void *total, const char *more, int n, MPI_Datatype type, MPI_Op how) {
    switch (type) {
    case MPI_INT64_T:
        COMBINE(int64_t);
        break;
    case MPI_DOUBLE:
        COMBINE(double);
        break;
    case MPI_FLOAT:
        COMBINE(float);
        break;
    default:
        COMBINE(int32_t);
    }
}

static void MPI_Allreduce(const void *own, void *total, int n, MPI_Datatype type, MPI_Op how, MPI_Comm ranks) {
    size_t bytes = (size_t)n * datatype_bytes(type);
    char *all = gather_from_all(own, bytes, ranks);
    memcpy(total, all, bytes);
    for (int rank = 1; rank < ranks->size; rank++) {
        combine(total, all + (size_t)rank * bytes, n, type, how);
    }
    free(all);
}

static void MPI_Reduce(const void *own, void *total, int n, MPI_Datatype type, MPI_Op how, int root,
                       MPI_Comm ranks) {
    (void)root; /* all may know */
    MPI_Allreduce(own, total, n, type, how, ranks);
}

static void MPI_Barrier(MPI_Comm ranks) {
    char nothing = 0;
    free(gather_from_all(&nothing, 1, ranks));
}

static void MPI_Comm_split(MPI_Comm ranks, int colour, int key, MPI_Comm *result) {
    int own[2] = {colour, key};
    int *all = (int *)gather_from_all(own, sizeof own, ranks);
    Ranks *part = checked_memory(1, sizeof(Ranks));
    part->id = colour + 1;
    part->members = checked_memory((size_t)ranks->size, sizeof(int));
    for (int rank = 0; rank < ranks->size; rank++) {
        part->size += all[2 * rank] == colour;
    }
    for (int rank = 0; rank < ranks->size; rank++) { /* keys are 0, 1, ... within a part */
        if (all[2 * rank] == colour) {
            part->members[all[2 * rank + 1]] = ranks->members[rank];
        }
    }
    part->rank = key;
    free(all);
    *result = part;
}

/* ---- the rest */

static double MPI_Wtime(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void MPI_Comm_rank(MPI_Comm ranks, int *rank) {
    *rank = ranks->rank;
}

static void MPI_Comm_size(MPI_Comm ranks, int *size) {
    *size = ranks->size;
}

static void MPI_Comm_get_attr(MPI_Comm ranks, int which, void *value, int *found) {
    static int largest_tag = INT32_MAX;
    (void)ranks;
    (void)which;
    *(int **)value = &largest_tag;
    *found = 1;
}

static void MPI_Init(int *n, char ***arguments) {
    struct fid_av *table;
    struct fi_info *info = find_provider();
    (void)n;
    (void)arguments;
    fork_ranks();
    open_endpoint(info, &table);
    exchange_addresses(table);
}

/* Nobody leaves while another still reads: a connection that closes early may take data with it. */
static void MPI_Finalize(void) {
    MPI_Barrier(MPI_COMM_WORLD);
    __atomic_add_fetch(N_FINISHED, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(N_FINISHED, __ATOMIC_ACQUIRE) < ALL_RANKS.size) {
        make_progress();
    }
}

static void MPI_Abort(MPI_Comm ranks, int status) {
    (void)ranks;
    _exit(status); /* the first process ends the others */
}

/* Libfabric has no collectives to compare with; the command line says so before this is reached. */
#define MPI_Allgatherv(...) fail("libfabric: no collectives of its own")
#define MPI_Reduce_scatter(...) fail("libfabric: no collectives of its own")
#define MPI_Bcast(...) fail("libfabric: no collectives of its own")
#define MPI_Alltoallv(...) fail("libfabric: no collectives of its own")

#endif
