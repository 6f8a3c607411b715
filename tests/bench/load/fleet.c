/* A fleet of brokers: SETS broker sets of two, each broker with its own connection to every controller, one heartbeat a
 * second each, spread evenly; brokers acknowledge role changes. On the word "kill N" (a line on standard input) the
 * next N masters vanish: all their connections close at once, and nobody listens at their addresses.
 *
 * fleet SETS LEADER_PORT PORT [PORT ...]      (controllers on 127.0.0.1)
 * Prints one JSON line per event: ready; killed (Unix ms); each second "probe" with the two-way heartbeat's
 * microseconds p50, p99, max since the last one: from its send until the kernel has the answer (SO_TIMESTAMPNS), for this
 * process has much else to do and shares its core. "probes 0" stops these two-way heartbeats, "probes 1" goes on with them.
 * "quit" or end of input ends it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "stamped.h"

enum { CONTROLLERS_MAX = 5, PROBES = 4096, BUFFER = 1 << 16, BATCH = 50 };

static int sets, controllers, ports[CONTROLLERS_MAX], answer_port, poller, listener;
static int *lines;                              /* [set][replica][controller] */
static uint32_t probes[PROBES];
static int probe_count, probe_fd, probing = 1;

static void die(const char *what) { perror(what); exit(2); }
static uint64_t now_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}
#define MONO() now_us(CLOCK_MONOTONIC)
#define LINE(set, replica, controller) lines[((set) * 2 + (replica)) * controllers + (controller)]

static int dial(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd < 0) die("socket");
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
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

static void put(int fd, const char *bytes, size_t size) {
    while (size) {
        ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
        if (n < 0) { if (errno == EAGAIN || errno == EINTR) { usleep(20); continue; } die("send"); }
        bytes += n; size -= (size_t)n;
    }
}

static const char *address(int replica) {
    static char text[2][32];
    if (!text[0][0]) { snprintf(text[0], 32, "127.0.0.1:1"); snprintf(text[1], 32, "127.0.0.1:%d", answer_port); }
    return text[replica];
}

static size_t beat(char *out, int set, int replica, int flag) {
    char ext[512];
    snprintf(ext, sizeof ext, "\"clusterName\":\"fleet\",\"brokerName\":\"fleet-%d\",\"brokerId\":\"%d\",\"brokerAddr\":\"%s\","
        "\"epoch\":\"0\",\"maxOffset\":\"1000\",\"confirmOffset\":\"1000\",\"heartbeatTimeoutMills\":\"10000\",\"electionPriority\":\"2147483647\"",
        set, replica + 1, address(replica));
    return frame(out, 904, flag, 7, ext, "");
}

/* Send and wait for the one answer; Unix microseconds when the kernel had the last of it. */
static uint64_t ask(int fd, int code, const char *ext) {
    static char reply[BUFFER];
    char out[4096];
    size_t have = 0;
    put(fd, out, frame(out, code, 0, 1, ext, ""));
    for (;;) {
        uint64_t came;
        ssize_t n = stamped(fd, reply + have, BUFFER - have, &came);
        if (n <= 0) die("recv");
        have += (size_t)n;
        uint32_t total;
        if (have < 4 || (memcpy(&total, reply, 4), have < 4 + ntohl(total))) continue;
        if (!came) die("no SCM_TIMESTAMPNS");
        return came;
    }
}

static long number(const char *text, const char *key) {
    const char *p = strstr(text, key);
    if (!p) return -1;
    for (p += strlen(key); *p == '"' || *p == ':'; p++) {}
    return strtol(p, NULL, 10);
}

/* Founding: the same request for a batch of sets at once, each again until it is taken. */
static struct set { long epoch, sync; int done; } *known;
static int founding;                            /* replica */

static void applies(int set, char *ext, char *body) {
    (void)body;
    snprintf(ext, 512, "\"clusterName\":\"fleet\",\"brokerName\":\"fleet-%d\",\"appliedBrokerId\":\"%d\",\"registerCheckCode\":\"%s;%d\"", set, founding + 1, address(founding), founding);
}

static void registers(int set, char *ext, char *body) {
    (void)body;
    snprintf(ext, 512, "\"clusterName\":\"fleet\",\"brokerName\":\"fleet-%d\",\"brokerId\":\"%d\",\"brokerAddress\":\"%s\",\"invokeTime\":\"0\"", set, founding + 1, address(founding));
}

static void elects(int set, char *ext, char *body) {
    (void)body;
    snprintf(ext, 512, "\"clusterName\":\"fleet\",\"brokerName\":\"fleet-%d\",\"brokerId\":\"1\",\"designateElect\":\"false\",\"invokeTime\":\"0\"", set);
}

