//! Settings of a TCP, and those of kernels from 1999 to today.

use std::time::Duration;

use antiphon_proto::rtt::{RtoFloor, RtoSettings};

/// All settings that distinguish one TCP from another. Start from a kernel's and change what the experiment changes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Profile {
    /// Bytes of payload and TCP options in a full segment: 1460 on Ethernet over IPv4.
    pub mss: u32,
    /// Timestamps option on every segment (RFC 7323): 12 bytes, and a round trip from every acknowledgement.
    pub timestamps: bool,
    /// Selective acknowledgements (RFC 2018).
    pub sack: bool,
    /// Shift of the advertised window; `None`: at most 65 535 bytes.
    pub window_scale: Option<u8>,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// What the congestion window counts.
    pub window_unit: WindowUnit,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Shrink the window after an idle time-out and while the application does not use it (RFC 2861, RFC 5681 §4.1).
    pub idle_restart: bool,
    /// How losses are detected before a time-out.
    pub loss_detection: LossDetection,
    /// Duplicate acknowledgements, or segments acknowledged beyond a hole, that make a loss (RFC 5681 §3.2: 3).
    pub dup_threshold: u32,
    /// Send a probe about two round trips after the last segment (RFC 8985 §7). Needs SACK.
    pub tail_loss_probe: bool,
    /// How the window is reduced in recovery.
    pub reduction: Reduction,
    /// Undo a reduction that proves spurious (RFC 3522 by timestamps, RFC 3708 by duplicate SACKs).
    pub undo: bool,
    /// Retransmission time-out.
    pub rto: RtoSettings,
    /// When acknowledgements are sent.
    pub delayed_ack: DelayedAck,
    /// Multiply the time-out by a quarter more, and by up to once more while the window is small: 1.25 + 2^(1 - cwnd). Linux
    /// 2.2 (`tcp_set_rto`).
    pub rto_stretch: bool,
    /// After a time-out, send nothing new and keep the back-off until all that was sent is acknowledged: Linux 2.2
    /// (`tcp_snd_test`, `tcp_ack_saw_tstamp`: `retransmits`).
    pub repairs_first: bool,
    /// Send small segments at once; otherwise Nagle's rule (RFC 896, RFC 9293 §3.7.4).
    pub no_delay: bool,
    /// Whom Nagle's rule holds back.
    pub nagle: Nagle,
    /// Bytes the application may write ahead, unacknowledged ones included: payload alone, unless `segment_memory` says what
    /// each segment takes.
    pub send_buffer: usize,
    /// Memory that a segment in the send buffer takes, whatever its payload (Linux: `skb->truesize`); zero: payload alone is
    /// counted, and the buffer stays as it is. Otherwise it is at least an initial window of full segments, grows when a
    /// writer waits for it, and a writer that waits goes on when a third is free: Linux's `tcp_fixup_sndbuf`, `tcp_new_space`
    /// and `sk_stream_min_wspace`.
    pub segment_memory: u32,
    /// Bytes that may wait for the reading application; payload alone.
    pub receive_buffer: usize,
    /// Retransmissions of a SYN before giving up.
    pub syn_retries: u32,
    /// Time-outs in a row before giving up.
    pub retries: u32,
    /// Give up when data stays unacknowledged for this long, whatever `retries` says (RFC 5482).
    pub user_timeout: Option<Duration>,
}

/// Congestion control algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// RFC 5681.
    Reno,
    /// RFC 9438, without HyStart.
    Cubic,
}

/// What the congestion window counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowUnit {
    /// A segment counts as one, however small: Linux.
    Packets,
    /// A segment counts by its payload: RFC 5681, BSD, Windows.
    Bytes,
}

/// Which segments wait while others are unacknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nagle {
    /// One that is not full, while another such one is unacknowledged: Linux since 2.4 (`tcp_minshall_check`).
    Minshall,
    /// One of less than half the size, while anything is unacknowledged: Linux 2.2 (`tcp_snd_test`).
    HalfSegment,
}

/// How losses are detected before a time-out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossDetection {
    /// So many segments above a hole are acknowledged (RFC 6675); counts duplicates and takes NewReno's partial
    /// acknowledgements (RFC 6582) if the peer does not do SACK.
    DupAcks,
    /// So many segments were sent above a hole up to the highest acknowledged one, acknowledged or not: Linux 2.2 to
    /// 4.14 (Mathis and Mahdavi, "Forward acknowledgement", SIGCOMM 1996).
    Fack,
    /// By time (RFC 8985 §6); falls back to `DupAcks` without SACK.
    Rack,
}

