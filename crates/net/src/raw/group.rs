//! Multicast groups directly over IP.

use std::net::{IpAddr, SocketAddr};

use antiphon_core::{OverIp, PathId};

use super::RawLine;
use crate::capture::Ends;
use crate::line::LineError;
use crate::multicast::{source_address, with_scope};
use crate::options::{self, SocketOptions};
use crate::raw_socket::RawSocket;

/// The group of a line that sends to one or has joined one.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub address: SocketAddr,
    /// The address that this machine sends from to the group, and to its members.
    pub ours: IpAddr,
    pub joined: bool,
}

impl Group {
    /// Whether a packet is for a line of this group whose own port is `port`, 0 where it is not known yet.
    pub fn takes(&self, port: u16, ends: &Ends) -> bool {
        match options::is_multicast(ends.local.ip()) {
            true => {
                self.joined
                    && ends.local.ip() == self.address.ip()
                    && ends.local.port() == self.address.port()
            }
            false => port != 0 && ends.local.port() == port,
        }
    }
}

impl RawLine {
    /// A line that sends to a group, or joins it. Several on one machine differ by their own ports.
    pub(super) fn of_group(
        group: SocketAddr,
        joined: bool,
        over_ip: Box<dyn OverIp + Send>,
        options: &SocketOptions,
    ) -> Result<Self, LineError> {
        let mut notes = Vec::new();
        let address = with_scope(group, options)?;
        let protocol = over_ip.protocol();
        let socket = match joined {
            true => RawSocket::join(address, protocol, options, &mut notes)?,
            false => RawSocket::send_to_group(address, protocol, options, &mut notes)?,
        };
        let ours = source_address(address, options).unwrap_or(socket.local().ip());
        let mut line = Self::with(vec![socket], over_ip, options, notes);
        line.group = Some(Group { address, ours, joined });
        if !joined {
            let to_group = line.peers.path_of(address, |_| true);
            assert_eq!(to_group, Some(PathId(0)), "the first path of a table");
        }
        Ok(line)
    }
}
