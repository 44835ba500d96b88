/* Runs, checks and times a program over MPI; built on demand by treadle/runtime/mpi_c.py, also by smpicc.

   interpreter PROGRAM --sizes BYTES[,BYTES...] [options]
     --type float32|int32    elements (float32)
     --iterations N          timed runs of a size at most (20)
     --warmup N              runs before them at most (2)
     --budget SECONDS        no more runs of a size after so long (1)
     --slice BYTES           largest message, more or less (524288)
     --window N              slices under way at once (4)
     --ahead BYTES           receives that reduce, posted before their turn (262144); 0: all at once
     --piece BYTES           longest message that is packed with others (16384); 0: every operation is a message
     --bundle BYTES          longest message packed of several (65536)
     --reference             also time MPI's own collective, on the same buffers
     --rounds                also time the same bytes between the same ranks in bare rounds: see rounds.h
     --no-data               move messages of the right size without filling or checking buffers
     --align                 MPI_Wtime is one clock for all ranks (a simulator): all start at the same time
     --start SECONDS         all ranks are on one host: each run starts at one time for all, so long after they have
                             met, and is timed from there; 0: each from when it leaves a barrier (0)

   PROGRAM may hold a program for each of several groups of processes: each group has a communicator of its own,
   and data of its own, and all start together.

   Rank 0 prints one JSON object a line for each size; times are the slowest rank's, in seconds, and `messages`
   are those that the rank with the most sends in a run; of several groups, `worst_group` has the most wrong
   elements. */
#include <mpi.h>

#include <time.h>

#include "engine.h"
#include "reference.h"
#include "rounds.h"

typedef struct {
    const char *program, *sizes;
    ElementType type;
    int iterations, warmup, has_reference, has_rounds, has_data, is_aligned;
    double budget_s, start_s;
    int64_t slice_bytes, window, ahead_bytes, piece_bytes, bundle_bytes;
} Options;

#define ALIGN_S 1e-3

static int64_t parse_number(const char *text, const char *what, int64_t low, int64_t high) {
    char *end = NULL;
    long long value = text == NULL ? 0 : strtoll(text, &end, 10);
    if (text == NULL || end == text || *end != '\0' || value < low || value > high) {
        fail("%s: expected a number from %lld to %lld, found %s", what, (long long)low, (long long)high,
             text == NULL ? "nothing" : text);
    }
    return value;
}

static ElementType parse_type(const char *text) {
    if (text != NULL && strcmp(text, "int32") == 0) {
        return INT32;
    }
    if (text == NULL || strcmp(text, "float32") != 0) {
        fail("--type: expected float32 or int32");
    }
    return FLOAT32;
}

static Options parse_options(int n, char **arguments) {
    Options options = {.type = FLOAT32, .iterations = 20, .warmup = 2, .has_data = 1, .budget_s = 1.0,
                       .slice_bytes = 1 << 19, .window = 4, .ahead_bytes = 1 << 18,
                       .piece_bytes = 1 << 14, .bundle_bytes = 1 << 16};
    for (int i = 1; i < n; i++) {
        const char *name = arguments[i], *value = i + 1 < n ? arguments[i + 1] : NULL;
        i++; /* most take a value */
        if (strcmp(name, "--sizes") == 0) {
            options.sizes = value;
        } else if (strcmp(name, "--type") == 0) {
            options.type = parse_type(value);
        } else if (strcmp(name, "--iterations") == 0) {
            options.iterations = (int)parse_number(value, name, 1, 1000000);
        } else if (strcmp(name, "--warmup") == 0) {
            options.warmup = (int)parse_number(value, name, 0, 1000000);
        } else if (strcmp(name, "--budget") == 0) {
            options.budget_s = value == NULL ? 0.0 : atof(value);
        } else if (strcmp(name, "--start") == 0) {
            options.start_s = value == NULL ? 0.0 : atof(value);
        } else if (strcmp(name, "--slice") == 0) {
            options.slice_bytes = parse_number(value, name, ELEMENT_BYTES, (int64_t)1 << 40);
        } else if (strcmp(name, "--window") == 0) {
            options.window = parse_number(value, name, 1, (int64_t)1 << 40);
        } else if (strcmp(name, "--ahead") == 0) {
            options.ahead_bytes = parse_number(value, name, 0, (int64_t)1 << 40);
        } else if (strcmp(name, "--piece") == 0) {
            options.piece_bytes = parse_number(value, name, 0, 1 << 30);
        } else if (strcmp(name, "--bundle") == 0) {
            options.bundle_bytes = parse_number(value, name, ELEMENT_BYTES, 1 << 30);
        } else {
            i--;
            if (strcmp(name, "--reference") == 0) {
                options.has_reference = 1;
            } else if (strcmp(name, "--rounds") == 0) {
                options.has_rounds = 1;
            } else if (strcmp(name, "--no-data") == 0) {
                options.has_data = 0;
            } else if (strcmp(name, "--align") == 0) {
                options.is_aligned = 1;
            } else if (name[0] == '-' || options.program != NULL) {
                fail("unknown argument %s", name);
            } else {
                options.program = name;
            }
        }
    }
    if (options.program == NULL || options.sizes == NULL) {
        fail("expected: interpreter PROGRAM --sizes BYTES");
    }
    if (options.has_reference && !options.has_data) {
        fail("--reference needs the buffers that --no-data leaves out");
    }
    return options;
}

