/* Links of an emulated network: frames leave at a link's rate and arrive after its delay.

   Built on demand by treadle/testbed/delay_line.py. Standard input names every pair of opposite links in a line,

     INTERFACE NAMESPACE RATE DELAY NAMESPACE RATE DELAY

   with the files of the two nodes' network namespaces, and for what leaves each of them bytes/s and nanoseconds;
   RATE 0: what comes is passed on at once. A line `end` follows. Each pair becomes a tap interface of that name
   in both namespaces, and `ready` is printed. Each further line of input is answered by

     FRAMES DROPPED LATEST

   frames passed on and dropped since the start, and by how many nanoseconds at most one was late since the last
   answer. The end of the input ends this process, and with it the interfaces: it never outlives its owner.

   A frame of n bytes that comes at time t leaves at s + n / RATE, where s is t or when the frame before it left,
   whichever is later, and arrives DELAY after that. So there are no bursts: an idle link has saved nothing up. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_PORTS 4096
#define MAX_FRAME 65536
#define MAX_QUEUE ((int64_t)32 << 20) /* bytes that wait for a link; more is dropped */
#define READS_AT_ONCE 64              /* of one port, before others have their turn */
#define EVENTS 64
#define SECOND 1000000000LL

typedef struct {
    int fd;
    int64_t rate, delay_ns;  /* of what leaves this node */
    int64_t free_ns, queued; /* when the last frame will have left; bytes that have not arrived */
} Port;

typedef struct {
    int64_t due_ns;
    uint64_t number; /* frames due at one time keep their order */
    int from, length;
    char data[];
} Frame;

static Port ports[MAX_PORTS];
static int n_ports;
static Frame **heap; /* by due time */
static int64_t n_waiting, capacity;
static uint64_t passed, dropped, numbered;
static int64_t latest_ns;

static void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("delay line: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static int comes_before(const Frame *one, const Frame *other) {
    return one->due_ns != other->due_ns ? one->due_ns < other->due_ns : one->number < other->number;
}

static void push(Frame *frame) {
    if (n_waiting == capacity) {
        capacity = capacity > 0 ? 2 * capacity : 1024;
        heap = realloc(heap, (size_t)capacity * sizeof(*heap));
        if (heap == NULL) {
            fail("out of memory");
        }
    }
    int64_t place = n_waiting++;
    for (; place > 0 && comes_before(frame, heap[(place - 1) / 2]); place = (place - 1) / 2) {
        heap[place] = heap[(place - 1) / 2];
    }
    heap[place] = frame;
}

static Frame *pop(void) {
    Frame *first = heap[0], *last = heap[--n_waiting];
    int64_t place = 0;
    for (int64_t child = 1; child < n_waiting; place = child, child = 2 * place + 1) {
        child += child + 1 < n_waiting && comes_before(heap[child + 1], heap[child]);
        if (!comes_before(heap[child], last)) {
            break;
        }
        heap[place] = heap[child];
    }
    if (n_waiting > 0) {
        heap[place] = last;
    }
    return first;
}

/* A tap interface in a namespace; this process stays in its own. */
static int open_tap(const char *name, const char *namespace, int own) {
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    int space = open(namespace, O_RDONLY | O_CLOEXEC), tap;
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) {
        fail("%s: %s", namespace, strerror(errno));
    }
    close(space);
    tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (tap < 0 || ioctl(tap, TUNSETIFF, &request) != 0) {
        fail("/dev/net/tun: %s", strerror(errno));
    }
    if (setns(own, CLONE_NEWNET) != 0) {
        fail("its own namespace: %s", strerror(errno));
    }
    return tap;
}

static void add_port(const char *name, const char *namespace, long long rate, long long delay_ns, int own) {
    if (n_ports == MAX_PORTS || rate < 0 || delay_ns < 0) {
        fail("%s: too many links, or a rate or a delay below 0", name);
    }
    ports[n_ports++] = (Port){.fd = open_tap(name, namespace, own), .rate = rate, .delay_ns = delay_ns};
}