static void grows(int set, char *ext, char *body) {
    snprintf(ext, 512, "\"brokerName\":\"fleet-%d\",\"masterBrokerId\":\"1\",\"masterEpoch\":\"%ld\",\"invokeTime\":\"0\"", set, known[set].epoch);
    snprintf(body, 128, "{\"syncStateSet\":[1,2],\"syncStateSetEpoch\":%ld}", known[set].sync);
}

static void every(int leader, int code, int first, int end, void (*fill)(int, char *, char *)) {
    static char out[1 << 17], in[1 << 18];
    char last[512] = "";
    for (int set = first; set < end; set++) known[set].done = 0;
    for (int tries = 0; tries < 500; tries++) { /* heartbeats come by other connections: an election may be too early */
        size_t size = 0, have = 0, at = 0;
        int asked = 0;
        for (int set = first; set < end; set++) {
            char ext[512], body[128] = "";
            if (known[set].done) continue;
            fill(set, ext, body);
            size += frame(out + size, code, 0, set, ext, body);
            asked++;
        }
        if (!asked) return;
        if (tries) usleep(2000);
        put(leader, out, size);
        while (asked) {
            ssize_t n = recv(leader, in + have, sizeof in - have, 0);
            if (n <= 0) die("recv");
            for (have += (size_t)n; have - at >= 4;) {
                uint32_t total;
                char text[2048];
                memcpy(&total, in + at, 4); total = ntohl(total);
                if (have - at < 4 + total) break;
                size_t length = total - 4 < sizeof text - 1 ? total - 4 : sizeof text - 1;
                memcpy(text, in + at + 8, length); text[length] = 0;
                at += 4 + total; asked--;
                long set = number(text, "\"opaque\"");
                if (set < first || set >= end) { fprintf(stderr, "%d: an answer to nobody: %s\n", code, text); exit(2); }
                if (number(text, "\"code\"")) { snprintf(last, sizeof last, "%.500s", text); continue; }
                known[set].done = 1;
                if (code == 1002) { known[set].epoch = number(text, "\"masterEpoch\""); known[set].sync = number(text, "\"syncStateSetEpoch\""); }
            }
        }
    }
    fprintf(stderr, "%d was refused to the end: %s\n", code, last);
    exit(2);
}

static void found_sets(int leader, int first, int end) {
    char out[2048];
    for (founding = 0; founding < 2; founding++) {
        every(leader, 1013, first, end, applies);
        every(leader, 1003, first, end, registers);
        for (int set = first; set < end; set++)
            for (int c = 0; c < controllers; c++) put(LINE(set, founding, c), out, beat(out, set, founding, 2));
    }
    every(leader, 1002, first, end, elects);
    every(leader, 1001, first, end, grows);
}

static void listen_for_role_changes(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1024)) die("listen");
    getsockname(listener, (struct sockaddr *)&at, &size);
    answer_port = ntohs(at.sin_port);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
}

/* Requests of controllers (1008): acknowledge each. A frame is small and comes whole, or in the next read. */
static void acknowledge(int fd) {
    static char in[BUFFER];
    static struct { size_t have; char bytes[8192]; } *tails;
    if (!tails) tails = calloc(65536, sizeof *tails);
    ssize_t n = recv(fd, in, sizeof in, MSG_DONTWAIT);
    if (n <= 0) { if (n == 0 || errno != EAGAIN) { tails[fd].have = 0; close(fd); } return; }
    if (tails[fd].have + (size_t)n > sizeof tails[fd].bytes) { close(fd); return; }
    memcpy(tails[fd].bytes + tails[fd].have, in, (size_t)n);
    size_t have = tails[fd].have + (size_t)n, at = 0;
    for (;;) {
        uint32_t total;
        if (have - at < 8) break;
        memcpy(&total, tails[fd].bytes + at, 4); total = ntohl(total);
        if (have - at < 4 + total) break;
        char text[4096], out[512];
        size_t length = total - 4 < sizeof text - 1 ? total - 4 : sizeof text - 1;
        memcpy(text, tails[fd].bytes + at + 8, length); text[length] = 0;
        char header[256];
        int h = snprintf(header, sizeof header, "{\"code\":0,\"flag\":1,\"language\":\"JAVA\",\"opaque\":%ld,\"version\":479}", number(text, "\"opaque\""));
        uint32_t t = htonl(4 + (uint32_t)h), s = htonl((uint32_t)h);
        memcpy(out, &t, 4); memcpy(out + 4, &s, 4); memcpy(out + 8, header, (size_t)h);
        put(fd, out, 8 + (size_t)h);
        at += 4 + total;
    }
    memmove(tails[fd].bytes, tails[fd].bytes + at, have - at);
    tails[fd].have = have - at;
}

