/* usrsctp (from its Debian package) at the other end, over UDP: an echo, or a client of one.
 *   usrsctp_peer server LOCAL_UDP SCTP_PORT
 *   usrsctp_peer client LOCAL_UDP ADDRESS PEER_UDP SCTP_PORT COUNT LENGTH [unordered] [ttl=MS]
 * Compiled by the test: cc usrsctp_peer.c -lusrsctp -lpthread */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <usrsctp.h>

#define MOST (1 << 20)

static unsigned char whole[MOST];

static void fatal(const char *what)
{
	perror(what);
	exit(2);
}

static unsigned long long now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

static struct socket *open_socket(int family, int encaps)
{
	struct socket *s = usrsctp_socket(family, SOCK_SEQPACKET, IPPROTO_SCTP, NULL, NULL, 0, NULL);
	int on = 1, buffer = 4 * MOST, whole_messages = 2 * MOST;
	if (!s)
		fatal("usrsctp_socket");
	struct sctp_udpencaps e;
	memset(&e, 0, sizeof e);
	e.sue_address.ss_family = family;
	e.sue_port = htons(encaps);
	if (encaps && usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &e, sizeof e))
		fatal("SCTP_REMOTE_UDP_ENCAPS_PORT");
	usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof on);
	usrsctp_setsockopt(s, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
	usrsctp_setsockopt(s, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
	usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_PARTIAL_DELIVERY_POINT, &whole_messages, sizeof whole_messages);
	usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof on);
	struct sctp_event ev;
	memset(&ev, 0, sizeof ev);
	ev.se_assoc_id = SCTP_ALL_ASSOC;
	ev.se_type = SCTP_ASSOC_CHANGE;
	ev.se_on = 1;
	usrsctp_setsockopt(s, IPPROTO_SCTP, SCTP_EVENT, &ev, sizeof ev);
	return s;
}

static ssize_t send_one(struct socket *s, struct sockaddr *to, const void *b, size_t n, const struct sctp_rcvinfo *like,
			unsigned ttl)
{
	struct sctp_sendv_spa spa;
	memset(&spa, 0, sizeof spa);
	spa.sendv_flags = SCTP_SEND_SNDINFO_VALID;
	spa.sendv_sndinfo.snd_sid = like->rcv_sid;
	spa.sendv_sndinfo.snd_ppid = like->rcv_ppid;
	spa.sendv_sndinfo.snd_flags = like->rcv_flags & SCTP_UNORDERED;
	spa.sendv_sndinfo.snd_assoc_id = like->rcv_assoc_id;
	if (ttl) {
		spa.sendv_flags |= SCTP_SEND_PRINFO_VALID;
		spa.sendv_prinfo.pr_policy = SCTP_PR_SCTP_TTL;
		spa.sendv_prinfo.pr_value = ttl;
	}
	return usrsctp_sendv(s, b, n, to, to ? 1 : 0, &spa, sizeof spa, SCTP_SENDV_SPA, 0);
}

/* The next message or notification whole; its length. */
static ssize_t receive_one(struct socket *s, struct sctp_rcvinfo *info, int *flags)
{
	struct sockaddr_storage from;
	size_t have = 0;
	for (;;) {
		socklen_t from_len = sizeof from, info_len = sizeof *info;
		unsigned type = 0;
		*flags = 0;
		ssize_t n = usrsctp_recvv(s, whole + have, MOST - have, (struct sockaddr *)&from, &from_len, info, &info_len, &type,
					  flags);
		if (n <= 0)
			return n;
		have += n;
		if (*flags & (MSG_EOR | MSG_NOTIFICATION))
			return have;
	}
}

static void serve(int port)
{
	struct socket *s = open_socket(AF_INET, 0);
	struct sockaddr_in me;
	memset(&me, 0, sizeof me);
	me.sin_family = AF_INET;
	me.sin_port = htons(port);
	if (usrsctp_bind(s, (struct sockaddr *)&me, sizeof me) || usrsctp_listen(s, 4))
		fatal("listen");
	printf("READY\n");
	fflush(stdout);
	for (;;) {
		struct sctp_rcvinfo info;
		int flags;
		ssize_t n = receive_one(s, &info, &flags);
		if (n > 0 && !(flags & MSG_NOTIFICATION) && send_one(s, NULL, whole, n, &info, 0) < 0)
			perror("send");
		if (n > 0 && flags & MSG_NOTIFICATION) {
			const struct sctp_assoc_change *c = (const void *)whole;
			printf("ASSOCIATION %d\n", c->sac_state);
			fflush(stdout);
		}
		if (n <= 0)
			usleep(1000);
	}
}

static int call(int argc, char **argv)
{
	static unsigned char out[MOST];
	struct sockaddr_in to;
	struct sctp_rcvinfo like, info;
	int count = atoi(argv[6]), len = atoi(argv[7]), came = 0, bad = 0, sent = 0, flags;
	unsigned ttl = 0;
	memset(&like, 0, sizeof like);
	for (int i = 8; i < argc; i++) {
		if (!strcmp(argv[i], "unordered"))
			like.rcv_flags = SCTP_UNORDERED;
		else if (!strncmp(argv[i], "ttl=", 4))
			ttl = atoi(argv[i] + 4);
	}
	memset(&to, 0, sizeof to);
	to.sin_family = AF_INET;
	to.sin_port = htons(atoi(argv[5]));
	inet_pton(AF_INET, argv[3], &to.sin_addr);
	struct socket *s = open_socket(AF_INET, atoi(argv[4]));
	usrsctp_set_non_blocking(s, 1);
	for (unsigned long long end = now_ms() + 20000; came < count && now_ms() < end;) {
		if (sent < count) {
			for (int i = 0; i < len; i++)
				out[i] = (unsigned char)(sent * 31 + i * 7);
			memcpy(out, &sent, sizeof sent);
			if (send_one(s, (struct sockaddr *)&to, out, len, &like, ttl) == len)
				sent++;
		}
		ssize_t n = receive_one(s, &info, &flags);
		if (n > 0 && !(flags & MSG_NOTIFICATION)) {
			int number, ok = n == len && !((info.rcv_flags ^ like.rcv_flags) & SCTP_UNORDERED);
			memcpy(&number, whole, sizeof number);
			for (int i = sizeof number; i < n && ok; i++)
				ok = whole[i] == (unsigned char)(number * 31 + i * 7);
			came++;
			bad += !ok;
		}
		usleep(1000);
	}
	printf("RESULT sent=%d recv=%d bad=%d\n", sent, came, bad);
	fflush(stdout);
	usrsctp_close(s);
	for (int i = 0; i < 200 && usrsctp_finish(); i++)
		usleep(10000);
	return came == count && !bad ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	usrsctp_init(atoi(argv[2]), NULL, NULL);
	usrsctp_sysctl_set_sctp_ecn_enable(0);
	if (!strcmp(argv[1], "server"))
		serve(atoi(argv[3]));
	return argc < 8 ? 2 : call(argc, argv);
}
