/* Asks for changes of a stream's transport, and for receiving on several addresses, in every wrong way, and expects an
 * error each time. Ends with 0 when it got them all.
 *
 *   bad_changes URI     which can be listened on */
#define _POSIX_C_SOURCE 200809L

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "antiphon.h"

static int failures;

static void expect(int good, int line, const char *what)
{
    if (!good) {
        fprintf(stderr, "line %d: %s (%s)\n", line, what, antiphon_last_error());
        failures++;
    }
}

#define EXPECT(condition) expect((condition), __LINE__, #condition)

static void receiving(const char *free_uri)
{
    struct antiphon_sound *sound;
    const char *uris[40];
    size_t n;
    for (n = 0; n < sizeof uris / sizeof *uris; n++)
        uris[n] = free_uri;
    EXPECT(antiphon_sound_receive_on(NULL, 1, "null:", &sound) == ANTIPHON_INVALID && sound == NULL);
    EXPECT(antiphon_sound_receive_on(uris, 0, "null:", &sound) == ANTIPHON_INVALID);
    EXPECT(antiphon_sound_receive_on(uris, ANTIPHON_SOUND_MAX_URIS + 1, "null:", &sound) == ANTIPHON_INVALID);
    EXPECT(antiphon_sound_receive_on(uris, SIZE_MAX, "null:", &sound) == ANTIPHON_INVALID);
    EXPECT(antiphon_sound_receive_on(uris, 1, NULL, &sound) == ANTIPHON_INVALID);
    EXPECT(antiphon_sound_receive_on(uris, 1, "null:", NULL) == ANTIPHON_INVALID);
    uris[1] = NULL;
    EXPECT(antiphon_sound_receive_on(uris, 2, "null:", &sound) == ANTIPHON_INVALID);
    EXPECT(strstr(antiphon_last_error(), "uris[1]") != NULL);
    uris[1] = "\xff";
    EXPECT(antiphon_sound_receive_on(uris, 2, "null:", &sound) == ANTIPHON_INVALID);
    uris[1] = "tcp://127.0.0.1:9?role=caller";
    EXPECT(antiphon_sound_receive_on(uris, 2, "null:", &sound) == ANTIPHON_USAGE && sound == NULL);

    EXPECT(antiphon_sound_receive_on(uris, 1, "null:", &sound) == ANTIPHON_OK);
    EXPECT(antiphon_sound_switch(sound, "rtp://127.0.0.1:9") == ANTIPHON_USAGE);
    EXPECT(strstr(antiphon_last_error(), "its sender") != NULL);
    EXPECT(antiphon_sound_close(sound) == ANTIPHON_OK);
}

static void sending(void)
{
    static const char *const wrong[] = {
        "", "pigeon://127.0.0.1:9", "auto://127.0.0.1:9", "rtp://", "tcp://@127.0.0.1:9", "srp://127.0.0.1:99999",
        "srp://127.0.0.1:9?rate=44.1kHz"
    };
    struct antiphon_sound *sound, *closed;
    char own[8];
    size_t n;
    int code;
    EXPECT(antiphon_sound_switch(NULL, "rtp://127.0.0.1:9") == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_sound_also((struct antiphon_sound *)(void *)own, "rtp://127.0.0.1:9") == ANTIPHON_BAD_HANDLE);
    EXPECT(antiphon_sound_send("tone:440Hz", "rtp://127.0.0.1:9", &sound) == ANTIPHON_OK);
    EXPECT(antiphon_sound_switch(sound, NULL) == ANTIPHON_INVALID);
    EXPECT(antiphon_sound_also(sound, "\xff\xfe") == ANTIPHON_INVALID);
    for (n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        EXPECT(antiphon_sound_switch(sound, wrong[n]) == ANTIPHON_USAGE);
        EXPECT(antiphon_sound_also(sound, wrong[n]) == ANTIPHON_USAGE);
    }
    /* Nothing listens at port 9, which the sender may have noticed. */
    closed = sound;
    code = antiphon_sound_close(sound);
    EXPECT(code == ANTIPHON_OK || code == ANTIPHON_UNREACHABLE);
    EXPECT(antiphon_sound_switch(closed, "rtp://127.0.0.1:9") == ANTIPHON_BAD_HANDLE);

    EXPECT(antiphon_sound_send("tone:440Hz", "auto://127.0.0.1:9", &sound) == ANTIPHON_OK);
    EXPECT(antiphon_sound_switch(sound, "rtp://127.0.0.1:9") == ANTIPHON_USAGE);
    EXPECT(strstr(antiphon_last_error(), "name a transport") != NULL);
    EXPECT(antiphon_sound_close(sound) < 0);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    /* A watchdog of its own, should the test be killed. */
    alarm(100);
    receiving(argv[1]);
    sending();
    if (failures == 0)
        printf("everything wrong was refused\n");
    return failures != 0;
}
