/* Does everything wrong that a program can do, and expects an error each time. Ends with 0 when it got them all. */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "antiphon.h"
#include "srp.h"

static int failures;

static void expect(int good, int line, const char *what)
{
    if (!good) {
        fprintf(stderr, "line %d: %s (errno %d, %s)\n", line, what, errno, antiphon_last_error());
        failures++;
    }
}

#define EXPECT(condition) expect((condition), __LINE__, #condition)
#define EXPECT_ERRNO(condition, number) \
    do { \
        errno = 0; \
        EXPECT(condition); \
        EXPECT(errno == (number)); \
    } while (0)

static int bound_socket(struct sockaddr_in *here)
{
    socklen_t len = sizeof *here;
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    memset(here, 0, sizeof *here);
    here->sin_family = AF_INET;
    here->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT(sock >= 0);
    EXPECT(bind(sock, (struct sockaddr *)here, sizeof *here) == 0);
    EXPECT(getsockname(sock, (struct sockaddr *)here, &len) == 0);
    return sock;
}

static struct srp_client_socket *client_on(int sock, const struct sockaddr_in *to)
{
    return srp_client_start(sock, 0, (const struct sockaddr *)to, sizeof *to, 0.1f, 250);
}

static struct srp_server_socket *server_on(int sock, const struct sockaddr_in *to)
{
    return srp_server_start(sock, 0, (const struct sockaddr *)to, sizeof *to);
}

static void wrong_starts(void)
{
    struct sockaddr_in here, there, wrong;
    struct sockaddr_in6 v6;
    struct sockaddr_un other;
    int sock = bound_socket(&here), peer = bound_socket(&there);
    int stream = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_DGRAM, 0), pipes[2];
    const struct sockaddr *to = (const struct sockaddr *)&there;
    const float bad_losses[] = {0.0f, 1.0f, 2.0f, -0.1f, NAN, INFINITY, -INFINITY};
    const int bad_latencies[] = {0, -1, INT_MIN}, bad_lengths[] = {0, 1, 2, 15, -1, INT_MIN};
    size_t n;

    for (n = 0; n < sizeof bad_losses / sizeof *bad_losses; n++)
        EXPECT_ERRNO(srp_client_start(sock, 0, to, sizeof there, bad_losses[n], 250) == NULL, EINVAL);
    for (n = 0; n < sizeof bad_latencies / sizeof *bad_latencies; n++)
        EXPECT_ERRNO(srp_client_start(sock, 0, to, sizeof there, 0.1f, bad_latencies[n]) == NULL, EINVAL);
    for (n = 0; n < sizeof bad_lengths / sizeof *bad_lengths; n++) {
        EXPECT_ERRNO(srp_client_start(sock, 0, to, bad_lengths[n], 0.1f, 250) == NULL, EINVAL);
        EXPECT_ERRNO(srp_server_start(sock, 0, to, bad_lengths[n]) == NULL, EINVAL);
    }
    EXPECT_ERRNO(srp_client_start(sock, 0, NULL, sizeof there, 0.1f, 250) == NULL, EFAULT);
    EXPECT_ERRNO(srp_server_start(sock, 0, NULL, sizeof there) == NULL, EFAULT);
    EXPECT_ERRNO(srp_client_start(sock, 8, to, sizeof there, 0.1f, 250) == NULL, EINVAL);
    EXPECT_ERRNO(srp_server_start(sock, UINT_MAX, to, sizeof there) == NULL, EINVAL);

    EXPECT(pipe(pipes) == 0);
    EXPECT_ERRNO(client_on(-1, &there) == NULL, EBADF);
    EXPECT_ERRNO(client_on(100000, &there) == NULL, EBADF);
    EXPECT_ERRNO(server_on(INT_MIN, &there) == NULL, EBADF);
    EXPECT_ERRNO(client_on(pipes[0], &there) == NULL, ENOTSOCK);
    EXPECT_ERRNO(server_on(pipes[0], &there) == NULL, ENOTSOCK);
    EXPECT_ERRNO(client_on(stream, &there) == NULL, EPROTOTYPE);
    EXPECT_ERRNO(server_on(stream, &there) == NULL, EPROTOTYPE);
    EXPECT_ERRNO(client_on(local, &there) == NULL, EAFNOSUPPORT);

    memset(&v6, 0, sizeof v6);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(9);
    v6.sin6_addr = in6addr_loopback;
    EXPECT_ERRNO(srp_server_start(sock, 0, (struct sockaddr *)&v6, sizeof v6) == NULL, EAFNOSUPPORT);
    EXPECT_ERRNO(srp_server_start(sock, 0, (struct sockaddr *)&v6, sizeof there) == NULL, EINVAL);
    memset(&other, 0, sizeof other);
    other.sun_family = AF_UNIX;
    EXPECT_ERRNO(srp_server_start(sock, 0, (struct sockaddr *)&other, sizeof other) == NULL, EAFNOSUPPORT);
    wrong = there;
    wrong.sin_port = 0;
    EXPECT_ERRNO(client_on(sock, &wrong) == NULL, EINVAL);
    wrong = there;
    wrong.sin_addr.s_addr = htonl(INADDR_ANY);
    EXPECT_ERRNO(server_on(sock, &wrong) == NULL, EINVAL);
    wrong.sin_addr.s_addr = htonl(0xef010203u);
    EXPECT_ERRNO(server_on(sock, &wrong) == NULL, EINVAL);

    close(pipes[0]);
    close(pipes[1]);
    close(local);
    close(stream);
    close(peer);
    close(sock);
    EXPECT_ERRNO(client_on(sock, &there) == NULL, EBADF);
}

