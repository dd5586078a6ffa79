/* Rescaling for services that keep buckets on servers: inventory in, plan out, and a rescaling that is
 * driven by callbacks. The library moves no data itself.
 *
 * Text is UTF-8 that ends with a zero byte. What a function is given it copies; what it gives belongs to the
 * handle that it was asked of, unless it says otherwise. A handle is used by one thread at a time. Handles
 * may be freed as NULL.
 */

#ifndef TIDEFS_RESCALE_H
#define TIDEFS_RESCALE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a function returns. */
enum {
    TIDEFS_RESCALE_OK = 0,
    /* It was refused, and nothing was done; the error says why. */
    TIDEFS_RESCALE_REFUSED = 1,
    /* It was carried out as far as that is possible; the outcome says what is not as it was asked for. */
    TIDEFS_RESCALE_UNFINISHED = 2,
    /* An argument is NULL that must not be, is no UTF-8, or names no choice; nothing was done. */
    TIDEFS_RESCALE_ARGUMENT = 3,
    /* The library failed inside. */
    TIDEFS_RESCALE_INTERNAL = 4
};

typedef struct tidefs_rescale_inventory tidefs_rescale_inventory;
typedef struct tidefs_rescale_plan tidefs_rescale_plan;
typedef struct tidefs_rescale_outcome tidefs_rescale_outcome;
/* Where a callback that fails says why. */
typedef struct tidefs_rescale_words tidefs_rescale_words;

/* A server. Zeroes and NULL are what is usual. */
typedef struct {
    const char *name;
    /* Servers of a kind; NULL where all are alike. */
    const char *class_name;
    /* How much it should hold beside the others; 0 is 1. */
    double weight;
    /* Bytes a second that it can send, and receive at the same time; 0 is 1.25e9. */
    double bandwidth;
    /* Bytes of buckets that it can hold; 0 is no limit. */
    uint64_t capacity_bytes;
} tidefs_rescale_server;

typedef struct {
    const char *name;
    /* The server that it lies on. */
    const char *server;
    uint64_t bytes;
    /* What it is asked for, in any unit; 0 for all balances their numbers. */
    double load;
    /* The class of the servers that it may lie on; NULL where it may lie on any. */
    const char *class_name;
} tidefs_rescale_bucket;

typedef struct {
    const char *bucket;
    const char *from;
    const char *to;
    uint64_t bytes;
} tidefs_rescale_move;

/* Balances are over an even share: 1 is even. */
typedef struct {
    double load_balance;
    double data_balance;
    /* What the busiest link needs, at its bandwidth. */
    double seconds;
    uint64_t bytes_moved;
    uint64_t buckets_moved;
} tidefs_rescale_measures;

typedef struct {
    uint64_t moved;
    uint64_t bytes_moved;
    uint64_t to_move;
    uint64_t moving;
    uint64_t started;
    uint64_t stopped;
    uint64_t faults;
} tidefs_rescale_progress;

/* The servers that come, and the names of those that go. */
typedef struct {
    const tidefs_rescale_server *start;
    size_t start_count;
    const char *const *stop;
    size_t stop_count;
} tidefs_rescale_change;

typedef struct {
    /* What matters: "l", "lt", "dt", "ldt", or three weights of load, data and time such as "1,0.5,2";
     * NULL is "ldt". */
    const char *strategy;
    /* Moves that a server sends at a time, and those that it receives. */
    uint32_t moves_per_server;
    /* Callbacks that are called at a time, those that hang counted. */
    uint32_t calls_at_once;
    /* How often a move, an inventory or a stop is tried, or something must be missing to be believed gone. */
    uint32_t attempts;
    /* From the start of an inventory to the start of the next, at least; in seconds. */
    double between_inventories;
    /* How long a callback may take before it counts as one that hangs; in seconds. */
    double inventory_within;
    double start_within;
    double move_within;
    double stop_within;
} tidefs_rescale_settings;

/* What a service offers. All but `progress` and `clock` must be there. Each returns 0 if it did what it was
 * asked for, and anything else, perhaps after tidefs_rescale_say, if not. They are called from several
 * threads of the library at a time, and must neither throw nor longjmp out. What they say is not relied on: the
 * inventory is. */
