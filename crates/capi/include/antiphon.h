/* Antiphon for C: messages and sound over any transport, by URI. docs/c-interface.md tells how to use it.
   Made from crates/capi/src; don't edit. */

#ifndef ANTIPHON_H
#define ANTIPHON_H

#include <stddef.h>
#include <stdint.h>

/**
 * Done.
 */
#define ANTIPHON_OK 0

/**
 * An argument can't be: NULL, no bytes, a structure without its size.
 */
#define ANTIPHON_INVALID (-1)

/**
 * The handle is not open: closed before, or never opened.
 */
#define ANTIPHON_BAD_HANDLE (-2)

/**
 * What a URI or option asks for is unintelligible or impossible.
 */
#define ANTIPHON_USAGE (-3)

/**
 * The peer is not there, or refuses.
 */
#define ANTIPHON_UNREACHABLE (-4)

/**
 * Failed while running.
 */
#define ANTIPHON_FAILED (-5)

/**
 * Nothing happened within the time given.
 */
#define ANTIPHON_TIMEOUT (-6)

/**
 * The queue has no room.
 */
#define ANTIPHON_FULL (-7)

/**
 * The message is larger than the transport carries.
 */
#define ANTIPHON_TOO_LARGE (-8)

/**
 * The association has ended.
 */
#define ANTIPHON_CLOSED (-9)

/**
 * A defect in this library; standard error says more.
 */
#define ANTIPHON_INTERNAL (-10)

/**
 * No peer yet.
 */
#define ANTIPHON_WAITING 0

/**
 * Messages flow.
 */
#define ANTIPHON_CONNECTED 1

/**
 * The peer can't be reached for now.
 */
#define ANTIPHON_BROKEN 2

/**
 * The association has ended.
 */
#define ANTIPHON_ENDED 3

/**
 * The most URIs on which sound is received.
 */
#define ANTIPHON_SOUND_MAX_URIS 32

/**
 * An association that carries messages. A handle, not an address: one that was closed, or never was, does no harm.
 */
struct antiphon_link;

/**
 * Sound under way. A handle, not an address: one that was closed, or never was, does no harm.
 */
struct antiphon_sound;

/**
 * How to open an association. Set `size` to `sizeof(struct antiphon_options)` and the rest to zero, then what is wanted.
 */
struct antiphon_options {
  /**
   * `sizeof(struct antiphon_options)`.
   */
  size_t size;
  /**
   * How old a message may be when it is used, in milliseconds; 0 for 80. `latency` in the URI wins.
   */
  unsigned int latency_ms;
};

/**
 * What is known of a received message. Set `size` to `sizeof(struct antiphon_message_info)`.
 */
struct antiphon_message_info {
  /**
   * `sizeof(struct antiphon_message_info)`.
   */
  size_t size;
  /**
   * Bytes of the message; more than were copied when the buffer was too short, and the rest is gone.
   */
  size_t length;
  /**
   * When its last byte came off the wire, in nanoseconds of `CLOCK_MONOTONIC`.
   */
  uint64_t received_ns;
  /**
   * 1 if it had to be sent more than once, as far as this side knows; else 0.
   */
  int repaired;
};

/**
 * How an association is doing. Set `size` to `sizeof(struct antiphon_stats)`. Each figure is right; all of them need
 * not be of the same instant.
 */
struct antiphon_stats {
  /**
   * `sizeof(struct antiphon_stats)`.
   */
  size_t size;
  /**
   * Messages that the transport took.
   */
  uint64_t messages_accepted;
  /**
   * Messages that it refused though they were in the queue.
   */
  uint64_t messages_refused;
  /**
   * Messages on the wire of which no more will be known.
   */
  uint64_t messages_released;
  /**
   * Messages that the peer has confirmed.
   */
  uint64_t messages_acked;
  /**
   * Messages given up since their time was over.
   */
  uint64_t messages_expired;
  /**
   * Messages given up after the transport's last try.
   */
  uint64_t messages_exhausted;
  /**
   * Messages whose fate the end of the association has left open.
   */
  uint64_t messages_aborted;
  /**
   * Messages received.
   */
  uint64_t messages_received;
  /**
   * Messages received and dropped, since they were not fetched in time.
   */
  uint64_t messages_dropped;
  /**
   * Datagrams sent, or the kernel's segments where known. This and the next six start again at 0 with another peer.
   */
  uint64_t datagrams_sent;
  /**
   * Bytes in them, below UDP or TCP.
   */
  uint64_t bytes_sent;
  /**
   * Datagrams received.
   */
  uint64_t datagrams_received;
  /**
   * Bytes in them.
   */
  uint64_t bytes_received;
  /**
   * Packets sent again.
   */
  uint64_t retransmitted;
  /**
   * Packets or messages received twice.
   */
  uint64_t duplicates;
  /**
   * Datagrams or parts of the stream that broke the protocol.
   */
  uint64_t malformed;
  /**
   * Datagrams of others than the peer.
   */
  uint64_t unknown_sources;
  /**
   * Smoothed round trip in nanoseconds; -1 where it is not known.
   */
  int64_t srtt_ns;
  /**
   * Its mean deviation in nanoseconds; -1 where it is not known.
   */
  int64_t rttvar_ns;
  /**
   * The shortest round trip in nanoseconds; -1 where it is not known.
   */
  int64_t min_rtt_ns;
  /**
   * `ANTIPHON_WAITING`, `ANTIPHON_CONNECTED`, `ANTIPHON_BROKEN` or `ANTIPHON_ENDED`.
   */
  int state;
};

