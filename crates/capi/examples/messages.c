/* Messages over any transport, there and back.
 *
 *   messages listen URI COUNT        returns COUNT messages to their senders
 *   messages call URI COUNT          sends COUNT messages, one after the other, and prints their round trip
 *   messages sound SOURCE URI SINK   sends a source's sound to ourselves
 *
 * Try it with  messages listen srp://@127.0.0.1:7800 100 &  messages call srp://127.0.0.1:7800 100
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "antiphon.h"

static void check(int result, const char *what)
{
    if (result < 0) {
        fprintf(stderr, "%s: %s: %s\n", what, antiphon_strerror(result), antiphon_last_error());
        exit(1);
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct antiphon_link *open_link(const char *uri)
{
    struct antiphon_link *link;
    struct antiphon_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.latency_ms = 200;
    check(antiphon_open(uri, &options, &link), uri);
    return link;
}

static int listen_to(const char *uri, int count)
{
    char message[2048];
    struct antiphon_link *link = open_link(uri);
    int n;
    printf("listening\n");
    fflush(stdout);
    for (n = 0; n < count; n++) {
        int len = antiphon_receive(link, message, sizeof message, 20000, NULL);
        check(len, "antiphon_receive");
        check(antiphon_send(link, message, (size_t)len, 0), "antiphon_send");
    }
    check(antiphon_close(link), "antiphon_close");
    return 0;
}

static int call(const char *uri, int count)
{
    char message[600], back[2048];
    struct antiphon_message_info info;
    struct antiphon_stats stats;
    struct antiphon_link *link = open_link(uri);
    uint64_t sum = 0;
    int n;

    check(antiphon_wait(link, 20000), "antiphon_wait");
    for (n = 0; n < count; n++) {
        uint64_t sent = now_ns();
        int len;
        memset(message, n, sizeof message);
        /* Of use for five seconds. */
        check(antiphon_send(link, message, sizeof message, 5000000), "antiphon_send");
        info.size = sizeof info;
        len = antiphon_receive(link, back, sizeof back, 20000, &info);
        check(len, "antiphon_receive");
        if (len != (int)sizeof message || info.length != sizeof message || memcmp(message, back, sizeof message) != 0) {
            fprintf(stderr, "message %d came back changed\n", n);
            return 1;
        }
        if (info.received_ns < sent || info.received_ns > now_ns()) {
            fprintf(stderr, "message %d came before it was sent, or after it was read\n", n);
            return 1;
        }
        sum += info.received_ns - sent;
    }
    stats.size = sizeof stats;
    check(antiphon_get_stats(link, &stats), "antiphon_get_stats");
    if (stats.messages_accepted != (uint64_t)count || stats.messages_received != (uint64_t)count) {
        fprintf(stderr, "%d messages there and back, and counted otherwise\n", count);
        return 1;
    }
    check(antiphon_close(link), "antiphon_close");
    printf("%d messages, mean round trip %.1f us\n", count, (double)sum / count / 1e3);
    return 0;
}

static int sound(const char *source, const char *uri, const char *sink)
{
    struct antiphon_sound *sending, *receiving;
    struct antiphon_sound_status heard;
    check(antiphon_sound_receive(uri, sink, &receiving), "antiphon_sound_receive");
    check(antiphon_sound_send(source, uri, &sending), "antiphon_sound_send");
    check(antiphon_sound_wait(sending, 20000), "sending");
    check(antiphon_sound_wait(receiving, 20000), "receiving");
    heard.size = sizeof heard;
    check(antiphon_sound_get_status(receiving, &heard), "antiphon_sound_get_status");
    check(antiphon_sound_close(sending), "antiphon_sound_close");
    check(antiphon_sound_close(receiving), "antiphon_sound_close");
    printf("heard %.2f s, %lu packets lost\n", heard.sound_s, (unsigned long)heard.lost);
    return heard.packets == 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "listen") == 0)
        return listen_to(argv[2], atoi(argv[3]));
    if (argc == 4 && strcmp(argv[1], "call") == 0)
        return call(argv[2], atoi(argv[3]));
    if (argc == 5 && strcmp(argv[1], "sound") == 0)
        return sound(argv[2], argv[3], argv[4]);
    fprintf(stderr, "usage: %s listen URI COUNT | call URI COUNT | sound SOURCE URI SINK (Antiphon %s)\n", argv[0],
            antiphon_version());
    return 2;
}
