//! Limits, processor, network and devices, as the system tells them.

use std::collections::BTreeSet;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::Path;

use antiphon_net::{
    SocketBuffers, SocketOptions, datagram_to_group, datagram_to_self, process_limits, socket_buffers,
};
use antiphon_proto::TRANSPORTS;
use antiphon_sound::Device;

use super::Check;
use crate::compare::descriptors;

const BUFFERS: &str = "socket buffers";
const OPEN_FILES: &str = "open files";
const LOCKED: &str = "locked memory";
const GOVERNOR: &str = "governor";
const IPV6: &str = "ipv6";
const MULTICAST: &str = "multicast";
const DEVICES: &str = "devices";

/// What this process may use.
pub(super) fn limits() -> Vec<Check> {
    let asked = SocketOptions::default();
    let granted = socket_buffers(&asked).map_err(|error| error.to_string());
    let limits = process_limits();
    vec![judge_buffers(&asked, granted), judge_open_files(limits.open_files, descriptors(TRANSPORTS.len()))]
}

/// Judges the buffers of a socket.
pub(super) fn judge_buffers(asked: &SocketOptions, granted: Result<SocketBuffers, String>) -> Check {
    let granted = match granted {
        Ok(granted) => granted,
        Err(why) => {
            return Check::fault(
                BUFFERS,
                format!("no UDP socket on loopback: {why}"),
                "let this program open sockets (a sandbox or SECCOMP filter may refuse it)",
            );
        }
    };
    let of = |name: &str, asked: usize, granted: usize| {
        (granted < asked).then(|| (format!("net.core.{name}={asked}"), format!("{granted} of {asked}")))
    };
    let short = [
        of("rmem_max", asked.receive_buffer, granted.receive),
        of("wmem_max", asked.send_buffer, granted.send),
    ];
    let names = ["receive", "send"];
    let said: Vec<String> = names
        .iter()
        .zip(&short)
        .filter_map(|(name, short)| {
            short.as_ref().map(|(_, of)| format!("the {name} buffer gets {of} bytes"))
        })
        .collect();
    let settings: Vec<String> = short.into_iter().flatten().map(|(setting, _)| setting).collect();
    let check = if settings.is_empty() {
        Check::ok(BUFFERS, format!("{} bytes to receive, {} to send", granted.receive, granted.send))
    } else {
        Check::warning(
            BUFFERS,
            format!("{}: a stall of this machine loses packets sooner", said.join(", ")),
            format!(
                "sudo sysctl -w {}; the same without 'sysctl -w' as lines of /etc/sysctl.d/antiphon.conf keeps it",
                settings.join(" ")
            ),
        )
    };
    check.with(&[("receive_bytes", granted.receive as f64), ("send_bytes", granted.send as f64)])
}

/// Judges the limit on open files. `wanted`: what the largest comparison takes; `limit`: `None` if there is none.
pub(super) fn judge_open_files(limit: Option<u64>, wanted: u64) -> Check {
    match limit {
        None => Check::ok(OPEN_FILES, "no limit"),
        Some(limit) => {
            let check = if limit < wanted {
                Check::warning(
                    OPEN_FILES,
                    format!("the limit is {limit}, and a comparison of all transports takes {wanted}"),
                    format!(
                        "raise it: a line '* - nofile {}' in /etc/security/limits.d/files.conf, or \
                             LimitNOFILE={} in a systemd service",
                        wanted.max(4096),
                        wanted.max(4096)
                    ),
                )
            } else {
                Check::ok(OPEN_FILES, format!("the limit is {limit}"))
            };
            check.with(&[("limit", limit as f64)])
        }
    }
}

/// Judges how many bytes may be locked into memory; `None`: any number. Only JACK's clients lock theirs.
pub(super) fn judge_locked_memory(limit: Option<u64>, jack_runs: bool) -> Check {
    match limit {
        None => Check::ok(LOCKED, "no limit"),
        Some(limit) => {
            let check = if !jack_runs {
                Check::ok(
                    LOCKED,
                    format!("the limit is {limit} bytes; only clients of JACK need more, and no server runs"),
                )
            } else if limit < JACK_LOCKS {
                Check::warning(
                    LOCKED,
                    format!(
                        "the limit is {limit} bytes: a client of JACK may not lock its buffers, and is held up when \
                             memory is short"
                    ),
                    "write a line '@audio - memlock unlimited' into /etc/security/limits.d/audio.conf, join that group \
                     with 'sudo usermod -aG audio $USER', and log in again",
                )
            } else {
                Check::ok(LOCKED, format!("the limit is {limit} bytes"))
            };
            check.with(&[("limit_bytes", limit as f64)])
        }
    }
}

