/* SRP for C: the interface of the appendix of "SRP - A Multimedia Network Protocol" (K. French, G. Oprica,
   M. Piecuch, Worcester Polytechnic Institute, 2000). Part of Antiphon; docs/c-interface.md tells how to use it.
   Made from crates/capi/src/srp.rs; don't edit. */

#ifndef SRP_H
#define SRP_H

#include <sys/socket.h>

/**
 * For `flags`: speak the improved protocol instead of the one of the report. Both sides need the same. Messages come
 * as they arrive, not in order; each lost packet is told, and a message has as many as it takes.
 */
#define SRP_IMPROVED 1

/**
 * For `flags` of a client: `srp_recvfrom` returns `-EPIPE` on errors, which no number of bytes is. Without it, errors
 * are `EPIPE` as the report has it, and a message of 32 bytes looks the same; `errno` is 0 after a message.
 */
#define SRP_NEGATIVE_ERRORS 2

/**
 * For `flags` of a client: decide by *equal loss latency*. Without it: by *optimum quality* as published, by the
 * deadline when improved.
 */
#define SRP_EQUAL_LOSS_LATENCY 4

/**
 * A client: begun by `srp_client_start`, ended by `srp_client_stop`.
 *
 * A handle, not an address: never followed, so that one that was stopped, or never was, does no harm.
 */
struct srp_client_socket;

/**
 * A server: begun by `srp_server_start`, ended by `srp_server_stop`. A handle like `srp_client_socket`.
 */
struct srp_server_socket;

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Begins to receive from the server at `to`, through the UDP socket `sock`.
 *
 * `loss`: the share of messages that may be lost, more than 0 and less than 1. `lat`: the latency that is tolerated, in
 * milliseconds, more than 0. `flags`: 0, or `SRP_` constants added up.
 *
 * Returns NULL on error, with `errno`: `EINVAL` (loss, latency, flags, `tolen`, an address without port or host, or a
 * group), `EFAULT` (`to` is NULL), `EAFNOSUPPORT` (no IP address, or another version than the socket's), `EBADF`,
 * `ENOTSOCK`, `EPROTOTYPE`, `EPROTONOSUPPORT` (`sock` is no UDP socket), `EMFILE`, `ENFILE`.
 */
struct srp_client_socket *srp_client_start(int sock,
                                           unsigned int flags,
                                           const struct sockaddr *to,
                                           int tolen,
                                           float loss,
                                           int lat);

/**
 * Ends a client and frees it. The socket stays open; nothing here uses it any more when this returns. A
 * `srp_recvfrom` that waits in another thread returns an error.
 *
 * What is no client, or none any more, is let be, with `errno` set to `EBADF`. Not to be called by a signal handler.
 */
void srp_client_stop(struct srp_client_socket *sock);

/**
 * Waits for the next message and copies it into `buffer`, `max` bytes of it at most; the rest of a longer one is gone.
 *
 * Returns the number of bytes copied; 0 when the next message was lost; `EPIPE` on error, or `-EPIPE` for clients with
 * `SRP_NEGATIVE_ERRORS`, with `errno`: `EBADF` (no client, or none any more; or the program has closed or shut down
 * its socket, which is noticed within 50 ms), `ECANCELED` (stopped meanwhile), `EFAULT` (`buffer` is NULL), `EINVAL`
 * (`max` is not more than 0), `EINTR` (a signal came), or what the socket said, such as `ECONNREFUSED` where it is
 * connected; after those two the client goes on. Otherwise `errno` is 0.
 *
 * Requests and time probes go out while this waits: call it again without long pauses.
 */
int srp_recvfrom(struct srp_client_socket *sock,
                 void *buffer,
                 int max);

/**
 * Begins to serve the client at `to`, through the UDP socket `sock`, and starts the thread that receives its requests.
 *
 * `flags`: as for `srp_client_start`; only `SRP_IMPROVED` concerns a server. Returns NULL on error, with `errno` as
 * there, and `EAGAIN` where no thread is to be had.
 */
struct srp_server_socket *srp_server_start(int sock,
                                           unsigned int flags,
                                           const struct sockaddr *to,
                                           int tolen);

/**
 * Ends a server and its thread, and frees it. The socket stays open; nothing here uses it any more when this returns.
 * What was sent last is repaired no more: a program that cares waits a little first.
 *
 * What is no server, or none any more, is let be, with `errno` set to `EBADF`. Not to be called by a signal handler.
 */
void srp_server_stop(struct srp_server_socket *sock);

/**
 * Sends a message of `len` bytes: 1 to 1480 as published (1456 where packets are not to be cut by IP), 1 to 65535 when
 * improved.
 *
 * Returns the number of bytes sent, all of them, or -1 with `errno`: `EBADF` (no server, or none any more; or the
 * program has closed its socket), `ECANCELED` (stopped meanwhile), `EFAULT` (`msg` is NULL), `EINVAL` (`len` is not
 * more than 0), `EMSGSIZE` (too long), or what the socket said. After the last the message counts as sent: the client
 * may still ask for it.
 */
int srp_sendto(struct srp_server_socket *sock,
               const void *msg,
               int len);

#ifdef __cplusplus
}  /* extern "C" */
#endif  /* __cplusplus */

#endif  /* SRP_H */
