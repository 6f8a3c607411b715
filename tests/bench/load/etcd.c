/* A load on etcd as its own benchmark makes it: gRPC over HTTP/2, one thread, one request in flight per connection.
 *
 * etcd MODE HOST PORT CONNECTIONS SECONDS RATE [SAMPLES_FILE]
 *   MODE  commits  etcdserverpb.KV/Put of a key of this connection's own, and a value of VALUE bytes
 *         reads    etcdserverpb.KV/Range of that key, linearizable (etcd's default)
 *         echoes   grpc.health.v1.Health/Check: what a call takes that asks for nothing
 *   RATE  0: a closed loop; nothing else is offered
 * Prints what load.c prints; latencies are taken as it takes them (SO_TIMESTAMPNS). An answer without a message is an
 * error (gRPC answers errors with trailers alone).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
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

enum { VALUE = 240, INBOX = 1 << 16, HEAD = 9 };
enum { DATA = 0, HEADERS = 1, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

struct connection {
    int fd, number, told, in_flight;   /* told: a message came on the stream that is open */
    uint32_t stream;
    uint64_t sent_at;
    size_t have;
    unsigned char inbox[INBOX];
};

static const char *path;   /* of the method that is called */
static int keyed, valued;  /* does its request have a key, and a value? */
static uint32_t *samples;
static size_t sample_count, sample_room;
static uint64_t operations, errors;

static void die(const char *what) { perror(what); exit(2); }
static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);   /* the clock of the stamps */
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void put(struct connection *c, const unsigned char *bytes, size_t size) {
    while (size) {
        ssize_t n = send(c->fd, bytes, size, MSG_NOSIGNAL);
        if (n < 0) die("send");
        bytes += n; size -= (size_t)n;
    }
}

static size_t frame(unsigned char *out, size_t size, int type, int flags, uint32_t stream) {
    uint32_t id = htonl(stream);
    out[0] = (unsigned char)(size >> 16); out[1] = (unsigned char)(size >> 8); out[2] = (unsigned char)size;
    out[3] = (unsigned char)type; out[4] = (unsigned char)flags;
    memcpy(out + 5, &id, 4);
    return HEAD + size;
}

static size_t word(unsigned char *out, const char *text) {   /* of HPACK: a string, not compressed */
    size_t size = strlen(text);
    out[0] = (unsigned char)size;
    memcpy(out + 1, text, size);
    return 1 + size;
}

static size_t field(unsigned char *out, int number, const char *bytes, size_t size) {   /* of protobuf: bytes, shorter than 2^14 */
    size_t n = 0;
    out[n++] = (unsigned char)(number << 3 | 2);
    if (size >= 128) { out[n++] = (unsigned char)(size & 127) | 128; out[n++] = (unsigned char)(size >> 7); }
    else out[n++] = (unsigned char)size;
    memcpy(out + n, bytes, size);
    return n + size;
}

static void request(struct connection *c) {
    static const char value[VALUE] = "what a record of ours holds is as long";
    unsigned char out[1024], *p = out + HEAD;
    char key[32];
    c->stream += 2; c->told = 0; c->in_flight = 1;
    *p++ = 0x83; *p++ = 0x86;                                                  /* :method POST, :scheme http */
    *p++ = 0x04; p += word(p, path);
    *p++ = 0x01; p += word(p, "127.0.0.1");
    *p++ = 0x0f; *p++ = 0x10; p += word(p, "application/grpc");                /* content-type */
    *p++ = 0x00; p += word(p, "te"); p += word(p, "trailers");
    frame(out, (size_t)(p - out) - HEAD, HEADERS, END_HEADERS, c->stream);
    unsigned char *data = p, *message = p + HEAD + 5;
    snprintf(key, sizeof key, "bench-%d", c->number);
    size_t size = keyed ? field(message, 1, key, strlen(key)) : 0;
    if (valued) size += field(message + size, 2, value, VALUE);
    uint32_t length = htonl((uint32_t)size);
    data[HEAD] = 0;
    memcpy(data + HEAD + 1, &length, 4);
    p += frame(data, 5 + size, DATA, END_STREAM, c->stream);
    c->sent_at = now_us();
    put(c, out, (size_t)(p - out));
}

static void ended(struct connection *c, uint64_t came) {
    c->in_flight = 0;
    if (!c->told) { errors++; return; }
    operations++;
    if (sample_count == sample_room && !(samples = realloc(samples, (sample_room = sample_room * 2 + 4096) * sizeof *samples))) die("realloc");
    samples[sample_count++] = came > c->sent_at ? (uint32_t)(came - c->sent_at) : 0;
}

