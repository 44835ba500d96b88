/* Reads one rank's part of a program from its text form (treadle/program/program_format.py documents it), or of
   its group's among several.
   Every number is checked against its range, so that no later code has to trust the file. */
#ifndef TREADLE_READER_H
#define TREADLE_READER_H

#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SEND = 0, RECEIVE = 1, RECEIVE_REDUCE = 2, COPY = 3 };
enum { INPUT = 0, OUTPUT = 1, SCRATCH = 2, BUFFERS = 3 };
enum { ALLGATHER, REDUCE_SCATTER, ALLREDUCE, BROADCAST, REDUCE, ALLTOALL, COLLECTIVES };

static const char *const COLLECTIVE_NAMES[COLLECTIVES] = {"allgather", "reduce-scatter", "allreduce",
                                                          "broadcast", "reduce",         "alltoall"};

enum { SLICED = 0, WHOLE = 1, COPIED = 2 };

enum { MAX_RANKS = 1 << 16, MAX_GROUPS = 1 << 15 };
#define MAX_CHUNKS ((int64_t)1 << 40)

/* Chunks [first, past). */
typedef struct {
    int64_t first, past;
} Range;

typedef struct {
    int kind, peer, source, target;
    int is_awaited;          /* another operation waits for it */
    int64_t message;         /* number among all messages of this pair of ranks in this direction */
    int64_t level;           /* messages wait for messages of lower levels only */
    int mode;                /* WHOLE: nothing waits for either end, no need of slices; COPIED: a send that
                                must be complete before its receive has started */
    int64_t first, count;    /* chunks */
    int64_t wait_offset;     /* its waits are waits[wait_offset] up to waits[next operation's] */
    int64_t n_followers;     /* and followers: who waits for it */
    int64_t follower_offset;
} Operation;

typedef struct {
    MPI_Comm communicator;          /* of who runs it: all processes, or those of one group */
    int groups, group;              /* number of groups, and which one this is */
    int collective, ranks, rank, root, in_place;
    int64_t chunks, addresses, n_shards, n_operations, largest_message;
    int64_t *shards;                /* n_shards + 1 chunk numbers */
    Range *ranges[BUFFERS];         /* rising, not touching */
    int64_t n_ranges[BUFFERS];
    Operation *operations;          /* n_operations + 1, the last one closes wait_offset */
    int64_t *waits, *followers;
} Program;

typedef struct {
    const char *path;
    FILE *file;
    int64_t line, bytes;
} Reader;

