/* A small service that is rescaled with the C library: two servers become three, and one of the first leaves.
 *
 * Its servers are names in memory, and a bucket is the number of the server that it lies on; where a real service
 * opens connections, this one takes a lock.
 *
 *     cc shelves.c -o shelves -pthread -ltidefs_rescale
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tidefs_rescale.h>

enum { BUCKETS = 24, SERVERS = 3, BUCKET_BYTES = 1 << 20 };

struct shelves {
    pthread_mutex_t lock;
    const char *names[SERVERS];
    int runs[SERVERS];
    int place[BUCKETS];
};

static int number(const struct shelves *it, const char *name) {
    for (int at = 0; at < SERVERS; at++)
        if (strcmp(it->names[at], name) == 0) return at;
    return -1;
}

static int held(const struct shelves *it, int server) {
    int count = 0;
    for (int at = 0; at < BUCKETS; at++) count += it->place[at] == server;
    return count;
}

static int inventory(void *user, tidefs_rescale_inventory *into, tidefs_rescale_words *why) {
    struct shelves *it = user;
    (void)why;
    pthread_mutex_lock(&it->lock);
    for (int at = 0; at < SERVERS; at++)
        if (it->runs[at]) tidefs_rescale_inventory_add_server(into, &(tidefs_rescale_server){.name = it->names[at]});
    for (int at = 0; at < BUCKETS; at++) {
        char name[24];
        snprintf(name, sizeof name, "bucket-%d", at);
        tidefs_rescale_bucket bucket = {.name = name, .server = it->names[it->place[at]], .bytes = BUCKET_BYTES};
        tidefs_rescale_inventory_add_bucket(into, &bucket);
    }
    pthread_mutex_unlock(&it->lock);
    /* An inventory to which something could not be added is not used. */
    return 0;
}

static int start(void *user, const char *server, tidefs_rescale_words *why) {
    struct shelves *it = user;
    int at = number(it, server);
    if (at < 0) {
        tidefs_rescale_say(why, "there is no place for another server");
        return 1;
    }
    pthread_mutex_lock(&it->lock);
    it->runs[at] = 1;
    pthread_mutex_unlock(&it->lock);
    return 0;
}

static int move(void *user, const char *bucket, const char *from, const char *to, tidefs_rescale_words *why) {
    struct shelves *it = user;
    int at = atoi(bucket + strlen("bucket-")), source = number(it, from), target = number(it, to), status = 0;
    pthread_mutex_lock(&it->lock);
    if (it->place[at] == source && it->runs[target])
        it->place[at] = target;
    else
        status = 1;
    pthread_mutex_unlock(&it->lock);
    if (status) tidefs_rescale_say(why, "it is not there, or there is no such server");
    return status;
}

static int stop(void *user, const char *server, tidefs_rescale_words *why) {
    struct shelves *it = user;
    int at = number(it, server), status = 0;
    pthread_mutex_lock(&it->lock);
    if (held(it, at))
        status = 1;
    else
        it->runs[at] = 0;
    pthread_mutex_unlock(&it->lock);
    if (status) tidefs_rescale_say(why, "it holds something");
    return status;
}

static void print(const tidefs_rescale_outcome *outcome, const char *kind, int list) {
    for (size_t at = 0; at < tidefs_rescale_outcome_count(outcome, list); at++)
        fprintf(stderr, "%s: %s\n", kind, tidefs_rescale_outcome_text(outcome, list, at));
}

int main(void) {
    static struct shelves it = {
        .lock = PTHREAD_MUTEX_INITIALIZER, .names = {"server-1", "server-2", "server-3"}, .runs = {1, 1, 0}};
    for (int at = 0; at < BUCKETS; at++) it.place[at] = at % 2;

    tidefs_rescale_server coming = {.name = "server-3"};
    const char *going = "server-1";
    tidefs_rescale_change change = {.start = &coming, .start_count = 1, .stop = &going, .stop_count = 1};
    tidefs_rescale_callbacks callbacks = {.inventory = inventory, .start = start, .move = move, .stop = stop};
    tidefs_rescale_outcome *outcome = NULL;
    char *error = NULL;
    int status = tidefs_rescale_run(&callbacks, &it, &change, NULL, &outcome, &error);
    if (error) fprintf(stderr, "error: %s\n", error);
    print(outcome, "fault", TIDEFS_RESCALE_FAULTS);
    print(outcome, "left", TIDEFS_RESCALE_LEFT);
    for (int at = 0; at < SERVERS; at++)
        if (it.runs[at]) printf("%s: %d buckets\n", it.names[at], held(&it, at));
    tidefs_rescale_outcome_free(outcome);
    tidefs_rescale_text_free(error);
    return status == TIDEFS_RESCALE_OK ? 0 : 1;
}
