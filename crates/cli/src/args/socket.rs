//! Options of sockets and media threads.

use std::time::Duration;

use antiphon::core::ByteCount;
use antiphon::core::units::parse_duration;
use antiphon::net::{Multicast, SocketOptions, WaitStyle};
use clap::Args;

use crate::values;

/// How media threads wait.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sockets")]
pub struct WaitArgs {
    /// Never sleep: microseconds less delay for a whole processor core
    #[arg(long)]
    pub busy_poll: bool,
}

impl WaitArgs {
    /// Converts to the facade's options.
    pub fn style(&self) -> WaitStyle {
        if self.busy_poll { WaitStyle::BusyPoll } else { WaitStyle::Block }
    }
}

/// Options of every media socket.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sockets")]
pub struct SocketArgs {
    /// DSCP of what is sent: 0 to 63, or a name such as ef, af41, cs5
    #[arg(long, value_name = "CLASS", value_parser = values::dscp, default_value = "ef")]
    pub dscp: u8,
    /// Queue priority inside this machine, 0 to 6
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=6), default_value = "6")]
    pub priority: u32,
    /// How long a send may wait for room
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "40ms")]
    pub send_timeout: Duration,
    /// How long a TCP peer may be silent or take nothing before it is given up
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub peer_patience: Duration,
    /// Kernel's buffer for what arrives
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub receive_buffer: ByteCount,
    /// Kernel's buffer for what is sent
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    pub send_buffer: ByteCount,
    /// How long the kernel polls the network card for us; 0us: not at all
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0us")]
    pub kernel_poll: Duration,
    /// Congestion control of TCP, such as cubic or bbr [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Let IP fragment datagrams that are too large for the path
    #[arg(long)]
    pub fragment: bool,
    /// Routers that multicast may cross [default: 1]
    #[arg(long, value_name = "HOPS")]
    pub ttl: Option<u8>,
    /// Network interface of multicast, by name or address
    #[arg(long, value_name = "NAME")]
    pub iface: Option<String>,
}

impl SocketArgs {
    /// Converts to the facade's options.
    pub fn options(&self) -> SocketOptions {
        // A larger size than the kernel's limit is reduced, which a note reports.
        let bytes = |size: ByteCount| size.0.min(i32::MAX as u64) as usize;
        SocketOptions {
            priority: self.priority,
            dscp: self.dscp,
            send_timeout: self.send_timeout,
            peer_patience: self.peer_patience,
            receive_buffer: bytes(self.receive_buffer),
            send_buffer: bytes(self.send_buffer),
            busy_poll_us: self.kernel_poll.as_micros().min(i32::MAX as u128) as u32,
            congestion: self.congestion.clone(),
            fragment: self.fragment,
            multicast: Multicast { ttl: self.ttl, interface: self.iface.clone() },
            other_peers: Vec::new(),
        }
    }
}
