/* Reading from a socket that has SO_TIMESTAMPNS set. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* The bytes read, as recv answers them; ``at`` is when the kernel had the last of them, Unix microseconds, 0: not known. */
static ssize_t stamped(int fd, char *into, size_t size, uint64_t *at) {
    char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec room = {into, size};
    struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n = recvmsg(fd, &message, 0);
    *at = 0;
    for (struct cmsghdr *m = CMSG_FIRSTHDR(&message); n > 0 && m; m = CMSG_NXTHDR(&message, m))
        if (m->cmsg_level == SOL_SOCKET && m->cmsg_type == SCM_TIMESTAMPNS) {
            struct timespec t;
            memcpy(&t, CMSG_DATA(m), sizeof t);
            *at = (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
        }
    return n;
}
