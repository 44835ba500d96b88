/* A process for each rank, and the memory that all of them share: where each of them is found. */
#ifndef TREADLE_LIBFABRIC_PROCESSES_H
#define TREADLE_LIBFABRIC_PROCESSES_H

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *format, ...);

enum { ADDRESS_BYTES = 64, MOST_PROCESSES = 1 << 15 };

typedef struct {
    int id, rank, size;
    int *members; /* ranks among all processes */
} Ranks;

typedef struct {
    int is_there;
    char name[ADDRESS_BYTES];
} Address;

static Ranks ALL_RANKS;
static Address *SHARED_ADDRESSES;
static int *N_FINISHED; /* shared, too */

/* Ranks may share a core: let others run, and sleep where nothing has come for a while. */
static void pause_after(int n_looks) {
    struct timespec short_while = {.tv_nsec = 20000};
    if (n_looks < 200) {
        sched_yield();
    } else {
        nanosleep(&short_while, NULL);
    }
}

static void *checked_memory(size_t count, size_t bytes) {
    void *memory = calloc(count > 0 ? count : 1, bytes);
    if (memory == NULL) {
        fail("out of memory");
    }
    return memory;
}

/* The first process: wait for all, end them when one fails, and leave with the largest exit status. */
static void await_ranks(const pid_t *ranks, int n) {
    int worst = 0, status;
    for (int left = n; left > 0 && wait(&status) > 0; left--) {
        int own = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (own > 1 && worst <= 1) { /* 1: elements were wrong, and all ranks know it */
            for (int i = 0; i < n; i++) {
                kill(ranks[i], SIGKILL);
            }
            worst = own;
        }
        worst = own > worst && worst <= 1 ? own : worst;
    }
    _exit(worst);
}

static void fork_ranks(void) {
    const char *text = getenv("TREADLE_RANKS");
    int n = text == NULL ? 0 : atoi(text);
    if (n < 1 || n > MOST_PROCESSES) {
        fail("TREADLE_RANKS: expected a number from 1 to %d", MOST_PROCESSES);
    }
    size_t bytes = (size_t)n * sizeof(Address) + sizeof(int);
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fail("out of memory");
    }
    SHARED_ADDRESSES = shared;
    N_FINISHED = (int *)(SHARED_ADDRESSES + n);
    ALL_RANKS = (Ranks){.size = n, .rank = -1, .members = checked_memory((size_t)n, sizeof(int))};
    pid_t *started = checked_memory((size_t)n, sizeof(pid_t)), first = getpid();
    for (int rank = 0; rank < n; rank++) {
        ALL_RANKS.members[rank] = rank;
    }
    for (int rank = 0; rank < n; rank++) {
        started[rank] = fork();
        if (started[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != first) { /* it was gone before that */
                _exit(2);
            }
            ALL_RANKS.rank = rank;
            free(started);
            return;
        }
        if (started[rank] < 0) {
            for (int i = 0; i < rank; i++) {
                kill(started[i], SIGKILL);
            }
            fail("process %d of %d cannot be started", rank, n);
        }
    }
    await_ranks(started, n);
}

#endif