/* Of this host, the same for all its processes: MPI_Wtime may count from each process's first call. */
static double host_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Start at one time on one host; that time by MPI_Wtime. Where links are slow, ranks leave a barrier long after each
   other, and what the first waits for the last would count as the collective's. */
static double together_at(double start_s) {
    double now = host_clock(), start;
    MPI_Allreduce(&now, &start, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    start += start_s;
    double pause = start - host_clock();
    if (pause > 0) {
        struct timespec left = {.tv_sec = (time_t)pause};
        left.tv_nsec = (long)((pause - (double)left.tv_sec) * 1e9);
        nanosleep(&left, NULL);
    }
    return MPI_Wtime() - (host_clock() - start);
}

/* Start together; the time at the start. */
static double together(const Options *options) {
    if (options->start_s > 0) {
        return together_at(options->start_s);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double now = MPI_Wtime();
    if (!options->is_aligned) {
        return now;
    }
    double start;
    MPI_Allreduce(&now, &start, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    start += ALIGN_S;
    double pause = start - MPI_Wtime();
    struct timespec left = {.tv_sec = (time_t)pause};
    left.tv_nsec = (long)((pause - (double)left.tv_sec) * 1e9 + 0.5);
    nanosleep(&left, NULL);
    return MPI_Wtime();
}

/* Seconds of the slowest rank. */
static double slowest(double seconds) {
    double result;
    MPI_Allreduce(&seconds, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
}

static double timed_run(const Options *options, Engine *engine, const Pattern *pattern, int refill) {
    const Memory *memory = engine->memory;
    if (memory->has_data && (refill || memory->program->in_place)) {
        fill_input(memory, pattern); /* in place the last run has overwritten it */
    }
    reset(engine);
    double begin = together(options);
    execute(engine);
    return slowest(MPI_Wtime() - begin);
}

/* The group with the most wrong elements, given those of this rank; -1 where none has any. */
static int worst_group(const Program *program, int64_t wrong) {
    int64_t own = 0, most = 0;
    int group, worst = program->groups;
    MPI_Allreduce(&wrong, &own, 1, MPI_INT64_T, MPI_SUM, program->communicator);
    MPI_Allreduce(&own, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    group = own == most ? program->group : program->groups;
    MPI_Allreduce(&group, &worst, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return most > 0 ? worst : -1;
}

static int64_t checked_run(const Options *options, Engine *engine, const Pattern *pattern, double *seconds,
                           int *worst) {
    int64_t wrong = 0, total = 0;
    if (engine->memory->has_data) {
        poison(engine->memory);
    }
    *seconds = timed_run(options, engine, pattern, 1);
    if (engine->memory->has_data) {
        wrong = count_wrong(engine->memory, pattern);
    }
    *worst = engine->memory->program->groups > 1 ? worst_group(engine->memory->program, wrong) : -1;
    MPI_Allreduce(&wrong, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

static double timed_reference(const Options *options, const Engine *engine, const Reference *reference) {
    double begin = together(options);
    call_reference(engine->memory, reference, engine->type);
    return slowest(MPI_Wtime() - begin);
}

static double timed_rounds(const Options *options, const Engine *engine, const Rounds *rounds) {
    double begin = together(options);
    execute_rounds(rounds, engine->memory->program->communicator, engine->type);
    return slowest(MPI_Wtime() - begin);
}

/* Seconds of every run, by what was run. */
typedef struct {
    int n;
    double *own, *reference, *rounds;
} Times;

/* Alternating, so that all meet the same load of the machine. */
static void time_runs(const Options *options, Engine *engine, const Pattern *pattern, Times *times) {
    Reference reference = {0};
    Rounds rounds = {0};
    if (options->has_reference) {
        reference = make_reference(engine->memory);
        timed_reference(options, engine, &reference);
    }
    if (options->has_rounds) {
        rounds = make_rounds(engine->memory);
        timed_rounds(options, engine, &rounds);
    }
    for (int i = 0; i < times->n; i++) {
        times->own[i] = timed_run(options, engine, pattern, 0);
        if (options->has_reference) {
            times->reference[i] = timed_reference(options, engine, &reference);
        }
        if (options->has_rounds) {
            times->rounds[i] = timed_rounds(options, engine, &rounds);
        }
    }
    free_reference(&reference);
    free_rounds(&rounds);
}

static void print_times(const char *key, const double *times, int n) {
    printf(", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        printf("%s%.9g", i > 0 ? ", " : "", times[i]);
    }
    printf("]");
}

static int64_t slices_for(const Program *program, int64_t count, int64_t slice_bytes) {
    int64_t chunk = (count + program->chunks - 1) / program->chunks * ELEMENT_BYTES;
    int64_t slices = (chunk + slice_bytes - 1) / slice_bytes;
    return slices > 0 ? slices : 1;
}

static void check_tags(const Program *program, int64_t slices) {
    int *limit = NULL, found = 0;
    int64_t largest = 0, own = (program->largest_message + 1) * slices;
    MPI_Allreduce(&own, &largest, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &found);
    if (largest > INT32_MAX || (found && largest > *limit)) {
        fail("this program at this size needs %lld tags, more than MPI has; use larger slices",
             (long long)largest);
    }
}

static int64_t measure(const Options *options, const Program *program, int64_t size_bytes) {
    int64_t count = size_bytes / ELEMENT_BYTES;
    int64_t slices = slices_for(program, count, options->slice_bytes), most = 0;
    check_tags(program, slices);
    if (longest_piece(program, count, slices) > INT32_MAX || count > INT32_MAX) {
        fail("size %lld is too large for one message; use smaller slices", (long long)size_bytes);
    }
    Memory memory = make_memory(program, options->type, count, slices, options->has_data);
    Pattern pattern = make_pattern(options->has_data ? program->ranks : 1, count, program->group);
    int polls = options->has_data && !options->is_aligned; /* polling costs simulated time */
    Engine engine = make_engine(&memory, make_bundles(&memory, options->piece_bytes, options->bundle_bytes),
                                options->window, polls ? options->ahead_bytes : 0);
    engine.copies_all = options->is_aligned; /* a copy costs no simulated time */
    double first_s;
    int worst = -1, world_rank;
    int64_t wrong = checked_run(options, &engine, &pattern, &first_s, &worst), messages = 0;
    MPI_Reduce(&engine.n_sent, &messages, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    double pace_s = first_s; /* the first run also connects the ranks */
    int warmed = 0;
    for (; warmed < options->warmup && first_s < options->budget_s && warmed * pace_s < options->budget_s;
         warmed++) {
        double seconds = timed_run(options, &engine, &pattern, 0);
        pace_s = seconds < pace_s ? seconds : pace_s;
    }
    most = pace_s > 0 ? (int64_t)(options->budget_s / pace_s) : options->iterations;
    most = most < 1 ? 1 : most;
    int n = options->iterations < most ? options->iterations : (int)most;
    Times times = {.n = n, .own = allocate(n, sizeof(double)), .reference = allocate(n, sizeof(double)),
                   .rounds = allocate(n, sizeof(double))};
    time_runs(options, &engine, &pattern, &times);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (world_rank == 0) {
        printf("{\"size_bytes\": %lld, \"wrong\": %lld, \"checked\": %s, \"messages\": %lld",
               (long long)count * ELEMENT_BYTES, (long long)wrong, options->has_data ? "true" : "false",
               (long long)messages);
        print_times("times_s", times.own, n);
        if (worst >= 0) {
            printf(", \"worst_group\": %d", worst);
        }
        if (options->has_reference) {
            print_times("reference_times_s", times.reference, n);
        }
        if (options->has_rounds) {
            print_times("rounds_times_s", times.rounds, n);
        }
        printf("}\n");
        fflush(stdout);
    }
    free(times.own);
    free(times.reference);
    free(times.rounds);
    free_engine(&engine);
    free_memory(&memory);
    free(pattern.values);
    free(pattern.sums);
    return wrong;
}

int main(int n, char **arguments) {
    int rank, ranks;
    int64_t wrong = 0;
    MPI_Init(&n, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    Options options = parse_options(n, arguments);
    Program program = read_program(options.program, rank, ranks);
    char *sizes = allocate((int64_t)strlen(options.sizes) + 1, 1);
    strcpy(sizes, options.sizes);
    char *rest = NULL; /* strtok's own state is shared by the ranks of a simulation */
    for (char *size = strtok_r(sizes, ",", &rest); size != NULL; size = strtok_r(NULL, ",", &rest)) {
        wrong += measure(&options, &program, parse_number(size, "--sizes", 0, (int64_t)1 << 40));
    }
    MPI_Finalize();
    return wrong > 0;
}