static void read_links(void) {
    char line[1024], name[IFNAMSIZ], spaces[2][400];
    long long rates[2], delays[2];
    int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    while (fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "end\n") != 0) {
        if (sscanf(line, "%15s %399s %lld %lld %399s %lld %lld", name, spaces[0], &rates[0], &delays[0],
                   spaces[1], &rates[1], &delays[1]) != 7) {
            fail("expected a pair of links, found %s", line);
        }
        for (int side = 0; side < 2; side++) {
            add_port(name, spaces[side], rates[side], delays[side], own);
        }
    }
    close(own);
}

/* Ahead of the ranks, which are always busy: a frame that waits for a processor is late. */
static void take_precedence(void) {
    struct sched_param first = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &first) != 0 && nice(-20) == -1) {
        return; /* where neither is allowed, frames are late, which the answers tell */
    }
}

static void take_frame(int from, const char *data, int length) {
    Port *port = &ports[from];
    if (port->queued + length > MAX_QUEUE) {
        dropped++;
        return;
    }
    Frame *frame = malloc(sizeof(*frame) + (size_t)length);
    if (frame == NULL) {
        fail("out of memory");
    }
    int64_t now = now_ns(), due = now;
    if (port->rate > 0) {
        int64_t start = port->free_ns > now ? port->free_ns : now;
        port->free_ns = start + length * SECOND / port->rate;
        due = port->free_ns + port->delay_ns;
    }
    port->queued += length;
    *frame = (Frame){.due_ns = due, .number = numbered++, .from = from, .length = length};
    memcpy(frame->data, data, (size_t)length);
    push(frame);
}

static void read_frames(int from) {
    static char buffer[MAX_FRAME];
    for (int i = 0; i < READS_AT_ONCE; i++) {
        ssize_t length = read(ports[from].fd, buffer, sizeof(buffer));
        if (length <= 0) {
            break;
        }
        take_frame(from, buffer, (int)length);
    }
}

static void deliver(void) {
    for (int64_t now = now_ns(); n_waiting > 0 && heap[0]->due_ns <= now; now = now_ns()) {
        Frame *frame = pop();
        int64_t late = now - frame->due_ns;
        latest_ns = late > latest_ns ? late : latest_ns;
        ports[frame->from].queued -= frame->length;
        if (write(ports[frame->from ^ 1].fd, frame->data, (size_t)frame->length) == frame->length) {
            passed++;
        } else {
            dropped++;
        }
        free(frame);
    }
}

static void set_timer(int timer) {
    struct itimerspec when = {0};
    if (n_waiting > 0) {
        when.it_value.tv_sec = heap[0]->due_ns / SECOND;
        when.it_value.tv_nsec = heap[0]->due_ns % SECOND;
    }
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* Answer what came on standard input; 0 at its end. */
static int answered(void) {
    char words[256];
    ssize_t length = read(STDIN_FILENO, words, sizeof(words));
    for (ssize_t i = 0; i < length; i++) {
        if (words[i] == '\n') {
            printf("%llu %llu %lld\n", (unsigned long long)passed, (unsigned long long)dropped,
                   (long long)latest_ns);
            fflush(stdout);
            latest_ns = 0;
        }
    }
    return length > 0;
}

static void watch(int set, int fd, uint32_t number) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) {
        fail("epoll: %s", strerror(errno));
    }
}

int main(void) {
    enum { INPUT = MAX_PORTS, TIMER };
    struct epoll_event events[EVENTS];
    setvbuf(stdin, NULL, _IONBF, 0); /* what follows `end` is read without stdio */
    read_links();
    int set = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    if (set < 0 || timer < 0) {
        fail("epoll: %s", strerror(errno));
    }
    watch(set, STDIN_FILENO, INPUT);
    watch(set, timer, TIMER);
    for (int i = 0; i < n_ports; i++) {
        watch(set, ports[i].fd, (uint32_t)i);
    }
    take_precedence();
    puts("ready");
    fflush(stdout);
    for (;;) {
        set_timer(timer);
        int n = epoll_wait(set, events, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            uint64_t expirations;
            if (events[i].data.u32 == INPUT) {
                if (!answered()) {
                    return 0;
                }
            } else if (events[i].data.u32 == TIMER) {
                if (read(timer, &expirations, sizeof(expirations)) < 0) {
                    continue; /* set anew meanwhile */
                }
            } else {
                read_frames((int)events[i].data.u32);
                deliver();
            }
        }
        deliver();
    }
}