static void wrong_handles(void)
{
    char buffer[100] = {0};
    struct sockaddr_in here, there;
    int sock = bound_socket(&here), peer = bound_socket(&there), made_up;
    struct srp_client_socket *client;
    struct srp_server_socket *server;

    EXPECT_ERRNO(srp_recvfrom(NULL, buffer, sizeof buffer) == EPIPE, EBADF);
    EXPECT_ERRNO(srp_sendto(NULL, buffer, sizeof buffer) == -1, EBADF);
    srp_client_stop(NULL);
    srp_server_stop(NULL);

    client = client_on(sock, &there);
    server = server_on(peer, &here);
    EXPECT(client != NULL && server != NULL);
    /* Handles of another kind, and addresses that are none. */
    EXPECT_ERRNO(srp_recvfrom((struct srp_client_socket *)server, buffer, 10) == EPIPE, EBADF);
    EXPECT_ERRNO(srp_sendto((struct srp_server_socket *)client, buffer, 10) == -1, EBADF);
    EXPECT_ERRNO(srp_sendto((struct srp_server_socket *)&made_up, buffer, 10) == -1, EBADF);
    srp_server_stop((struct srp_server_socket *)client);
    srp_client_stop((struct srp_client_socket *)server);

    EXPECT_ERRNO(srp_recvfrom(client, NULL, 10) == EPIPE, EFAULT);
    EXPECT_ERRNO(srp_recvfrom(client, buffer, 0) == EPIPE, EINVAL);
    EXPECT_ERRNO(srp_recvfrom(client, buffer, -1) == EPIPE, EINVAL);
    EXPECT_ERRNO(srp_recvfrom(client, buffer, INT_MIN) == EPIPE, EINVAL);
    EXPECT_ERRNO(srp_sendto(server, NULL, 10) == -1, EFAULT);
    EXPECT_ERRNO(srp_sendto(server, buffer, 0) == -1, EINVAL);
    EXPECT_ERRNO(srp_sendto(server, buffer, -5) == -1, EINVAL);
    {
        static char huge[2000];
        EXPECT_ERRNO(srp_sendto(server, huge, 1481) == -1, EMSGSIZE);
        EXPECT(srp_sendto(server, huge, 1480) == 1480);
        /* Cut at the buffer's length. */
        errno = EDOM;
        EXPECT(srp_recvfrom(client, buffer, 7) == 7 && errno == 0);
    }

    srp_client_stop(client);
    srp_client_stop(client);
    srp_server_stop(server);
    srp_server_stop(server);
    EXPECT_ERRNO(srp_recvfrom(client, buffer, sizeof buffer) == EPIPE, EBADF);
    EXPECT_ERRNO(srp_sendto(server, buffer, sizeof buffer) == -1, EBADF);
    /* The descriptors are the program's, and still open. */
    EXPECT(sendto(sock, "x", 1, 0, (struct sockaddr *)&there, sizeof there) == 1);
    EXPECT(recv(peer, buffer, sizeof buffer, 0) > 0);

    /* With the flag an error can be told from 32 bytes, also of a handle that is no more. */
    client = srp_client_start(sock, SRP_NEGATIVE_ERRORS, (struct sockaddr *)&there, sizeof there, 0.1f, 250);
    EXPECT_ERRNO(srp_recvfrom(client, NULL, 10) == -EPIPE, EFAULT);
    srp_client_stop(client);
    EXPECT_ERRNO(srp_recvfrom(client, buffer, 10) == -EPIPE, EBADF);
    close(sock);
    close(peer);
}

