/* A load generator that is never the limit: RocketMQ remoting (JSON headers) over epoll, one thread.
 *
 * load MODE HOST PORT CONNECTIONS SECONDS RATE [SAMPLES_FILE]
 *   MODE  commits  each connection owns broker set bench-<i>: takes ids 1-3 (1013), registers them (1003), has a first
 *                  master elected (1002), and then alters its sync state set, epoch after epoch (1001)
 *         reads    the same, and then replica info (1004)
 *         beats    one-way heartbeats (904) for bench-<i>; ends with one 1005, so all were taken when it is answered
 * Only what follows the preparation of all connections is measured.
 *   RATE  0: closed loop, one request in flight per connection (beats: as many as the socket takes)
 *         >0: open loop, that many a second over all connections
 * A latency ends when the kernel has the answer (SO_TIMESTAMPNS), not when this process gets a core to read it. It begins
 * at the send; in the open loop, when the answer before it on its connection came after it was due, at the time due. How
 * late this process itself was with a send is told apart (late_p99_us): it shares the machine with what it measures.
 * Prints "ready" when the measured part begins, and at its end one JSON line: operations, errors, seconds, microseconds p50 p99 p999 max, late_p99, own CPU microseconds per operation.
 * SAMPLES_FILE gets the raw latencies, microseconds, native uint32.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "stamped.h"

enum { REPLICAS = 3, ELECT = 2 * REPLICAS, RESYNC, READY, INBOX = 1 << 16, QUEUE = 1 << 12 };

struct connection {
    int fd, set, step, in_flight, opaque, behind;
    long epoch, master_epoch, master;   /* sync state set epoch, master epoch and master the next 1001 must name */
    int wide;                    /* all three are in the sync state set now, else two of them */
    uint64_t due[QUEUE];         /* scheduled times of requests not yet sent (open loop) */
    unsigned head, tail;
    uint64_t sent_at, freed_at;  /* this request counts from; the answer before it was there at */
    size_t have;
    char inbox[INBOX];
};

static struct connection *connections;
static int connection_count, mode_commits, mode_reads, mode_beats, ready_count;
static uint32_t *samples, *waits;
static size_t sample_count, late_count, sample_room;
static uint64_t errors, operations;
static char first_error[512];
static uint64_t started;
static struct rusage use_before;

static void die(const char *what) { perror(what); exit(2); }

static void say_ready(void) { puts("ready"); fflush(stdout); }

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);           /* the kernel stamps answers by this clock */
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

/* Read what is there; answers the bytes, as recv does, and when the kernel had the last of them, else now. */
static ssize_t take(struct connection *c, uint64_t *at) {
    ssize_t n = stamped(c->fd, c->inbox + c->have, INBOX - c->have, at);
    if (!*at) *at = now_us();
    return n;
}

static void put(struct connection *c, const char *bytes, size_t size) {
    while (size) {
        ssize_t n = send(c->fd, bytes, size, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            fd_set w; FD_ZERO(&w);
            if (c->fd < FD_SETSIZE) { FD_SET(c->fd, &w); select(c->fd + 1, NULL, &w, NULL, NULL); } else usleep(50);
            continue;
        }
        if (n < 0) die("send");
        bytes += n; size -= (size_t)n;
    }
}

static size_t frame(char *out, int code, int flag, int opaque, const char *ext, const char *body) {
    char header[1024];
    int h = snprintf(header, sizeof header,
        "{\"code\":%d,\"extFields\":{%s},\"flag\":%d,\"language\":\"JAVA\",\"opaque\":%d,\"serializeTypeCurrentRPC\":\"JSON\",\"version\":479}",
        code, ext, flag, opaque);
    size_t b = strlen(body);
    uint32_t total = htonl((uint32_t)(4 + (size_t)h + b)), size = htonl((uint32_t)h);
    memcpy(out, &total, 4); memcpy(out + 4, &size, 4);
    memcpy(out + 8, header, (size_t)h); memcpy(out + 8 + h, body, b);
    return 8 + (size_t)h + b;
}

static size_t beat(char *out, int set, int broker, long offset) {
    char ext[512];
    snprintf(ext, sizeof ext, "\"clusterName\":\"bench\",\"brokerName\":\"bench-%d\",\"brokerId\":\"%d\",\"brokerAddr\":\"127.0.0.1:%d\","
        "\"epoch\":\"0\",\"maxOffset\":\"%ld\",\"confirmOffset\":\"%ld\",\"heartbeatTimeoutMills\":\"60000\",\"electionPriority\":\"2147483647\"",
        set, broker, 1, offset, offset);
    return frame(out, 904, 2, 0, ext, "");
}

static void beats_for(struct connection *c) {
    char out[4096]; size_t n = 0;
    for (int broker = 1; broker <= REPLICAS; broker++) n += beat(out + n, c->set, broker, 1000);
    put(c, out, n);
}