/* One line on stderr, and the end of all ranks. */
static void fail(const char *format, ...) {
    va_list arguments;
    fputs("treadle: interpreter: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    MPI_Abort(MPI_COMM_WORLD, 2);
    exit(2);
}

static void *allocate(int64_t count, size_t bytes) {
    void *memory = NULL;
    if (count >= 0 && (uint64_t)count < SIZE_MAX / 2 / bytes) {
        memory = calloc(count > 0 ? (size_t)count : 1, bytes);
    }
    if (memory == NULL) {
        fail("out of memory for %lld items of %zu bytes; use smaller sizes", (long long)count, bytes);
    }
    return memory;
}

enum { HUGE_PAGE = 1 << 21, OWN_LARGE = 1 << 18 };

/* Zeros, from `least` bytes on in huge pages where the system has them: copies between processes pin every
   page. Freed like any other memory. */
static void *allocate_huge(int64_t count, size_t bytes, size_t least) {
    void *memory = NULL;
    size_t total = (size_t)count * bytes;
    if (count < 0 || (uint64_t)count >= SIZE_MAX / 2 / bytes || total < least) {
        return allocate(count, bytes);
    }
    total = (total + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; /* others' data would share the last page */
    if (posix_memalign(&memory, HUGE_PAGE, total) != 0) {
        fail("out of memory for %zu bytes; use smaller sizes", total);
    }
#ifdef MADV_HUGEPAGE
    madvise(memory, total, MADV_HUGEPAGE);
#endif
    memset(memory, 0, total);
    return memory;
}

/* Buffers as an application has them: small ones in ordinary pages. */
static void *allocate_large(int64_t count, size_t bytes) {
    return allocate_huge(count, bytes, 2 * HUGE_PAGE);
}

/* Memory that the interpreter alone uses. */
static void *allocate_own(int64_t count, size_t bytes) {
    return allocate_huge(count, bytes, OWN_LARGE);
}

static int next_character(Reader *reader) {
    int character = getc(reader->file);
    while (character == ' ' || character == '\n') {
        reader->line += character == '\n';
        character = getc(reader->file);
    }
    return character;
}

static void expect_word(Reader *reader, const char *word) {
    int character = next_character(reader);
    for (const char *at = word; *at != '\0'; at++, character = getc(reader->file)) {
        if (character != *at) {
            fail("%s:%lld: expected \"%s\"", reader->path, (long long)reader->line, word);
        }
    }
    ungetc(character, reader->file);
}

static int64_t read_number(Reader *reader, const char *what, int64_t low, int64_t high) {
    int character = next_character(reader), negative = character == '-', digits = 0;
    int64_t value = 0;
    if (negative) {
        character = getc(reader->file);
    }
    for (; character >= '0' && character <= '9' && digits < 18; digits++) {
        value = value * 10 + (character - '0');
        character = getc(reader->file);
    }
    ungetc(character, reader->file);
    value = negative ? -value : value;
    if (digits == 0 || digits == 18 || value < low || value > high) {
        fail("%s:%lld: %s: expected a number from %lld to %lld", reader->path, (long long)reader->line, what,
             (long long)low, (long long)high);
    }
    return value;
}

/* A count of things that take at least two bytes of the file each: bounds memory by the file's size. */
static int64_t read_count(Reader *reader, const char *what) {
    return read_number(reader, what, 0, reader->bytes / 2);
}

static int read_collective(Reader *reader) {
    char name[20];
    int length = 0, character = next_character(reader);
    while (length < 19 && (character == '-' || (character >= 'a' && character <= 'z'))) {
        name[length++] = (char)character;
        character = getc(reader->file);
    }
    name[length] = '\0';
    ungetc(character, reader->file);
    for (int kind = 0; kind < COLLECTIVES; kind++) {
        if (strcmp(name, COLLECTIVE_NAMES[kind]) == 0) {
            return kind;
        }
    }
    fail("%s:%lld: unknown collective", reader->path, (long long)reader->line);
    return -1;
}

static void read_shards(Reader *reader, Program *program) {
    int64_t expected = program->ranks;
    if (program->collective == ALLTOALL) {
        expected *= program->ranks;
    }
    expect_word(reader, "shards");
    program->n_shards = read_count(reader, "number of shards");
    if (program->n_shards != expected) {
        fail("%s:%lld: expected %lld shards", reader->path, (long long)reader->line, (long long)expected);
    }
    program->shards = allocate(program->n_shards + 1, sizeof(int64_t));
    int64_t low = 0;
    for (int64_t i = 0; i <= program->n_shards; i++) {
        low = program->shards[i] = read_number(reader, "start of a shard", low, i == 0 ? 0 : MAX_CHUNKS);
    }
    program->addresses = low;
    if (low < 1 || (program->collective != ALLTOALL && low != program->chunks)) {
        fail("%s:%lld: the shards must cover all chunks", reader->path, (long long)reader->line);
    }
}

static void read_ranges(Reader *reader, Program *program, int buffer, int keep) {
    static const char *const names[BUFFERS] = {"input", "output", "scratch"};
    expect_word(reader, names[buffer]);
    int64_t n = read_count(reader, "number of ranges"), low = 0;
    Range *ranges = allocate(n, sizeof(Range));
    for (int64_t i = 0; i < n; i++) {
        ranges[i].first = read_number(reader, "start of a range", low, program->addresses - 1);
        low = ranges[i].past =
            read_number(reader, "end of a range", ranges[i].first + 1, program->addresses);
    }
    if (!keep) {
        free(ranges);
        return;
    }
    program->ranges[buffer] = ranges;
    program->n_ranges[buffer] = n;
}

/* Place of the range that holds all of [first, first + count), or -1. */
static int64_t find_range(const Program *program, int buffer, int64_t first, int64_t count) {
    const Range *ranges = program->ranges[buffer];
    int64_t low = 0, high = program->n_ranges[buffer];
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (ranges[middle].past <= first) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < program->n_ranges[buffer] && ranges[low].first <= first && first + count <= ranges[low].past) {
        return low;
    }
    return -1;
}

static void read_operation(Reader *reader, Program *program, int rank, int64_t place, int64_t *n_waits) {
    Operation *operation = &program->operations[place];
    int kind = operation->kind = (int)read_number(reader, "kind", SEND, COPY);
    int64_t low = kind == COPY ? -1 : 0, high = kind == COPY ? -1 : program->ranks - 1;
    operation->peer = (int)read_number(reader, "peer", low, high);
    if (operation->peer == rank) {
        fail("%s:%lld: a rank is its own peer", reader->path, (long long)reader->line);
    }
    operation->message = read_number(reader, "message", low, kind == COPY ? -1 : INT32_MAX);
    operation->source = (int)read_number(reader, "source", INPUT, SCRATCH);
    operation->target = (int)read_number(reader, "target", INPUT, SCRATCH);
    operation->first = read_number(reader, "first chunk", 0, program->addresses - 1);
    operation->count = read_number(reader, "number of chunks", 1, program->addresses - operation->first);
    operation->level = read_number(reader, "level", low, kind == COPY ? -1 : INT32_MAX);
    operation->mode = (int)read_number(reader, "mode", SLICED, kind == SEND ? COPIED : WHOLE);
    operation->wait_offset = *n_waits;
    int64_t waits = read_number(reader, "number of waits", 0, place);
    program->waits = realloc(program->waits, (size_t)(*n_waits + waits + 1) * sizeof(int64_t));
    if (program->waits == NULL) {
        fail("out of memory");
    }
    for (int64_t i = 0; i < waits; i++) {
        program->waits[(*n_waits)++] = read_number(reader, "awaited operation", 0, place - 1);
    }
}

static void check_extents(const Reader *reader, const Program *program) {
    for (int64_t place = 0; place < program->n_operations; place++) {
        const Operation *o = &program->operations[place];
        int reads = o->kind == RECEIVE || find_range(program, o->source, o->first, o->count) >= 0;
        int writes = o->kind == SEND || find_range(program, o->target, o->first, o->count) >= 0;
        if (!reads || !writes) {
            fail("%s: rank %d, operation %lld: its chunks are not in its buffers", reader->path,
                 program->rank, (long long)place);
        }
    }
    for (int buffer = INPUT; program->in_place && buffer <= OUTPUT; buffer++) {
        if (program->n_ranges[buffer] > 1) {
            fail("%s: rank %d: in place, input and output must be one range each", reader->path,
                 program->rank);
        }
    }
}

static void skip_operations(Reader *reader) {
    int64_t lines = read_count(reader, "number of operations");
    for (int character = getc(reader->file); lines >= 0; character = getc(reader->file)) {
        if (character == EOF) {
            fail("%s: the file ends early", reader->path);
        }
        if (character == '\n') {
            reader->line++;
            if (lines-- == 0) {
                return;
            }
        }
    }
}

/* Turn the waits round. */
static void find_followers(Program *program, int64_t n_waits) {
    Operation *operations = program->operations;
    program->followers = allocate(n_waits, sizeof(int64_t));
    for (int64_t i = 0; i < n_waits; i++) {
        operations[program->waits[i]].n_followers++;
    }
    for (int64_t place = 0; place < program->n_operations; place++) {
        operations[place].is_awaited = operations[place].n_followers > 0;
        operations[place + 1].follower_offset =
            operations[place].follower_offset + operations[place].n_followers;
        operations[place].n_followers = 0;
    }
    for (int64_t place = 0; place < program->n_operations; place++) {
        for (int64_t i = operations[place].wait_offset; i < operations[place + 1].wait_offset; i++) {
            Operation *awaited = &operations[program->waits[i]];
            program->followers[awaited->follower_offset + awaited->n_followers++] = place;
        }
    }
}

static void read_rank(Reader *reader, Program *program, int rank) {
    int own = rank == program->rank;
    expect_word(reader, "rank");
    read_number(reader, "rank", rank, rank);
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        read_ranges(reader, program, buffer, own);
    }
    expect_word(reader, "operations");
    if (!own) {
        skip_operations(reader);
        return;
    }
    int64_t n_waits = 0;
    program->n_operations = read_count(reader, "number of operations");
    program->operations = allocate(program->n_operations + 1, sizeof(Operation));
    for (int64_t place = 0; place < program->n_operations; place++) {
        read_operation(reader, program, rank, place, &n_waits);
        if (program->operations[place].message > program->largest_message) {
            program->largest_message = program->operations[place].message;
        }
    }
    program->operations[program->n_operations].wait_offset = n_waits;
    check_extents(reader, program);
    find_followers(program, n_waits);
}