/**
 * How sound under way is doing. Set `size` to `sizeof(struct antiphon_sound_status)`. What does not concern a side is
 * zero.
 */
struct antiphon_sound_status {
  /**
   * `sizeof(struct antiphon_sound_status)`.
   */
  size_t size;
  /**
   * Sound sent or played so far, in seconds.
   */
  double sound_s;
  /**
   * Packets sent or received.
   */
  uint64_t packets;
  /**
   * Packets that never came though later ones were played.
   */
  uint64_t lost;
  /**
   * Packets that came after their playout time.
   */
  uint64_t late;
  /**
   * Packets that the sender gave up since their deadline had passed.
   */
  uint64_t expired;
  /**
   * Holes filled with made-up sound.
   */
  uint64_t concealed;
  /**
   * Round trip in milliseconds, as the receiver's reports tell the sender; negative where it is not known.
   */
  double rtt_ms;
  /**
   * Changes of the transport that have happened: the stream moved, or the receiver accepted one beside the others.
   * Those that `auto://` chooses are not counted.
   */
  uint64_t changes;
  /**
   * Changes that did not happen, and transports that ended before the stream; `antiphon_sound_wait` says why.
   */
  uint64_t changes_failed;
};

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * The version of the library, such as "0.1.0": a static string.
 */
const char *antiphon_version(void);

/**
 * What an error's number means, in a few words. A static string, never NULL.
 */
const char *antiphon_strerror(int error);

/**
 * What went wrong in this thread's last call that returned an error, in a sentence that names the remedy. Never NULL,
 * empty before the first; lives until the next call of this thread that returns an error.
 */
const char *antiphon_last_error(void);

/**
 * Opens an association and stores its handle in `*link`. `scheme://HOST:PORT` calls, `scheme://:PORT` or
 * `scheme://@ADDRESS:PORT` waits for a caller; keys such as `?latency=40ms` follow. `options` may be NULL.
 *
 * Returns `ANTIPHON_OK` when the socket is there (`antiphon_wait` tells when messages flow), or an error; `*link` is
 * NULL then.
 */
int antiphon_open(const char *uri,
                  const struct antiphon_options *options,
                  struct antiphon_link **link);

/**
 * Waits until messages flow: for the connection, and where the transport has none (rtp, srp, arq) until the peer has
 * answered a question that `antiphon_open` asks; a program that knows nothing of it answers with its first message.
 * `timeout_ms`: negative for without limit.
 *
 * Returns `ANTIPHON_OK`, `ANTIPHON_TIMEOUT`, `ANTIPHON_CLOSED` or another error.
 */
int antiphon_wait(struct antiphon_link *link,
                  int timeout_ms);

/**
 * Queues a copy of a message for sending. `lifetime_us`: for how many microseconds from now on it is of use, after which
 * it is not begun; 0: no limit.
 *
 * Returns `ANTIPHON_OK`, `ANTIPHON_FULL` (256 messages are waiting), `ANTIPHON_TOO_LARGE` (see `antiphon_max_message`),
 * `ANTIPHON_CLOSED` or another error. What became of it is counted in `antiphon_stats`.
 */
int antiphon_send(struct antiphon_link *link,
                  const void *data,
                  size_t len,
                  int64_t lifetime_us);

/**
 * Waits for the next message and copies it into `buffer`, `max` bytes of it at most. `timeout_ms`: negative for without
 * limit, 0 for not at all. `info` may be NULL.
 *
 * Returns the number of bytes copied, at least 1; `ANTIPHON_TIMEOUT`; `ANTIPHON_CLOSED` when the association has ended
 * and everything that came was fetched; or another error.
 */