static void request(struct connection *c) {
    char out[4096], ext[512], body[128] = "";
    int code = 1004;
    if (c->step <= ELECT) {
        int broker = c->step % REPLICAS + 1;
        if (c->step < REPLICAS) {
            code = 1013;
            snprintf(ext, sizeof ext, "\"clusterName\":\"bench\",\"brokerName\":\"bench-%d\",\"appliedBrokerId\":\"%d\",\"registerCheckCode\":\"127.0.0.1:1;%d\"", c->set, broker, broker);
        } else if (c->step < ELECT) {
            code = 1003;
            snprintf(ext, sizeof ext, "\"clusterName\":\"bench\",\"brokerName\":\"bench-%d\",\"brokerId\":\"%d\",\"brokerAddress\":\"127.0.0.1:1\",\"invokeTime\":\"0\"", c->set, broker);
        } else {
            beats_for(c);
            code = 1002;
            snprintf(ext, sizeof ext, "\"clusterName\":\"bench\",\"brokerName\":\"bench-%d\",\"brokerId\":\"1\",\"designateElect\":\"false\",\"invokeTime\":\"0\"", c->set);
        }
    } else if (mode_commits && c->step == READY) {
        code = 1001;
        snprintf(ext, sizeof ext, "\"brokerName\":\"bench-%d\",\"masterBrokerId\":\"%ld\",\"masterEpoch\":\"%ld\",\"invokeTime\":\"0\"", c->set, c->master, c->master_epoch);
        snprintf(body, sizeof body, "{\"syncStateSet\":[%s],\"syncStateSetEpoch\":%ld}", !c->wide ? "1,2,3" : c->master == 3 ? "1,3" : "1,2", c->epoch);
    } else {
        snprintf(ext, sizeof ext, "\"brokerName\":\"bench-%d\"", c->set);
    }
    c->in_flight = 1;
    put(c, out, frame(out, code, 0, ++c->opaque, ext, body));
}

static void fail(const char *header, const char *body) {
    errors++;
    if (!first_error[0]) snprintf(first_error, sizeof first_error, "%.300s %.150s", header, body);
}

static long number_after(const char *text, const char *key, long otherwise) {
    const char *p = strstr(text, key);
    if (!p) return otherwise;
    p += strlen(key);
    while (*p == '"' || *p == ':' || *p == ' ') p++;
    return strtol(p, NULL, 10);
}

static int members(const char *body) {
    const char *p = strstr(body, "\"syncStateSet\":[");
    int found = 1;
    for (; p && *p && *p != ']'; p++) found += *p == ',';
    return found;
}

/* One answer: update the connection, say whether it counts as an operation. */
static int answered(struct connection *c, char *header, char *body) {
    long code = number_after(header, "\"code\"", -1);
    if (c->step <= ELECT) {
        if (code == 0 || code == 2011) c->step++;
        else { fail(header, body); if (c->step < ELECT) c->step++; else usleep(2000); }   /* it is asked again */
        return 0;
    }
    if (c->step == RESYNC) {                    /* a 1004: where do we stand? */
        c->epoch = number_after(body, "\"syncStateSetEpoch\"", -1);
        c->master_epoch = number_after(header, "\"masterEpoch\"", -1);
        c->master = number_after(header, "\"masterBrokerId\"", -1);
        c->wide = members(body) == 3;
        if (code != 0 || c->master < 1) { fail(header, body); c->step = ELECT; usleep(2000); return 0; }
        c->step = READY; ready_count++;
        return 0;
    }
    if (code != 0) { fail(header, body); if (mode_commits) { c->step = RESYNC; ready_count--; } return 0; }
    if (mode_commits) { c->epoch = number_after(header, "\"newSyncStateSetEpoch\"", c->epoch); c->wide = !c->wide; }
    return 1;
}

static void record(uint64_t us) {
    operations++;
    if (sample_count < sample_room) samples[sample_count++] = us > 0xffffffffu ? 0xffffffffu : (uint32_t)us;
}

static int parse(struct connection *c, uint64_t came) {
    size_t at = 0; int got = 0;
    while (c->have - at >= 8) {
        uint32_t total, size;
        memcpy(&total, c->inbox + at, 4); memcpy(&size, c->inbox + at + 4, 4);
        total = ntohl(total); size = ntohl(size) & 0xffffff;
        if (total + 4 > INBOX) { fprintf(stderr, "frame too large\n"); exit(2); }
        if (c->have - at < 4 + total) break;
        static char header[INBOX], body[INBOX];
        memcpy(header, c->inbox + at + 8, size); header[size] = 0;
        memcpy(body, c->inbox + at + 8 + size, total - 4 - size); body[total - 4 - size] = 0;
        at += 4 + total; got++;
        c->in_flight = 0; c->freed_at = came;
        if (answered(c, header, body)) record(came > c->sent_at ? came - c->sent_at : 0);
    }
    memmove(c->inbox, c->inbox + at, c->have - at); c->have -= at;
    return got;
}