static void closed_sockets(void)
{
    char buffer[100];
    struct sockaddr_in here, there;
    int sock = bound_socket(&here), peer = bound_socket(&there), again;
    struct srp_client_socket *client = client_on(sock, &there);
    struct srp_server_socket *server = server_on(peer, &here);
    EXPECT(client != NULL && server != NULL);
    close(sock);
    close(peer);
    EXPECT_ERRNO(srp_recvfrom(client, buffer, sizeof buffer) == EPIPE, EBADF);
    EXPECT_ERRNO(srp_sendto(server, "x", 1) == -1, EBADF);
    /* Their numbers now belong to other sockets: those are let be. */
    again = bound_socket(&here);
    EXPECT(again == sock || again == peer);
    EXPECT_ERRNO(srp_recvfrom(client, buffer, sizeof buffer) == EPIPE, EBADF);
    EXPECT_ERRNO(srp_sendto(server, "x", 1) == -1, EBADF);
    srp_client_stop(client);
    srp_server_stop(server);
    close(again);
}

struct waiting {
    struct srp_client_socket *client;
    struct antiphon_link *link;
    pthread_barrier_t begun;
    int result, number;
    volatile sig_atomic_t done;
};

static void *wait_for_srp_message(void *argument)
{
    struct waiting *waiting = (struct waiting *)argument;
    char buffer[100];
    pthread_barrier_wait(&waiting->begun);
    waiting->result = srp_recvfrom(waiting->client, buffer, sizeof buffer);
    waiting->number = errno;
    waiting->done = 1;
    return NULL;
}

static void *wait_for_message(void *argument)
{
    struct waiting *waiting = (struct waiting *)argument;
    char buffer[100];
    pthread_barrier_wait(&waiting->begun);
    waiting->result = antiphon_receive(waiting->link, buffer, sizeof buffer, -1, NULL);
    return NULL;
}

static void ended_while_waiting(void)
{
    struct sockaddr_in here, there;
    struct waiting waiting;
    pthread_t thread;
    int sock = bound_socket(&here), peer = bound_socket(&there), way;
    /* Stopped, and closed. */
    for (way = 0; way < 2; way++) {
        waiting.client = client_on(sock, &there);
        pthread_barrier_init(&waiting.begun, NULL, 2);
        EXPECT(pthread_create(&thread, NULL, wait_for_srp_message, &waiting) == 0);
        pthread_barrier_wait(&waiting.begun);
        if (way == 0)
            srp_client_stop(waiting.client);
        else
            close(sock);
        pthread_join(thread, NULL);
        EXPECT(waiting.result == EPIPE);
        /* Before it began to wait, or after. */
        EXPECT(waiting.number == EBADF || (way == 0 && waiting.number == ECANCELED));
        srp_client_stop(waiting.client);
        pthread_barrier_destroy(&waiting.begun);
    }
    close(peer);

    EXPECT(antiphon_open("rtp://127.0.0.1:9", NULL, &waiting.link) == ANTIPHON_OK);
    pthread_barrier_init(&waiting.begun, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, wait_for_message, &waiting) == 0);
    pthread_barrier_wait(&waiting.begun);
    EXPECT(antiphon_close(waiting.link) == ANTIPHON_OK);
    pthread_join(thread, NULL);
    EXPECT(waiting.result == ANTIPHON_CLOSED || waiting.result == ANTIPHON_BAD_HANDLE);
    pthread_barrier_destroy(&waiting.begun);
}

static void on_signal(int number)
{
    (void)number;
}