int antiphon_receive(struct antiphon_link *link,
                     void *buffer,
                     size_t max,
                     int timeout_ms,
                     struct antiphon_message_info *info);

/**
 * The largest message that can be sent, in bytes; or an error.
 */
int antiphon_max_message(struct antiphon_link *link);

/**
 * Stores how an association is doing in `*stats`.
 */
int antiphon_get_stats(struct antiphon_link *link, struct antiphon_stats *stats);

/**
 * Ends an association and frees it: sends what waits, as far as lifetimes and two seconds allow, and tells the peer. Calls
 * that wait in other threads return `ANTIPHON_CLOSED`.
 *
 * Returns `ANTIPHON_OK`, or the error that had ended it before. The handle is closed in any case.
 */
int antiphon_close(struct antiphon_link *link);

/**
 * Begins to send the sound of `source` (a file's path, `tone:440Hz`, `-` for standard input) to `uri`, such as
 * `rtp://HOST:PORT`, and stores a handle in `*sound`.
 *
 * Returns `ANTIPHON_OK` when source and address were found to be good, or an error; `*sound` is NULL then.
 */
int antiphon_sound_send(const char *source,
                        const char *uri,
                        struct antiphon_sound **sound);

/**
 * Begins to receive from `uri`, such as `rtp://:PORT`, into `sink` (a WAV file's path, `null:`, `-` for standard
 * output), and stores a handle in `*sound`. It ends when the sender ends its stream.
 *
 * Returns `ANTIPHON_OK` when the socket is there, or an error; `*sound` is NULL then.
 */
int antiphon_sound_receive(const char *uri,
                           const char *sink,
                           struct antiphon_sound **sound);

/**
 * Begins to receive from one sender that may come on each of `count` addresses, such as `rtp://:PORT` and
 * `tcp://:PORT`, into `sink`: the first of `uris` is where it begins, and it may go over to the others
 * (`antiphon_sound_switch`) or use them as well (`antiphon_sound_also`). Otherwise as `antiphon_sound_receive`.
 *
 * Returns `ANTIPHON_OK` when the sockets are there; `ANTIPHON_INVALID` for no URI or more than
 * `ANTIPHON_SOUND_MAX_URIS`; or another error; `*sound` is NULL then.
 */
int antiphon_sound_receive_on(const char *const *uris,
                              size_t count,
                              const char *sink,
                              struct antiphon_sound **sound);

/**
 * Has a stream that is being sent go over to the transport and address of `uri`, such as `tcp://HOST:PORT`,
 * without a gap. The receiver must listen there (`antiphon_sound_receive_on`). Keys that describe the sound
 * belong into the first URI. A name in `uri` is looked up before this returns.
 *
 * Returns `ANTIPHON_OK` when the change is queued: `antiphon_sound_get_status` counts what happened, one change
 * after the other, and `antiphon_sound_wait` says what did not. `ANTIPHON_USAGE` for a URI that the stream can't
 * change to, for sound that is received, and for a stream over `auto://`, which chooses by itself;
 * `ANTIPHON_CLOSED` when the stream has ended; or another error.
 */
int antiphon_sound_switch(struct antiphon_sound *sound,
                          const char *uri);

/**
 * Sends everything over `uri` as well until the end, to the same receiver, which must listen there; two such at
 * most. Otherwise as `antiphon_sound_switch`.
 */
int antiphon_sound_also(struct antiphon_sound *sound,
                        const char *uri);

/**
 * Waits until the sound has ended. `timeout_ms`: negative for without limit.
 *
 * Returns `ANTIPHON_OK`, `ANTIPHON_TIMEOUT`, or the error that ended it. `ANTIPHON_FAILED` also when the sound was
 * sent and changes of the transport did not happen: `antiphon_last_error` has a line for each then.
 */
int antiphon_sound_wait(struct antiphon_sound *sound,
                        int timeout_ms);

/**
 * Stores how the sound is doing in `*status`.
 */
int antiphon_sound_get_status(struct antiphon_sound *sound, struct antiphon_sound_status *status);

/**
 * Asks the sound to end in order, waits until it has, and frees it. Returns `ANTIPHON_OK`, or the error that ended
 * it, as `antiphon_sound_wait`: a change of the transport that had no time to happen is one that did not.
 */
int antiphon_sound_close(struct antiphon_sound *sound);

#ifdef __cplusplus
}  /* extern "C" */
#endif  /* __cplusplus */

#endif  /* ANTIPHON_H */