/// The governors of this machine's processors.
pub(super) fn governor() -> Check {
    judge_governors(&governors(Path::new("/sys/devices/system/cpu")))
}

/// The governor of each processor below `directory`, each name once.
fn governors(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path().join("cpufreq/scaling_governor"));
    files.filter_map(|file| std::fs::read_to_string(file).ok()).map(|name| name.trim().to_string()).collect()
}

/// Judges them.
pub(super) fn judge_governors(governors: &BTreeSet<String>) -> Check {
    let names = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    if governors.is_empty() {
        return Check::not_checked(
            GOVERNOR,
            "the system shows no control of the processors' frequency, as is usual on a virtual machine",
        );
    }
    if governors.iter().all(|name| name == "performance") {
        return Check::ok(GOVERNOR, "the processors keep their frequency (performance)");
    }
    Check::warning(
        GOVERNOR,
        format!("the processors slow down between packets ({names}): media threads wake later"),
        "while you play: sudo cpupower frequency-set -g performance (on Debian: apt install linux-cpupower)",
    )
}

/// What the network of this machine can do beside IPv4 between two programs.
pub(super) fn network() -> Vec<Check> {
    let ipv6 = datagram_to_self(Ipv6Addr::LOCALHOST.into()).map_err(|error| error.to_string());
    let group = datagram_to_group().map_err(|error| error.to_string());
    vec![judge_ipv6(ipv6), judge_multicast(group)]
}

/// Judges a datagram over IPv6 on loopback.
pub(super) fn judge_ipv6(sent: Result<(), String>) -> Check {
    match sent {
        Ok(()) => {
            let to = SocketAddr::from((Ipv6Addr::LOCALHOST, 0)).ip();
            Check::ok(IPV6, format!("a datagram to {to} came"))
        }
        Err(why) => Check::warning(
            IPV6,
            format!("no IPv6: {why}; only peers with IPv4 addresses can be reached"),
            "switch it on if your peers have it: sudo sysctl -w net.ipv6.conf.all.disable_ipv6=0",
        ),
    }
}

/// Judges a datagram to a group on loopback.
pub(super) fn judge_multicast(sent: Result<(), String>) -> Check {
    match sent {
        Ok(()) => Check::ok(MULTICAST, "a datagram to a group came"),
        Err(why) => Check::warning(
            MULTICAST,
            format!("no datagram to a group came on loopback: {why}"),
            "only streams to groups and announced streams need it: allow 239.0.0.0/8 in the firewall",
        ),
    }
}

/// The devices of this machine, and what their servers want.
pub(super) fn devices() -> Vec<Check> {
    let devices = antiphon_sound::devices();
    let jack_runs = devices.iter().any(|device| device.name == "jack" && device.available);
    vec![judge_devices(&devices), judge_locked_memory(process_limits().locked_memory, jack_runs)]
}

/// Judges the devices that have a clock: sound servers and what they play to.
pub(super) fn judge_devices(devices: &[Device]) -> Check {
    let clocked = || devices.iter().filter(|device| device.clocked);
    let usable: Vec<&str> =
        clocked().filter(|device| device.available).map(|device| device.name.as_str()).collect();
    let check = if usable.is_empty() {
        // Those without a URI are not in this version at all; of the others the list says what is missing and what to do.
        let servers = clocked().filter(|device| device.source.is_some());
        let servers: Vec<&str> = servers.map(|device| device.about.as_str()).collect();
        Check::warning(
            DEVICES,
            "no sound server can be used, so that only files, pipes and test signals can be sent and recorded",
            servers.join("; "),
        )
    } else {
        Check::ok(DEVICES, format!("can be used: {}", usable.join(", ")))
    };
    check.with(&[("usable", usable.len() as f64)])
}

/// The least limit at which JACK's clients lock what they need without asking again: buffers and stack of a client.
const JACK_LOCKS: u64 = 64 << 20;