static void parse(struct connection *c, uint64_t came) {
    size_t at = 0;
    while (c->have - at >= HEAD) {
        unsigned char *f = c->inbox + at, answer[HEAD + 8];
        size_t size = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
        if (HEAD + size > INBOX) { fprintf(stderr, "frame too large\n"); exit(2); }
        if (c->have - at < HEAD + size) break;
        uint32_t stream;
        memcpy(&stream, f + 5, 4);
        if (f[3] == SETTINGS && !(f[4] & ACK)) put(c, answer, frame(answer, 0, SETTINGS, ACK, 0));
        if (f[3] == PING && !(f[4] & ACK)) { memcpy(answer + HEAD, f + HEAD, 8); put(c, answer, frame(answer, 8, PING, ACK, 0)); }
        if (f[3] == GOAWAY) { fprintf(stderr, "etcd hangs up\n"); exit(3); }
        if (ntohl(stream) == c->stream && c->in_flight) {
            if (f[3] == DATA && size >= 5) c->told = 1;
            if ((f[3] == DATA || f[3] == HEADERS) && f[4] & END_STREAM) ended(c, came);
        }
        at += HEAD + size;
    }
    memmove(c->inbox, c->inbox + at, c->have -= at);
}

static void begin(struct connection *c, const struct sockaddr_in *to) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    unsigned char out[128];
    int one = 1;
    if ((c->fd = socket(AF_INET, SOCK_STREAM, 0)) < 0 || connect(c->fd, (const struct sockaddr *)to, sizeof *to)) die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(c->fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
    memcpy(out, preface, sizeof preface - 1);
    size_t n = sizeof preface - 1;
    n += frame(out + n, 0, SETTINGS, 0, 0);
    uint32_t room = htonl(0x7fffffffu - 65535u);   /* what is answered in a run stays below */
    memcpy(out + n + HEAD, &room, 4);
    n += frame(out + n, 4, WINDOW_UPDATE, 0, 0);
    put(c, out, n);
    c->stream = (uint32_t)-1;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}
static double cpu_us(void) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1e6 + (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}
static uint32_t at_share(double q) { return sample_count ? samples[(size_t)((double)(sample_count - 1) * q)] : 0; }

int main(int argc, char **argv) {
    if (argc < 7) { fprintf(stderr, "usage: etcd commits|reads|echoes HOST PORT CONNECTIONS SECONDS 0 [SAMPLES_FILE]\n"); return 2; }
    valued = !strcmp(argv[1], "commits");
    keyed = valued || !strcmp(argv[1], "reads");
    path = valued ? "/etcdserverpb.KV/Put" : keyed ? "/etcdserverpb.KV/Range" : "/grpc.health.v1.Health/Check";
    if (atof(argv[6]) > 0) { fprintf(stderr, "etcd: closed loops only\n"); return 2; }
    int count = atoi(argv[4]), poller = epoll_create1(0);
    double seconds = atof(argv[5]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3]))};
    if (inet_pton(AF_INET, argv[2], &to.sin_addr) != 1) { fprintf(stderr, "HOST must be an IPv4 address\n"); return 2; }
    struct connection *all = calloc((size_t)count, sizeof *all);
    if (!all) die("calloc");
    for (int i = 0; i < count; i++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        all[i].number = i;
        begin(&all[i], &to);
        epoll_ctl(poller, EPOLL_CTL_ADD, all[i].fd, &wanted);
    }
    puts("ready");
    fflush(stdout);
    double cpu = cpu_us();
    uint64_t start = now_us(), end = start + (uint64_t)(seconds * 1e6), last = end + 5000000u;
    for (int i = 0; i < count; i++) request(&all[i]);
    for (int open = count; open && now_us() < last;) {
        struct epoll_event events[256];
        int n = epoll_wait(poller, events, 256, 100);
        for (int k = 0; k < n; k++) {
            struct connection *c = &all[events[k].data.u32];
            uint64_t came;
            ssize_t r = stamped(c->fd, (char *)c->inbox + c->have, INBOX - c->have, &came);
            if (r <= 0) { fprintf(stderr, "connection %d closed\n", c->number); return 3; }
            c->have += (size_t)r;
            int was = c->in_flight;
            parse(c, came ? came : now_us());
            if (!was || c->in_flight) continue;
            if (now_us() < end) request(c); else open--;
        }
    }
    double took = (double)(now_us() - start) / 1e6;
    for (int i = 0; i < count; i++) errors += (uint64_t)all[i].in_flight;
    cpu = cpu_us() - cpu;
    if (argc > 7) {
        FILE *f = fopen(argv[7], "wb");
        if (!f) die(argv[7]);
        fwrite(samples, sizeof *samples, sample_count, f);
        fclose(f);
    }
    qsort(samples, sample_count, sizeof *samples, by_value);
    printf("{\"mode\":\"%s\",\"operations\":%llu,\"errors\":%llu,\"seconds\":%.3f,\"per_second\":%.1f,\"rate\":0,\"p50_us\":%u,\"p99_us\":%u,\"p999_us\":%u,\"max_us\":%u,\"late_p99_us\":0,\"client_cpu_us\":%.2f,\"first_error\":\"an answer without a message\"}\n",
        argv[1], (unsigned long long)operations, (unsigned long long)errors, took, (double)operations / took, at_share(0.5), at_share(0.99), at_share(0.999), at_share(1.0), operations ? cpu / (double)operations : 0.0);
    return 0;
}