static void probe(void) {
    char ext[256];
    snprintf(ext, sizeof ext, "\"clusterName\":\"fleet\",\"brokerName\":\"probe\",\"brokerId\":\"1\",\"brokerAddr\":\"127.0.0.1:1\",\"heartbeatTimeoutMills\":\"60000\"");
    uint64_t start = now_us(CLOCK_REALTIME), came = ask(probe_fd, 904, ext);   /* stamps are of that clock */
    if (probe_count < PROBES) probes[probe_count++] = came > start ? (uint32_t)(came - start) : 0;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void kill_masters(int count) {
    static int killed;
    struct linger hard = {1, 0};
    uint64_t at = now_us(CLOCK_REALTIME) / 1000;
    for (int end = killed + count; killed < end && killed < sets; killed++)
        for (int c = 0; c < controllers; c++) {
            int fd = LINE(killed, 0, c);
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
            close(fd);
            LINE(killed, 0, c) = -1;
        }
    printf("{\"event\":\"killed\",\"masters\":%d,\"at_ms\":%llu,\"until_ms\":%llu}\n", count, (unsigned long long)at, (unsigned long long)(now_us(CLOCK_REALTIME) / 1000));
    fflush(stdout);
}

int main(int argc, char **argv) {
    struct rlimit files = {65536, 65536};
    if (argc < 4) { fprintf(stderr, "usage: fleet SETS LEADER_PORT PORT [PORT ...]\n"); return 2; }
    setrlimit(RLIMIT_NOFILE, &files);
    setvbuf(stdin, NULL, _IONBF, 0);   /* epoll must see every line that waits */
    sets = atoi(argv[1]);
    for (int i = 3; i < argc && controllers < CONTROLLERS_MAX; i++) ports[controllers++] = atoi(argv[i]);
    poller = epoll_create1(0);
    listen_for_role_changes();
    known = calloc((size_t)sets, sizeof *known);
    lines = malloc(sizeof *lines * (size_t)(sets * 2 * controllers));
    for (int set = 0; set < sets; set++)
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < controllers; c++) LINE(set, r, c) = dial(ports[c]);
    int leader = dial(atoi(argv[2]));
    probe_fd = dial(atoi(argv[2]));
    int one = 1;
    if (setsockopt(probe_fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one)) die("SO_TIMESTAMPNS");
    uint64_t epoch = MONO();
    long brokers = (long)sets * 2, sent = 0, founded = 0;
    uint64_t next_probe = epoch, next_report = epoch + 1000000;
    char line[256];
    struct epoll_event events[64], keyboard = {.events = EPOLLIN, .data.fd = 0};
    epoll_ctl(poller, EPOLL_CTL_ADD, 0, &keyboard);
    for (;;) {
        uint64_t now = MONO();
        if (founded < sets) { long end = founded + BATCH < sets ? founded + BATCH : sets; found_sets(leader, (int)founded, (int)end); if ((founded = end) == sets) { printf("{\"event\":\"ready\",\"sets\":%d,\"connections\":%d}\n", sets, sets * 2 * controllers); fflush(stdout); } }
        for (long due = (long)((double)(now - epoch) / 1e6 * (double)brokers); sent < due; sent++) {
            int set = (int)(sent % brokers) / 2, replica = (int)(sent % 2);
            char out[1024];
            if (set >= founded) continue;
            size_t n = beat(out, set, replica, 2);
            for (int c = 0; c < controllers; c++) if (LINE(set, replica, c) >= 0) put(LINE(set, replica, c), out, n);
        }
        if (founded == sets && probing && now >= next_probe) { next_probe = now + 5000; probe(); }
        if (founded == sets && now >= next_report) {
            next_report = now + 1000000;
            qsort(probes, (size_t)probe_count, sizeof *probes, by_value);
            if (probe_count) printf("{\"event\":\"probe\",\"at_ms\":%llu,\"count\":%d,\"p50_us\":%u,\"p99_us\":%u,\"max_us\":%u}\n",
                (unsigned long long)(now_us(CLOCK_REALTIME) / 1000), probe_count, probes[probe_count / 2], probes[probe_count * 99 / 100], probes[probe_count - 1]);
            fflush(stdout);
            probe_count = 0;
        }
        int n = epoll_wait(poller, events, 64, founded < sets ? 0 : 1);
        for (int k = 0; k < n; k++) {
            int fd = events[k].data.fd;
            if (fd == 0) {
                if (!fgets(line, sizeof line, stdin) || !strncmp(line, "quit", 4)) return 0;
                if (!strncmp(line, "probes ", 7)) probing = atoi(line + 7);
                if (!strncmp(line, "kill ", 5)) kill_masters(atoi(line + 5));
            } else if (fd == listener) {
                int peer;
                while ((peer = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
                    struct epoll_event e = {.events = EPOLLIN, .data.fd = peer};
                    epoll_ctl(poller, EPOLL_CTL_ADD, peer, &e);
                }
            } else acknowledge(fd);
        }
    }
}
