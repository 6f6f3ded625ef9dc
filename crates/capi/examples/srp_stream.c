/* Streams messages over SRP, as the report's appendix has it.
 *
 *   srp_stream send COUNT INTERVAL_MS                 prints the port it waits on, sends to who says hello, and
 *                                                     answers requests until its standard input ends
 *   srp_stream receive ADDRESS PORT COUNT LOSS LATENCY_MS
 *
 * The receiver ends after COUNT messages, received or lost, and prints how many of each.
 */
#define _POSIX_C_SOURCE 200809L

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "srp.h"

/* What the report's tests sent (section 5). */
#define MESSAGE_BYTES 1280

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&time, &time) != 0 && errno == EINTR) {
    }
}

/* Every byte of message n follows from n, so that a wrong one shows. */
static unsigned char byte_of(unsigned int n, unsigned int at)
{
    return (unsigned char)(n * 31 + at);
}

static void write_message(unsigned char *message, unsigned int n)
{
    unsigned int at;
    uint32_t number = htonl(n);
    for (at = 0; at < MESSAGE_BYTES; at++)
        message[at] = byte_of(n, at);
    memcpy(message, &number, sizeof number);
}

static int is_message(const unsigned char *message, int len, unsigned int *n)
{
    unsigned int at;
    uint32_t number;
    if (len != MESSAGE_BYTES)
        return 0;
    memcpy(&number, message, sizeof number);
    *n = ntohl(number);
    for (at = sizeof number; at < MESSAGE_BYTES; at++)
        if (message[at] != byte_of(*n, at))
            return 0;
    return 1;
}

static int open_socket(void)
{
    struct sockaddr_in here;
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    if (sock < 0)
        fail("socket");
    memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(sock, (struct sockaddr *)&here, sizeof here) != 0)
        fail("bind");
    return sock;
}

static int send_all(unsigned int count, long interval_ms)
{
    unsigned char message[MESSAGE_BYTES];
    char hello[16];
    struct sockaddr_in client, here;
    struct srp_server_socket *server;
    socklen_t len = sizeof here;
    unsigned int n;
    int sock = open_socket();

    if (getsockname(sock, (struct sockaddr *)&here, &len) != 0)
        fail("getsockname");
    printf("port %d\n", ntohs(here.sin_port));
    fflush(stdout);

    /* The handshake is the application's: the sender of a hello is the client. */
    len = sizeof client;
    if (recvfrom(sock, hello, sizeof hello, 0, (struct sockaddr *)&client, &len) < 0)
        fail("recvfrom");

    server = srp_server_start(sock, 0, (struct sockaddr *)&client, (int)len);
    if (server == NULL)
        fail("srp_server_start");
    for (n = 0; n < count; n++) {
        write_message(message, n);
        if (srp_sendto(server, message, MESSAGE_BYTES) != MESSAGE_BYTES)
            fail("srp_sendto");
        pause_ms(interval_ms);
    }
    /* The last messages may have to be sent again, and only the user knows whether a receiver still listens. */
    while (getchar() != EOF) {
    }
    srp_server_stop(server);
    close(sock);
    return 0;
}

/* Says hello until something comes: hellos may be lost, too. */
static void say_hello(int sock, const struct sockaddr_in *to)
{
    int tries;
    for (tries = 0; tries < 100; tries++) {
        fd_set readable;
        struct timeval patience = {0, 100000};
        if (sendto(sock, "hello", 5, 0, (const struct sockaddr *)to, sizeof *to) < 0)
            fail("sendto");
        FD_ZERO(&readable);
        FD_SET(sock, &readable);
        if (select(sock + 1, &readable, NULL, NULL, &patience) > 0)
            return;
    }
    fprintf(stderr, "no answer\n");
    exit(1);
}

static int receive_all(const char *address, int port, unsigned int count, float loss, int latency)
{
    unsigned char message[2048];
    struct sockaddr_in to;
    struct srp_client_socket *client;
    unsigned int received = 0, lost = 0, wrong = 0;
    int sock = open_socket();

    memset(&to, 0, sizeof to);
    to.sin_family = AF_INET;
    to.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) {
        fprintf(stderr, "%s is no address\n", address);
        return 2;
    }
    say_hello(sock, &to);

    client = srp_client_start(sock, 0, (struct sockaddr *)&to, sizeof to, loss, latency);
    if (client == NULL)
        fail("srp_client_start");
    while (received + lost < count) {
        unsigned int n;
        int len = srp_recvfrom(client, message, sizeof message);
        if (len == EPIPE)
            fail("srp_recvfrom");
        if (len == 0) {
            lost++;
            continue;
        }
        /* In order: as many as came and were lost before it. */
        if (!is_message(message, len, &n) || n != received + lost)
            wrong++;
        received++;
    }
    srp_client_stop(client);
    close(sock);
    printf("received %u lost %u wrong %u\n", received, lost, wrong);
    return wrong != 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "send") == 0)
        return send_all((unsigned int)atoi(argv[2]), atol(argv[3]));
    if (argc == 7 && strcmp(argv[1], "receive") == 0)
        return receive_all(argv[2], atoi(argv[3]), (unsigned int)atoi(argv[4]), (float)atof(argv[5]),
                           atoi(argv[6]));
    fprintf(stderr, "usage: %s send COUNT INTERVAL_MS | receive ADDRESS PORT COUNT LOSS LATENCY_MS\n", argv[0]);
    return 2;
}
