//! Sizes in bytes of the headers and packets that all transports use, each with its source.

/// IPv4's header without options (RFC 791 §3.1).
pub const IPV4_HEADER: usize = 20;

/// IPv6's header without extensions (RFC 8200 §3).
pub const IPV6_HEADER: usize = 40;

/// UDP's header (RFC 768).
pub const UDP_HEADER: usize = 8;

/// TCP's header without options (RFC 9293 §3.1).
pub const TCP_HEADER: usize = 20;

/// TCP's time-stamp option with the two bytes that align it (RFC 7323 §3.2 and appendix A).
pub const TCP_TIMESTAMPS: usize = 12;

/// The header of an ICMP echo (RFC 792).
pub const ICMP_ECHO_HEADER: usize = 8;

/// UDP's and IPv4's headers.
pub const UDP_IPV4_HEADERS: usize = UDP_HEADER + IPV4_HEADER;

/// UDP's and IPv6's headers.
pub const UDP_IPV6_HEADERS: usize = UDP_HEADER + IPV6_HEADER;

/// TCP's header with time stamps, and IPv4's: the headers of a data segment between current kernels.
pub const TCP_IPV4_HEADERS: usize = TCP_HEADER + TCP_TIMESTAMPS + IPV4_HEADER;

/// The longest IP packet that Ethernet carries (RFC 894).
pub const ETHERNET_MTU: usize = 1500;

/// The largest payload of a UDP datagram over IPv4, whose length field counts up to 65 535 (RFC 768, RFC 791 §3.1).
pub const MAX_UDP_PAYLOAD: usize = 65_535 - UDP_IPV4_HEADERS;

/// Payload of a TCP segment with time stamps that fills an Ethernet packet.
pub const TCP_SEGMENT: usize = ETHERNET_MTU - TCP_IPV4_HEADERS;

/// Bytes that a TCP may hold unsent for a sender whose messages can expire (`TCP_NOTSENT_LOWAT`, Linux tcp(7)): about
/// two packets of stereo sound, so that later messages wait where a deadline can still drop them. Chosen here.
pub const TCP_NOT_SENT_LOW_WATER: usize = 2048;

const _: () = assert!(MAX_UDP_PAYLOAD == 65_507 && TCP_SEGMENT == 1448);