static void interrupted_and_refused(void)
{
    struct sockaddr_in here, there;
    struct waiting waiting;
    struct sigaction action;
    pthread_t thread;
    char buffer[10];
    int sock = bound_socket(&here), peer = bound_socket(&there);

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    waiting.done = 0;
    waiting.client = client_on(sock, &there);
    pthread_barrier_init(&waiting.begun, NULL, 2);
    EXPECT(pthread_create(&thread, NULL, wait_for_srp_message, &waiting) == 0);
    pthread_barrier_wait(&waiting.begun);
    /* Again and again, since one that comes before the wait is not noticed. */
    while (!waiting.done) {
        struct timespec pause = {0, 2000000};
        pthread_kill(thread, SIGUSR1);
        nanosleep(&pause, NULL);
    }
    pthread_join(thread, NULL);
    EXPECT(waiting.result == EPIPE && waiting.number == EINTR);
    pthread_barrier_destroy(&waiting.begun);

    /* It goes on: the first message has the number 1, the time 0, and one byte. */
    EXPECT(sendto(peer, "\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\1!", 17, 0, (struct sockaddr *)&here, sizeof here) == 17);
    EXPECT_ERRNO(srp_recvfrom(waiting.client, buffer, sizeof buffer) == 1, 0);
    EXPECT(buffer[0] == '!');
    srp_client_stop(waiting.client);

    /* The port is closed, and a connected socket hears of it. */
    EXPECT(connect(sock, (struct sockaddr *)&there, sizeof there) == 0);
    close(peer);
    waiting.client = client_on(sock, &there);
    EXPECT_ERRNO(srp_recvfrom(waiting.client, buffer, sizeof buffer) == EPIPE, ECONNREFUSED);
    srp_client_stop(waiting.client);
    close(sock);
}

/* What works must work, or all refusals prove nothing: a long message of the improved protocol. */
static void right_calls(void)
{
    static unsigned char message[20000], back[20001];
    struct sockaddr_in here, there;
    int sock = bound_socket(&here), peer = bound_socket(&there), flags = SRP_IMPROVED | SRP_NEGATIVE_ERRORS;
    struct srp_client_socket *client;
    struct srp_server_socket *server;
    size_t n;
    for (n = 0; n < sizeof message; n++)
        message[n] = (unsigned char)(n * 7 % 251);
    client = srp_client_start(sock, (unsigned int)flags, (struct sockaddr *)&there, sizeof there, 0.05f, 200);
    server = srp_server_start(peer, (unsigned int)flags, (struct sockaddr *)&here, sizeof here);
    EXPECT(client != NULL && server != NULL);
    EXPECT(srp_sendto(server, message, sizeof message) == (int)sizeof message);
    EXPECT_ERRNO(srp_recvfrom(client, back, sizeof back) == (int)sizeof message, 0);
    EXPECT(memcmp(message, back, sizeof message) == 0);
    srp_server_stop(server);
    srp_client_stop(client);
    close(sock);
    close(peer);
}

