//! Options of sockets and media threads.

use std::time::Duration;

use antiphon::core::ByteCount;
use antiphon::core::units::parse_duration;
use antiphon::net::{AllowList, Multicast, Network, SocketOptions, WaitStyle};
use clap::Args;

use crate::completions;
use crate::values;

/// How media threads wait.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sockets")]
pub struct WaitArgs {
    /// Never sleep: saves microseconds of delay, uses a whole processor core
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
    /// DSCP of sent packets: 0 to 63, or a name such as ef, af41, cs5
    #[arg(long, value_name = "CLASS", value_parser = completions::completed(values::dscp, completions::classes), hide_possible_values = true, default_value = "ef")]
    pub dscp: u8,
    /// Priority in the kernel's send queue, 0 to 6
    #[arg(long, value_name = "N", value_parser = values::priority, allow_negative_numbers = true, default_value = "6")]
    pub priority: u32,
    /// How long a send can wait for buffer space
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "40ms")]
    pub send_timeout: Duration,
    /// Close a TCP connection whose peer does not respond for this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    pub peer_patience: Duration,
    /// Kernel receive buffer
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub receive_buffer: ByteCount,
    /// Kernel send buffer
    #[arg(long, value_name = "SIZE", default_value = "256KiB")]
    pub send_buffer: ByteCount,
    /// How long the kernel polls the network card (SO_BUSY_POLL); 0us: never
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0us")]
    pub kernel_poll: Duration,
    /// TCP congestion control, such as cubic or bbr [default: the system's]
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    /// Let IP fragment datagrams that are too large for the path
    #[arg(long)]
    pub fragment: bool,
    /// Multicast TTL: how many routers packets can cross [default: 1]
    #[arg(long, value_name = "HOPS", value_parser = values::ttl, allow_negative_numbers = true)]
    pub ttl: Option<u8>,
    /// Network interface for multicast, by name or address
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
            segments: false,
            multicast: Multicast { ttl: self.ttl, interface: self.iface.clone(), ..Multicast::default() },
            other_peers: Vec::new(),
            allow: AllowList::default(),
        }
    }
}

/// Options of the sockets of a command that may listen: with whom it listens to.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sockets")]
pub struct ListenSocketArgs {
    /// Only listen to this address or network, such as 192.0.2.0/24; can be
    /// repeated [default: everyone]
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    allow: Vec<Network>,
    #[command(flatten)]
    socket: SocketArgs,
}

impl ListenSocketArgs {
    /// Converts to the facade's options.
    pub fn options(&self) -> SocketOptions {
        SocketOptions { allow: AllowList::new(self.allow.iter().copied()), ..self.socket.options() }
    }
}
