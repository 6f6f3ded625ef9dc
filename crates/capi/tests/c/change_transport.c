/* Sends sound to ourselves over one transport, and goes over to another in mid-stream.
 *
 *   change_transport SOURCE SINK LISTEN1 LISTEN2 CALL1 CALL2 [NOBODY]
 *
 * NOBODY is a URI at which nothing listens: it is tried before CALL2.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "antiphon.h"

#define EXPECT(condition) expect((condition), __LINE__, #condition)

static void expect(int good, int line, const char *what)
{
    if (!good) {
        fprintf(stderr, "line %d: %s (%s)\n", line, what, antiphon_last_error());
        exit(1);
    }
}

static struct antiphon_sound_status status_of(struct antiphon_sound *sound)
{
    struct antiphon_sound_status status;
    status.size = sizeof status;
    EXPECT(antiphon_sound_get_status(sound, &status) == ANTIPHON_OK);
    return status;
}

/* So much sound was sent, and so many changes have happened and failed. */
static void wait_for(struct antiphon_sound *sound, double seconds, uint64_t changes, uint64_t failed)
{
    for (;;) {
        struct antiphon_sound_status now = status_of(sound);
        if (now.sound_s >= seconds && now.changes == changes && now.changes_failed == failed)
            return;
        EXPECT(antiphon_sound_wait(sound, 20) == ANTIPHON_TIMEOUT);
    }
}

int main(int argc, char **argv)
{
    const char *listen[2];
    const char *nobody = argc == 8 ? argv[7] : NULL;
    struct antiphon_sound *sending, *receiving;
    uint64_t failed = 0;
    int ended;
    if (argc < 7 || argc > 8) {
        fprintf(stderr, "usage: %s SOURCE SINK LISTEN1 LISTEN2 CALL1 CALL2 [NOBODY]\n", argv[0]);
        return 2;
    }
    listen[0] = argv[3];
    listen[1] = argv[4];
    EXPECT(antiphon_sound_receive_on(listen, 2, argv[2], &receiving) == ANTIPHON_OK);
    EXPECT(antiphon_sound_send(argv[1], argv[5], &sending) == ANTIPHON_OK);
    EXPECT(antiphon_sound_switch(receiving, argv[6]) == ANTIPHON_USAGE);

    if (nobody) {
        failed = 1;
        EXPECT(antiphon_sound_switch(sending, nobody) == ANTIPHON_OK);
    }
    wait_for(sending, 1.0, 0, failed);
    EXPECT(antiphon_sound_switch(sending, argv[6]) == ANTIPHON_OK);
    wait_for(sending, 1.0, 1, failed);

    ended = antiphon_sound_wait(sending, 20000);
    if (nobody) {
        EXPECT(ended == ANTIPHON_FAILED);
        EXPECT(strstr(antiphon_last_error(), nobody) == antiphon_last_error());
    } else {
        EXPECT(ended == ANTIPHON_OK);
    }
    EXPECT(antiphon_sound_switch(sending, argv[5]) == ANTIPHON_CLOSED);
    EXPECT(antiphon_sound_also(sending, argv[5]) == ANTIPHON_CLOSED);
    EXPECT(antiphon_sound_wait(receiving, 20000) == ANTIPHON_OK);
    EXPECT(status_of(receiving).lost == 0 && status_of(receiving).changes == 0);
    EXPECT(antiphon_sound_close(sending) == ended);
    EXPECT(antiphon_sound_switch(sending, argv[5]) == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_sound_close(receiving) == ANTIPHON_OK);
    printf("the transport was changed\n");
    return 0;
}