/// How the window is reduced in recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// In proportion to what arrives (RFC 6937).
    Proportional,
    /// At once (RFC 6675 §5).
    Immediate,
}

/// When a received segment is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAck {
    /// The longest an acknowledgement waits; zero: every segment at once.
    pub timeout: Duration,
    /// What ends the wait earlier.
    pub rule: AckRule,
    /// So many acknowledgements are sent at once when a connection begins and after each disorder.
    pub quick_acks: u32,
    /// A reader that empties the buffer acknowledges a small pushed segment, or two if data flows the other way too:
    /// Linux (`tcp_cleanup_rbuf` with `ICSK_ACK_PUSHED` and `ICSK_ACK_PUSHED2`).
    pub on_read: bool,
    /// It waits for twice the usual time between segments, a smoothed average, and `timeout` at most: Linux 2.2
    /// (`tcp_delack_estimator`, `tcp_send_delayed_ack`).
    pub adaptive: bool,
}

/// What ends the wait of a delayed acknowledgement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckRule {
    /// More than one full segment's worth of bytes (RFC 5681 §4.2, Linux `__tcp_ack_snd_check`).
    FullSegments,
    /// So many segments of any size (Windows `TcpAckFrequency`).
    Segments(u32),
}

impl Profile {
    /// Linux since 4.18 with CUBIC.
    ///
    /// Initial window 10 (RFC 6928), initial time-out 1 s (RFC 6298), 200 ms to 120 s (`TCP_RTO_MIN`, `TCP_RTO_MAX`),
    /// 40 ms delayed acknowledgements (`TCP_DELACK_MIN`), 16 quick ones (`TCP_MAX_QUICKACKS`), `tcp_syn_retries` 6,
    /// `tcp_retries2` 15: `include/net/tcp.h`. Buffers are the start of `tcp_wmem`'s and `tcp_rmem`'s tuning range for
    /// a path of tens of ms, as tuning itself is not modelled; no delay, as audio senders set it.
    pub fn linux() -> Self {
        Profile {
            mss: 1460,
            timestamps: true,
            sack: true,
            window_scale: Some(7),
            algorithm: Algorithm::Cubic,
            window_unit: WindowUnit::Packets,
            initial_window: 10,
            idle_restart: true,
            loss_detection: LossDetection::Rack,
            dup_threshold: 3,
            tail_loss_probe: true,
            reduction: Reduction::Proportional,
            undo: true,
            rto: RtoSettings {
                initial: Duration::from_secs(1),
                min: Duration::from_millis(200),
                max: Duration::from_secs(120),
                longest: Duration::from_secs(120),
                floor: RtoFloor::Variation,
                granularity: Duration::from_millis(1),
            },
            delayed_ack: DelayedAck {
                timeout: Duration::from_millis(40),
                rule: AckRule::FullSegments,
                quick_acks: 16,
                on_read: true,
                adaptive: false,
            },
            rto_stretch: false,
            repairs_first: false,
            no_delay: true,
            nagle: Nagle::Minshall,
            send_buffer: 1 << 20,
            segment_memory: 0,
            receive_buffer: 1 << 20,
            syn_retries: 6,
            retries: 15,
            user_timeout: None,
        }
    }

    /// Linux since 4.18 with `net.ipv4.tcp_congestion_control=reno`.
    pub fn linux_reno() -> Self {
        Profile { algorithm: Algorithm::Reno, ..Profile::linux() }
    }

    /// Linux 2.6.19 (2006) to 2.6.38 (2011), CUBIC by default.
    ///
    /// Before RFC 6928 (initial window 3 at this MSS, `tcp_init_cwnd`), RFC 6298 (initial time-out 3 s), PRR (3.2) and
    /// the tail loss probe (3.10); FACK on; a 250 Hz clock; five SYN retries (`TCP_SYN_RETRIES`). `include/net/tcp.h` of 2.6.24
    /// has these limits, and 2.6.18 and 2.6.32 the same times.
    pub fn linux_2_6_cubic() -> Self {
        let modern = Profile::linux();
        Profile {
            initial_window: 3,
            loss_detection: LossDetection::Fack,
            tail_loss_probe: false,
            reduction: Reduction::Immediate,
            rto: RtoSettings {
                initial: Duration::from_secs(3),
                granularity: Duration::from_millis(4),
                ..modern.rto
            },
            syn_retries: 5,
            ..modern
        }
    }

