/* Messages between processes for treadle/runtime/libfabric_run.py, which calls these by ctypes. */
#include <stdarg.h>
#include <stdio.h>

#include "mpi.h"

static void fail(const char *format, ...) {
    va_list arguments;
    fputs("treadle: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    _exit(2);
}

/* Forks; every rank returns, with its number. */
int treadle_start(void) {
    MPI_Init(NULL, NULL);
    return ALL_RANKS.rank;
}

int treadle_size(void) {
    return ALL_RANKS.size;
}

void *treadle_send(void *data, int64_t bytes, int peer, int tag) {
    return post_message(1, data, (size_t)bytes, peer, (uint64_t)tag, MPI_COMM_WORLD);
}

void *treadle_receive(void *data, int64_t bytes, int peer, int tag) {
    return post_message(0, data, (size_t)bytes, peer, (uint64_t)tag, MPI_COMM_WORLD);
}

/* 1 where it is complete, and the request gone. */
int treadle_test(void *request) {
    int n_done, index;
    MPI_Testsome(1, (MPI_Request *)&request, &n_done, &index, NULL);
    return n_done;
}

/* What all ranks bring, n numbers each, in rank order. */
void treadle_gather(const int64_t *own, int64_t n, int64_t *all) {
    size_t bytes = (size_t)n * sizeof(int64_t);
    char *found = gather_from_all(own, bytes, MPI_COMM_WORLD);
    memcpy(all, found, bytes * (size_t)ALL_RANKS.size);
    free(found);
}

/* Whether a message is here that no receive was posted for. */
int treadle_probe(void) {
    Message *message = take_message();
    struct fi_msg_tagged any = {.addr = FI_ADDR_UNSPEC, .ignore = ~(NOT_ALL_RANKS | CONTROL),
                                .context = &message->context};
    check_call("probe", fi_trecvmsg(ENDPOINT, &any, FI_PEEK));
    while (!message->is_done) {
        make_progress();
    }
    int is_there = message->is_done != NOTHING_THERE;
    give_back_message(&message);
    return is_there;
}

void treadle_finish(void) {
    MPI_Finalize();
}