/* Open loop: send what is due; requests on one connection wait for each other. */
static void pump(struct connection *c) {
    if (c->in_flight || c->head == c->tail) return;
    uint64_t due = c->due[c->head++ % QUEUE], now = now_us(), free_at = c->freed_at > due ? c->freed_at : due;
    c->sent_at = c->freed_at > due ? due : now;
    if (late_count < sample_room) waits[late_count++] = now > free_at ? (uint32_t)(now - free_at) : 0;
    request(c);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static double cpu_us(const struct rusage *use) {
    return (double)(use->ru_utime.tv_sec + use->ru_stime.tv_sec) * 1e6 + (double)(use->ru_utime.tv_usec + use->ru_stime.tv_usec);
}

static void report(const char *mode, double seconds, double rate, const char *file) {
    struct rusage use; getrusage(RUSAGE_SELF, &use);
    double cpu = cpu_us(&use) - cpu_us(&use_before);
    if (file) {
        FILE *f = fopen(file, "wb");
        if (!f) die(file);
        fwrite(samples, sizeof *samples, sample_count, f); fclose(f);
    }
    qsort(samples, sample_count, sizeof *samples, by_value);
    qsort(waits, late_count, sizeof *waits, by_value);
#define OF(all, count, q) ((count) ? (all)[(size_t)((double)((count) - 1) * (q))] : 0)
#define AT(q) OF(samples, sample_count, q)
    for (char *p = first_error; *p; p++) if (*p == '"' || *p == '\\' || *p < ' ') *p = '\'';
    printf("{\"mode\":\"%s\",\"operations\":%llu,\"errors\":%llu,\"seconds\":%.3f,\"per_second\":%.1f,\"rate\":%.0f,\"p50_us\":%u,\"p99_us\":%u,\"p999_us\":%u,\"max_us\":%u,\"late_p99_us\":%u,\"client_cpu_us\":%.2f,\"first_error\":\"%s\"}\n",
        mode, (unsigned long long)operations, (unsigned long long)errors, seconds, (double)operations / seconds, rate,
        AT(0.50), AT(0.99), AT(0.999), AT(1.0), OF(waits, late_count, 0.99), operations ? cpu / (double)operations : 0.0, first_error);
}

static void open_all(const char *host, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1) { fprintf(stderr, "HOST must be an IPv4 address\n"); exit(2); }
    for (int i = 0; i < connection_count; i++) {
        struct connection *c = &connections[i];
        int one = 1, small = 1 << 16;
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0) die("socket");
        if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) die("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        if (setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one)) die("SO_TIMESTAMPNS");
        /* What lies in buffers when the time is up is waited for; megabytes of it would take a slow server a minute. */
        if (mode_beats) setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        c->set = i;
    }
}

static uint64_t prepare(int poller, struct epoll_event *events, uint64_t limit) {
    for (int i = 0; i < connection_count; i++) request(&connections[i]);
    while (ready_count < connection_count) {
        int n = epoll_wait(poller, events, 256, 100);
        uint64_t now = now_us(), came;
        if (now > limit) { fprintf(stderr, "not prepared in time: %s\n", first_error); exit(4); }
        for (int k = 0; k < n; k++) {
            struct connection *c = &connections[events[k].data.u32];
            ssize_t r = take(c, &came);
            if (r <= 0) { if (r < 0 && errno == EAGAIN) continue; fprintf(stderr, "connection %d closed\n", c->set); exit(3); }
            c->have += (size_t)r;
            if (parse(c, came) && c->step != READY) request(c);
        }
    }
    sample_count = late_count = 0; operations = 0; errors = 0; first_error[0] = 0;
    return now_us();
}