/* The header and the part of `program->rank`; a rank of -1 has none. */
static void read_body(Reader *reader, Program *program) {
    expect_word(reader, "treadle-program");
    read_number(reader, "version", 2, 2);
    expect_word(reader, "collective");
    program->collective = read_collective(reader);
    expect_word(reader, "ranks");
    int ranks = (int)read_number(reader, "ranks", 1, MAX_RANKS);
    if (program->ranks != ranks) {
        fail("expected %d processes, one for each rank of %s, found %d", ranks, reader->path, program->ranks);
    }
    int rooted = program->collective == BROADCAST || program->collective == REDUCE;
    expect_word(reader, "root");
    program->root = (int)read_number(reader, "root", rooted ? 0 : -1, rooted ? ranks - 1 : -1);
    expect_word(reader, "chunks");
    program->chunks = read_number(reader, "chunks", 1, MAX_CHUNKS);
    expect_word(reader, "in-place");
    program->in_place = (int)read_number(reader, "in-place", 0, program->collective == ALLTOALL ? 0 : 1);
    read_shards(reader, program);
    for (int i = 0; i < ranks; i++) {
        read_rank(reader, program, i);
    }
    expect_word(reader, "end");
}

/* The group of process `rank`, which the file names with all others', and its part in that group's program. */
static Program read_groups(Reader *reader, int rank, int ranks) {
    Program found = {.ranks = -1};
    expect_word(reader, "treadle-groups");
    read_number(reader, "version", 1, 1);
    expect_word(reader, "groups");
    int groups = (int)read_number(reader, "groups", 1, MAX_GROUPS);
    expect_word(reader, "size");
    int size = (int)read_number(reader, "size", 1, MAX_RANKS);
    if (groups * (int64_t)size != ranks) {
        fail("expected %lld processes, one for each rank of %s, found %d", (long long)groups * size, reader->path,
             ranks);
    }
    for (int group = 0; group < groups; group++) {
        Program program = {.groups = groups, .group = group, .ranks = size, .rank = -1};
        expect_word(reader, "group");
        for (int place = 0; place < size; place++) {
            if (read_number(reader, "rank", 0, ranks - 1) == rank) {
                program.rank = place;
            }
        }
        read_body(reader, &program);
        if (program.rank < 0) {
            free(program.shards);
        } else {
            found = program;
        }
    }
    if (found.ranks < 0) {
        fail("%s: process %d is in no group", reader->path, rank);
    }
    MPI_Comm_split(MPI_COMM_WORLD, found.group, found.rank, &found.communicator);
    return found;
}

/* The part of process `rank`; ends all with a message if the file is malformed or is for another world. */
static Program read_program(const char *path, int rank, int ranks) {
    Reader reader = {.path = path, .file = fopen(path, "rb"), .line = 1};
    Program program = {.communicator = MPI_COMM_WORLD, .groups = 1, .rank = rank, .ranks = ranks};
    char word[9] = "";
    if (reader.file == NULL) {
        fail("%s: cannot be read", path);
    }
    fseek(reader.file, 0, SEEK_END);
    reader.bytes = ftell(reader.file);
    rewind(reader.file);
    size_t length = fread(word, 1, sizeof word, reader.file);
    int has_groups = length == sizeof word && memcmp(word, "treadle-g", length) == 0;
    rewind(reader.file);
    if (has_groups) {
        program = read_groups(&reader, rank, ranks);
    } else {
        read_body(&reader, &program);
    }
    fclose(reader.file);
    return program;
}

#endif
