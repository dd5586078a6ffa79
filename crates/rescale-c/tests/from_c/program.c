/* A service of C's: buckets in an array, each with its server. Its argument says how its moves go. */

/* For nanosleep. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tidefs_rescale.h"

enum { BUCKETS = 40, SERVERS = 8 };

static struct {
    pthread_mutex_t lock;
    /* Held as long as inventories hang. */
    pthread_mutex_t gate;
    char servers[SERVERS][32];
    int runs[SERVERS];
    int place[BUCKETS];
    const char *manner;
    unsigned long told;
} store = {.lock = PTHREAD_MUTEX_INITIALIZER, .gate = PTHREAD_MUTEX_INITIALIZER};

static int number(const char *server) {
    for (int at = 0; at < SERVERS; at++)
        if (store.runs[at] && strcmp(store.servers[at], server) == 0) return at;
    return -1;
}

static int inventory(void *user, tidefs_rescale_inventory *into, tidefs_rescale_words *why) {
    (void)user;
    (void)why;
    int failed = 0;
    if (strcmp(store.manner, "hangs") == 0) {
        pthread_mutex_lock(&store.gate);
        pthread_mutex_unlock(&store.gate);
    }
    pthread_mutex_lock(&store.lock);
    for (int at = 0; at < SERVERS; at++)
        if (store.runs[at]) {
            tidefs_rescale_server server = {.name = store.servers[at]};
            failed |= tidefs_rescale_inventory_add_server(into, &server);
        }
    for (int at = 0; at < BUCKETS; at++) {
        char name[32];
        snprintf(name, sizeof name, "bucket-%d", at);
        tidefs_rescale_bucket bucket = {.name = name, .server = store.servers[store.place[at]], .bytes = 100};
        failed |= tidefs_rescale_inventory_add_bucket(into, &bucket);
    }
    if (strcmp(store.manner, "unreadable") == 0) {
        tidefs_rescale_bucket bucket = {.name = "bucket-\xff", .server = store.servers[0], .bytes = 100};
        (void)tidefs_rescale_inventory_add_bucket(into, &bucket);
    }
    pthread_mutex_unlock(&store.lock);
    return failed;
}

static int start(void *user, const char *server, tidefs_rescale_words *why) {
    (void)user;
    int status = 1;
    pthread_mutex_lock(&store.lock);
    for (int at = 0; at < SERVERS && status; at++)
        if (!store.runs[at]) {
            snprintf(store.servers[at], sizeof store.servers[at], "%s", server);
            store.runs[at] = 1;
            status = 0;
        }
    pthread_mutex_unlock(&store.lock);
    if (status) tidefs_rescale_say(why, "there is no place for another server");
    return status;
}

static int move(void *user, const char *bucket, const char *from, const char *to, tidefs_rescale_words *why) {
    (void)user;
    if (strcmp(store.manner, "fails") == 0 && strcmp(bucket, "bucket-0") == 0) {
        tidefs_rescale_say(why, "the lid is stuck");
        return 7;
    }
    if (strcmp(store.manner, "lies") == 0 && strcmp(bucket, "bucket-0") == 0) return 0;
    int status = 1;
    pthread_mutex_lock(&store.lock);
    int at = atoi(bucket + strlen("bucket-")), source = number(from), target = number(to);
    if (target >= 0 && store.place[at] == source) {
        store.place[at] = target;
        status = 0;
    }
    pthread_mutex_unlock(&store.lock);
    return status;
}

static int stop(void *user, const char *server, tidefs_rescale_words *why) {
    (void)user;
    (void)why;
    pthread_mutex_lock(&store.lock);
    store.runs[number(server)] = 0;
    pthread_mutex_unlock(&store.lock);
    return 0;
}

static void progress(void *user, const tidefs_rescale_progress *progress) {
    *(unsigned long *)user = (unsigned long)progress->moved;
}

static void print(const tidefs_rescale_outcome *outcome, const char *name, int list) {
    size_t count = tidefs_rescale_outcome_count(outcome, list);
    for (size_t at = 0; at < count; at++) printf("%s: %s\n", name, tidefs_rescale_outcome_text(outcome, list, at));
}

/* Says how many callbacks run, and waits for their end where they are let go. */
static void see_out(const tidefs_rescale_outcome *outcome) {
    printf("running: %lu\n", (unsigned long)tidefs_rescale_outcome_calls_running(outcome));
    pthread_mutex_unlock(&store.gate);
    struct timespec moment = {.tv_nsec = 1000000};
    for (int at = 0; at < 10000 && tidefs_rescale_outcome_calls_running(outcome); at++) nanosleep(&moment, NULL);
    printf("running in the end: %lu\n", (unsigned long)tidefs_rescale_outcome_calls_running(outcome));
}

int main(int count, char **words) {
    store.manner = count > 1 ? words[1] : "well";
    for (int at = 0; at < 2; at++) {
        snprintf(store.servers[at], sizeof store.servers[at], "server-%d", at);
        store.runs[at] = 1;
    }
    for (int at = 0; at < BUCKETS; at++) store.place[at] = at % 2;
    tidefs_rescale_server coming[] = {{.name = "server-8"}, {.name = "server-9"}};
    const char *going[] = {strcmp(store.manner, "refused") == 0 ? "nobody" : "server-0"};
    tidefs_rescale_change change = {coming, 2, going, 1};
    tidefs_rescale_callbacks callbacks = {inventory, start, move, stop, progress, NULL};
    tidefs_rescale_settings settings;
    tidefs_rescale_settings_default(&settings);
    settings.between_inventories = 0.01;
    if (strcmp(store.manner, "argument") == 0) callbacks.move = NULL;
    if (strcmp(store.manner, "hangs") == 0) settings.inventory_within = 0.05;
    pthread_mutex_lock(&store.gate);
    /* What was there before is not taken for an outcome. */
    tidefs_rescale_outcome *outcome = (tidefs_rescale_outcome *)&store;
    char *error = NULL;
    int status = tidefs_rescale_run(&callbacks, &store.told, &change, &settings, &outcome, &error);
    printf("status: %d\n", status);
    if (error) printf("error: %s\n", error);
    see_out(outcome);
    print(outcome, "started", TIDEFS_RESCALE_STARTED);
    print(outcome, "stopped", TIDEFS_RESCALE_STOPPED);
    print(outcome, "fault", TIDEFS_RESCALE_FAULTS);
    print(outcome, "left", TIDEFS_RESCALE_LEFT);
    tidefs_rescale_measures after;
    if (tidefs_rescale_outcome_measures(outcome, TIDEFS_RESCALE_AFTER, &after) == TIDEFS_RESCALE_OK)
        printf("balance: %.2f, told of %lu of %lu\n", after.data_balance, store.told, (unsigned long)after.buckets_moved);
    tidefs_rescale_outcome_free(outcome);
    tidefs_rescale_text_free(error);
    return 0;
}