static void wrong_messages(void)
{
    static char huge[70000];
    char buffer[10];
    struct antiphon_link *link = (struct antiphon_link *)buffer, *ended;
    struct antiphon_options options;
    struct antiphon_message_info info;
    struct antiphon_stats stats;
    struct {
        size_t size;
        uint64_t first;
        unsigned char after[8];
    } old;
    int code;

    EXPECT(antiphon_open(NULL, NULL, &link) == ANTIPHON_INVALID && link == NULL);
    EXPECT(antiphon_open("rtp://127.0.0.1:9", NULL, NULL) == ANTIPHON_INVALID);
    EXPECT(antiphon_open("\xff\xfe", NULL, &link) == ANTIPHON_INVALID);
    EXPECT(antiphon_open("", NULL, &link) == ANTIPHON_USAGE);
    EXPECT(antiphon_open("spr://127.0.0.1:9", NULL, &link) == ANTIPHON_USAGE);
    EXPECT(strstr(antiphon_last_error(), "did you mean 'srp'") != NULL);
    EXPECT(antiphon_open("srp://127.0.0.1:99999", NULL, &link) == ANTIPHON_USAGE);
    EXPECT(antiphon_open("srp://127.0.0.1:9?latency=20", NULL, &link) == ANTIPHON_USAGE);
    EXPECT(antiphon_open("tcp://127.0.0.1:1", NULL, &link) == ANTIPHON_UNREACHABLE && link == NULL);
    memset(&options, 0, sizeof options);
    EXPECT(antiphon_open("rtp://127.0.0.1:9", &options, &link) == ANTIPHON_INVALID);
    /* A newer program's options are longer than ours. */
    options.size = sizeof options;

    EXPECT(antiphon_open("rtp://127.0.0.1:9", &options, &link) == ANTIPHON_OK);
    EXPECT(antiphon_send(link, NULL, 10, 0) == ANTIPHON_INVALID);
    EXPECT(antiphon_send(link, "x", 0, 0) == ANTIPHON_INVALID);
    EXPECT(antiphon_send(link, "x", 1, -1) == ANTIPHON_INVALID);
    EXPECT(antiphon_send(link, "x", 1, INT64_MAX) == ANTIPHON_OK);
    EXPECT(antiphon_send(link, "x", SIZE_MAX, 0) == ANTIPHON_INVALID);
    EXPECT(antiphon_send(link, huge, sizeof huge, 0) == ANTIPHON_TOO_LARGE);
    EXPECT(antiphon_receive(link, NULL, 10, 0, NULL) == ANTIPHON_INVALID);
    EXPECT(antiphon_receive(link, buffer, 0, 0, NULL) == ANTIPHON_INVALID);
    EXPECT(antiphon_receive(link, buffer, sizeof buffer, 0, NULL) == ANTIPHON_TIMEOUT);
    info.size = 0;
    EXPECT(antiphon_receive(link, buffer, sizeof buffer, 0, &info) == ANTIPHON_INVALID);
    EXPECT(antiphon_get_stats(link, NULL) == ANTIPHON_INVALID);
    stats.size = 3;
    EXPECT(antiphon_get_stats(link, &stats) == ANTIPHON_INVALID);
    /* An older program's structure is shorter than ours: nothing behind it is written. */
    old.size = sizeof old.size + sizeof old.first;
    memset(old.after, 0xa5, sizeof old.after);
    EXPECT(antiphon_get_stats(link, (struct antiphon_stats *)(void *)&old) == ANTIPHON_OK);
    EXPECT(old.after[0] == 0xa5 && old.after[7] == 0xa5);
    stats.size = sizeof stats;
    EXPECT(antiphon_get_stats(link, &stats) == ANTIPHON_OK && stats.size == sizeof stats);
    EXPECT(antiphon_max_message(link) == 1472);
    ended = link;
    EXPECT(antiphon_close(link) == ANTIPHON_OK);

    EXPECT(antiphon_close(ended) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_close(NULL) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_send(ended, "x", 1, 0) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_receive(ended, buffer, sizeof buffer, -1, NULL) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_wait((struct antiphon_link *)buffer, -1) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_get_stats(ended, &stats) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_max_message(NULL) == ANTIPHON_BAD_HANDLE);
    for (code = -20; code <= 20; code++)
        EXPECT(strlen(antiphon_strerror(code)) > 0);
}

static void wrong_sound(void)
{
    struct antiphon_sound *sound;
    struct antiphon_sound_status status;
    EXPECT(antiphon_sound_send(NULL, "rtp://127.0.0.1:9", &sound) == ANTIPHON_INVALID && sound == NULL);
    EXPECT(antiphon_sound_send("tone:440Hz", NULL, &sound) == ANTIPHON_INVALID);
    EXPECT(antiphon_sound_send("tone:440Hz", "rtp://127.0.0.1:9", NULL) == ANTIPHON_INVALID);
    EXPECT(antiphon_sound_send("tone:440Hz", "rtp://", &sound) == ANTIPHON_USAGE);
    EXPECT(antiphon_sound_send("/nowhere/at/all.wav", "rtp://127.0.0.1:9", &sound) < 0);
    EXPECT(antiphon_sound_receive("rtp://127.0.0.1:9", "nonsense:", &sound) < 0 && sound == NULL);
    EXPECT(antiphon_sound_wait(NULL, 0) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_sound_close(NULL) == ANTIPHON_BAD_HANDLE);
    status.size = sizeof status;
    EXPECT(antiphon_sound_get_status(NULL, &status) == ANTIPHON_BAD_HANDLE);
}

int main(void)
{
    /* A watchdog of its own, should the test be killed. */
    alarm(100);
    right_calls();
    wrong_starts();
    wrong_handles();
    closed_sockets();
    ended_while_waiting();
    interrupted_and_refused();
    wrong_messages();
    wrong_sound();
    if (failures == 0)
        printf("everything wrong was refused\n");
    return failures != 0;
}