static void run_requests(int seconds, double rate) {
    int poller = epoll_create1(0);
    struct epoll_event events[256];
    for (int i = 0; i < connection_count; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        epoll_ctl(poller, EPOLL_CTL_ADD, connections[i].fd, &e);
        fcntl(connections[i].fd, F_SETFL, O_NONBLOCK);
    }
    uint64_t start = prepare(poller, events, now_us() + 60000000u), end = start + (uint64_t)seconds * 1000000u;
    uint64_t next = start, beaten = start;
    double gap = rate > 0 ? 1e6 / rate : 0, scheduled = (double)start;
    int turn = 0, done = 0;
    started = start;
    say_ready();
    getrusage(RUSAGE_SELF, &use_before);
    for (int i = 0; rate <= 0 && i < connection_count; i++) { connections[i].sent_at = now_us(); request(&connections[i]); }
    int alarm = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    struct epoll_event ring = {.events = EPOLLIN, .data.u32 = UINT32_MAX};
    epoll_ctl(poller, EPOLL_CTL_ADD, alarm, &ring);
    while (!done) {
        uint64_t now = now_us(), came, rung;
        if (rate > 0 && next > now) {               /* sleep until the next one is due: spinning would cost a core */
            struct itimerspec at = {.it_value = {(time_t)(next / 1000000u), (long)(next % 1000000u) * 1000}};
            timerfd_settime(alarm, TFD_TIMER_ABSTIME, &at, NULL);
        }
        int n = epoll_wait(poller, events, 256, rate > 0 && next <= now && now < end ? 0 : 100);
        now = now_us();
        for (int k = 0; k < n; k++) {
            if (events[k].data.u32 == UINT32_MAX) { if (read(alarm, &rung, sizeof rung) < 0) {} continue; }
            struct connection *c = &connections[events[k].data.u32];
            ssize_t r = take(c, &came);
            if (r <= 0) { if (r < 0 && errno == EAGAIN) continue; fprintf(stderr, "connection %d closed\n", c->set); exit(3); }
            c->have += (size_t)r;
            if (!parse(c, came)) continue;
            if (c->step != READY) request(c);
            else if (rate > 0) pump(c);
            else if (now < end) { c->sent_at = now_us(); request(c); }
        }
        for (; rate > 0 && scheduled <= (double)now && now < end; scheduled += gap, turn++) {
            struct connection *c = &connections[turn % connection_count];
            if (c->tail - c->head >= QUEUE) { errors++; continue; }
            c->due[c->tail++ % QUEUE] = (uint64_t)scheduled;
            if (c->step == READY) pump(c);
        }
        next = (uint64_t)scheduled;
        if (now > beaten + 5000000u) { beaten = now; for (int i = 0; i < connection_count; i++) beats_for(&connections[i]); }
        done = now > end;
        if (done && now < end + 3000000u)
            for (int i = 0; i < connection_count; i++) if (connections[i].in_flight || connections[i].head != connections[i].tail) done = 0;
    }
    for (int i = 0; i < connection_count; i++) errors += (uint64_t)connections[i].in_flight;
}

static void run_beats(int seconds, double rate) {
    static char block[1 << 16];
    say_ready();
    uint64_t start = now_us(), end = start + (uint64_t)seconds * 1000000u;
    double gap = rate > 0 ? 1e6 / rate : 0, scheduled = (double)start;
    for (uint64_t turn = 0; ; turn++) {
        uint64_t now = now_us();
        if (now >= end) break;
        struct connection *c = &connections[turn % (uint64_t)connection_count];
        if (rate > 0) {
            while ((double)now < scheduled) { struct timespec t = {0, 20000}; nanosleep(&t, NULL); now = now_us(); }
            scheduled += gap;
            put(c, block, beat(block, c->set, 1, (long)turn));
            operations++;
        } else {
            size_t n = 0; int k = 0;
            for (; k < 64; k++) n += beat(block + n, c->set, 1, (long)(turn * 64) + k);
            put(c, block, n); operations += (uint64_t)k;
        }
    }
    /* fence: every connection answers once all before it was taken */
    for (int i = 0; i < connection_count; i++) {
        char out[2048];
        connections[i].in_flight = 1;
        put(&connections[i], out, frame(out, 1005, 0, 1, "", ""));
    }
    for (int i = 0; i < connection_count; i++) {
        struct connection *c = &connections[i];
        ssize_t r = recv(c->fd, c->inbox, INBOX, 0);
        if (r <= 0) die("fence");
    }
}

int main(int argc, char **argv) {
    if (argc < 7) { fprintf(stderr, "usage: load commits|reads|beats HOST PORT CONNECTIONS SECONDS RATE [SAMPLES_FILE]\n"); return 2; }
    const char *mode = argv[1];
    mode_commits = !strcmp(mode, "commits"); mode_reads = !strcmp(mode, "reads");
    mode_beats = !strcmp(mode, "beats");
    if (!(mode_commits | mode_reads | mode_beats)) { fprintf(stderr, "unknown mode %s\n", mode); return 2; }
    connection_count = atoi(argv[4]);
    int seconds = atoi(argv[5]); double rate = atof(argv[6]);
    connections = calloc((size_t)connection_count, sizeof *connections);
    sample_room = 16u << 20; samples = malloc(sample_room * sizeof *samples); waits = malloc(sample_room * sizeof *waits);
    if (!connections || !samples || !waits) die("memory");
    open_all(argv[2], atoi(argv[3]));
    started = now_us();
    if (mode_beats) run_beats(seconds, rate); else run_requests(seconds, rate);
    report(mode, (double)(now_us() - started) / 1e6, rate, argc > 7 ? argv[7] : NULL);
    return errors ? 1 : 0;
}