typedef struct {
    /* Adds all servers and buckets that there are to `into`, asked of the servers themselves. */
    int (*inventory)(void *user, tidefs_rescale_inventory *into, tidefs_rescale_words *why);
    int (*start)(void *user, const char *server, tidefs_rescale_words *why);
    /* The bucket is whole on its old server until it is whole on the new one. */
    int (*move)(void *user, const char *bucket, const char *from, const char *to,
                tidefs_rescale_words *why);
    /* Fails where the server holds something after all. */
    int (*stop)(void *user, const char *server, tidefs_rescale_words *why);
    /* Is told how far it is; may be NULL. */
    void (*progress)(void *user, const tidefs_rescale_progress *progress);
    /* Seconds since any moment, by which time limits are measured; NULL is the system's clock. */
    double (*clock)(void *user);
} tidefs_rescale_callbacks;

/* Lists of an outcome. */
enum {
    TIDEFS_RESCALE_STARTED = 0,
    TIDEFS_RESCALE_STOPPED = 1,
    /* Servers that were started, to which nothing could be moved, and that were stopped again. */
    TIDEFS_RESCALE_ROLLED_BACK = 2,
    /* What went wrong, mended or not: sentences. */
    TIDEFS_RESCALE_FAULTS = 3,
    /* What is not as it was asked for: sentences. */
    TIDEFS_RESCALE_LEFT = 4
};

/* Measures of an outcome or a plan: as it was, as it is or would be, and what no plan undercuts that ends
 * even (of which only `seconds` and `bytes_moved` are set). */
enum { TIDEFS_RESCALE_BEFORE = 0, TIDEFS_RESCALE_AFTER = 1, TIDEFS_RESCALE_LEAST = 2 };

/* An inventory to which something could not be added is not used: the callback that fills it has failed,
 * whatever it returns, and a plan of it returns ARGUMENT. */
tidefs_rescale_inventory *tidefs_rescale_inventory_new(void);
int tidefs_rescale_inventory_add_server(tidefs_rescale_inventory *into, const tidefs_rescale_server *server);
int tidefs_rescale_inventory_add_bucket(tidefs_rescale_inventory *into, const tidefs_rescale_bucket *bucket);
void tidefs_rescale_inventory_free(tidefs_rescale_inventory *inventory);

void tidefs_rescale_say(tidefs_rescale_words *why, const char *text);

/* Plans, and moves nothing. `plan` is NULL unless this returns OK. `error`, unless NULL, gets a text for tidefs_rescale_text_free, or NULL. */
int tidefs_rescale_plan_make(const tidefs_rescale_inventory *inventory, const tidefs_rescale_change *change,
                             const char *strategy, tidefs_rescale_plan **plan, char **error);
size_t tidefs_rescale_plan_moves(const tidefs_rescale_plan *plan);
int tidefs_rescale_plan_move(const tidefs_rescale_plan *plan, size_t at, tidefs_rescale_move *move);
int tidefs_rescale_plan_measures(const tidefs_rescale_plan *plan, int which,
                                 tidefs_rescale_measures *measures);
void tidefs_rescale_plan_free(tidefs_rescale_plan *plan);

void tidefs_rescale_settings_default(tidefs_rescale_settings *settings);

/* Starts servers, moves buckets and stops servers until all is as `change` says, or cannot be. `settings`
 * may be NULL. `outcome` is NULL with ARGUMENT, and with anything else to be freed; with REFUSED and INTERNAL it
 * says nothing but the following. `user` must stay valid as long as callbacks run, which those that hang do after
 * this has returned, whatever it returned: until tidefs_rescale_outcome_calls_running is 0. */
int tidefs_rescale_run(const tidefs_rescale_callbacks *callbacks, void *user,
                       const tidefs_rescale_change *change, const tidefs_rescale_settings *settings,
                       tidefs_rescale_outcome **outcome, char **error);
size_t tidefs_rescale_outcome_count(const tidefs_rescale_outcome *outcome, int list);
/* NULL where there is no such entry. */
const char *tidefs_rescale_outcome_text(const tidefs_rescale_outcome *outcome, int list, size_t at);
/* Why it ended before its end; NULL where it did not. */
const char *tidefs_rescale_outcome_halted(const tidefs_rescale_outcome *outcome);
int tidefs_rescale_outcome_measures(const tidefs_rescale_outcome *outcome, int which,
                                    tidefs_rescale_measures *measures);
double tidefs_rescale_outcome_seconds(const tidefs_rescale_outcome *outcome);
/* Threads that are in a callback, or may call another, by now. Once it is 0 it stays so. */
uint64_t tidefs_rescale_outcome_calls_running(const tidefs_rescale_outcome *outcome);
void tidefs_rescale_outcome_free(tidefs_rescale_outcome *outcome);

void tidefs_rescale_text_free(char *text);

#ifdef __cplusplus
}
#endif

#endif