    /// Linux 2.6 with Reno.
    pub fn linux_2_6_reno() -> Self {
        Profile { algorithm: Algorithm::Reno, ..Profile::linux_2_6_cubic() }
    }

    /// Linux 2.4 (2001): Reno, 100 Hz, buffers of 64 KiB to send and 85 KiB to receive
    /// (`Documentation/networking/ip-sysctl.txt`: `tcp_wmem` default to maximum 16 to 128 KiB, `tcp_rmem` 87 380).
    pub fn linux_2_4() -> Self {
        let later = Profile::linux_2_6_reno();
        Profile {
            window_scale: Some(0),
            rto: RtoSettings { granularity: Duration::from_millis(10), ..later.rto },
            send_buffer: 64 * 1024,
            receive_buffer: 87_380,
            ..later
        }
    }

    /// Linux 2.2 (1999): Reno with SACK, 100 Hz, Nagle on, as programs have it that do not ask.
    ///
    /// From `net/ipv4` of 2.2.1: timestamps, window scaling and SACK are on (`tcp_input.c`); fast retransmission after three
    /// duplicates, or as many acknowledged beyond a hole (`tcp_fast_retrans`), with half the window at once; at a time-out
    /// the window is one, and what else was sent is repeated as it grows (`tcp_retransmit_timer`,
    /// `tcp_xmit_retransmit_queue`); no undo, no restart after idling; least time-out 200 ms (`HZ/5`) in all, greatest 120 s
    /// (`tcp_bound_rto`); acknowledgements wait 500 ms at most (`HZ/2` in `__tcp_ack_snd_check`). From its
    /// `include/net/tcp.h`: 3 s at first, 10 SYN retries, 15 others. The initial window is two (`tcp_v4_init_sock`), the
    /// send buffer 64 KiB, and half of as much is offered as window (`__tcp_select_window`). Its first time-out, from one
    /// round trip, is longer than here (`mdev` begins with the whole).
    pub fn linux_2_2() -> Self {
        let later = Profile::linux_2_4();
        Profile {
            initial_window: 2,
            idle_restart: false,
            undo: false,
            rto: RtoSettings { floor: RtoFloor::Total, ..later.rto },
            delayed_ack: DelayedAck {
                timeout: Duration::from_millis(500),
                rule: AckRule::FullSegments,
                quick_acks: 1,
                on_read: false,
                adaptive: true,
            },
            rto_stretch: true,
            repairs_first: true,
            no_delay: false,
            nagle: Nagle::HalfSegment,
            send_buffer: 65_535,
            receive_buffer: 32_767,
            syn_retries: 10,
            ..later
        }
    }

    /// Windows XP (2001), after Microsoft's "TCP/IP Implementation Details" for Windows 2000 and Server 2003.
    ///
    /// From there: no timestamps, SACK on, window 65 535 without scaling (the 64 240 of XP on 100 Mbit/s Ethernet, 44
    /// segments), initial time-out 3 s (`TcpInitialRTT`), 200 ms or two segments to an acknowledgement
    /// (`TcpDelAckTicks`, `TcpAckFrequency`), `TcpMaxDataRetransmissions` 5, two SYN retries
    /// (`TcpMaxConnectRetransmissions`), fast retransmission after two duplicates (`TcpMaxDupAcks`), window by bytes
    /// from two segments, 8 KiB send buffer (`DefaultSendWindow`). The least time-out of 300 ms is what captures of
    /// the time show; no published source was at hand.
    pub fn windows_xp() -> Self {
        let linux = Profile::linux_2_4();
        Profile {
            timestamps: false,
            window_scale: None,
            window_unit: WindowUnit::Bytes,
            initial_window: 2,
            loss_detection: LossDetection::DupAcks,
            dup_threshold: 2,
            undo: false,
            rto: RtoSettings {
                initial: Duration::from_secs(3),
                min: Duration::from_millis(300),
                max: Duration::from_secs(120),
                longest: Duration::from_secs(120),
                floor: RtoFloor::Total,
                granularity: Duration::from_millis(10),
            },
            delayed_ack: DelayedAck {
                timeout: Duration::from_millis(200),
                rule: AckRule::Segments(2),
                quick_acks: 0,
                on_read: false,
                adaptive: false,
            },
            send_buffer: 8 * 1024,
            receive_buffer: 64_240,
            syn_retries: 2,
            retries: 5,
            ..linux
        }
    }
}
