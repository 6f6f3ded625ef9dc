//! The virtual machine, and the namespace at this end of its link.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{LazyLock, Mutex, MutexGuard};

use antiphon_net::netns::Namespace;

/// The machine, once for all tests.
pub struct Guest {
    pub namespace: Namespace,
    name: String,
}

/// Boots the machine at the first call. Only one test at a time uses it, beginning without impairments.
pub fn guest() -> MutexGuard<'static, Guest> {
    static GUEST: LazyLock<Mutex<Guest>> = LazyLock::new(|| Mutex::new(Guest::boot()));
    // A failed test leaves the machine usable.
    let guest = GUEST.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    guest.unimpaired();
    guest
}

/// Our address, as seen from the machine.
pub const HOST: [&str; 2] = ["10.77.0.1", "fd77::1"];
/// The machine's address.
pub const GUEST: [&str; 2] = ["10.77.0.2", "fd77::2"];

/// Addresses in another network, while both exist.
pub const SECOND_HOST: &str = "10.78.0.1";
pub const SECOND_GUEST: &str = "10.78.0.2";

const FIRST_RTO: &str = "/proc/sys/net/sctp/rto_initial";
/// RFC 9260 §16.
const DEFAULT_FIRST_RTO_MS: u32 = 3000;

/// An address as it stands in a URI.
pub fn bracketed(address: &str) -> String {
    match address.parse().expect("an address") {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    }
}

impl Guest {
    fn boot() -> Self {
        let process = std::process::id();
        let name = format!("kpeer{process}");
        let boot = script("boot").env("KP_NS", &name).env("KP_OWNER", process.to_string()).output();
        let boot = boot.expect("a shell");
        assert!(
            boot.status.success(),
            "{}{}\nneeds root; scripts/install-peers brings what else is missing",
            String::from_utf8_lossy(&boot.stdout),
            String::from_utf8_lossy(&boot.stderr)
        );
        Guest { namespace: Namespace::find(&name).expect("the script made it"), name }
    }

    /// Runs a command in the machine; returns its output and its exit status.
    pub fn try_exec(&self, command: &str) -> (String, Option<i32>) {
        let output = script("exec").env("KP_NS", &self.name).arg(command).output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (text + &String::from_utf8_lossy(&output.stderr), output.status.code())
    }

    /// Runs a command in the machine that must succeed.
    pub fn exec(&self, command: &str) -> String {
        let (text, code) = self.try_exec(command);
        assert_eq!(code, Some(0), "{command}: {text}");
        text
    }

    /// Starts a command in the machine that runs until [`Self::exec`] of `kp-stop NAME`; its output is in its log.
    pub fn start(&self, name: &str, command: &str) {
        self.exec(&format!("kp-start {name} {command}; sleep 0.3"));
    }

    /// Impairs all packets, each way, in netem's syntax.
    pub fn impair(&self, netem: &str) {
        self.exec(&format!("kp-netem out eth0 {netem}; kp-netem in eth0 {netem}"));
    }

    /// Packets lost by the impairment so far.
    pub fn lost(&self) -> u64 {
        let text = self.exec("tc -s qdisc show");
        let dropped = |line: &str| {
            let (_, rest) = line.split_once("dropped ")?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        text.lines().filter_map(dropped).sum()
    }

    /// Removes all impairments, and what [`Self::set_first_rto`] has changed.
    pub fn unimpaired(&self) {
        self.exec("kp-netem off eth0");
        // It is not there before the machine has had its first association.
        self.exec(&format!("[ ! -e {FIRST_RTO} ] || echo {DEFAULT_FIRST_RTO_MS} > {FIRST_RTO}"));
    }

    /// The time after which the machine repeats the first packet of an SCTP association, until it has measured the round trip.
    /// The next test, and [`Self::unimpaired`], set it back.
    pub fn set_first_rto(&self, ms: u32) {
        self.exec(&format!("echo {ms} > {FIRST_RTO}"));
    }

    /// Runs `work` while both ends have an IPv4 address in another network as well.
    pub fn with_second_addresses<T>(&self, work: impl FnOnce() -> T) -> T {
        let [ours, theirs] = [SECOND_HOST, SECOND_GUEST].map(|address| format!("{address}/24"));
        let at_both = |verb: &str| {
            let here = self.here("ip").args(["addr", verb, &ours, "dev", "kptap0"]).status();
            assert!(here.expect("scripts/install-peers brings ip").success());
            self.exec(&format!("ip addr {verb} {theirs} dev eth0"));
        };
        at_both("add");
        let done = work();
        at_both("del");
        done
    }

    /// Runs `work` while nothing passes between us and that address of the machine.
    pub fn cut_off<T>(&self, address: &str, work: impl FnOnce() -> T) -> T {
        let nft = |rules: &str| {
            let done = self.here("nft").arg(rules).status();
            assert!(done.expect("scripts/install-peers brings nft").success(), "{rules}");
        };
        nft(&format!(
            "add table inet cut; \
             add chain inet cut out {{ type filter hook output priority 0; }}; \
             add chain inet cut in {{ type filter hook input priority 0; }}; \
             add rule inet cut out ip daddr {address} drop; add rule inet cut in ip saddr {address} drop"
        ));
        let done = work();
        nft("delete table inet cut");
        done
    }

    /// A command in our namespace.
    pub fn here(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }
}

/// A program of ours beside the machine; killed when the test ends.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // A second panic while a test fails would hide the first: a program that cannot be ended is only reported.
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("process {} can't be ended: {error}", self.0.id());
        }
    }
}

/// The number after `NAME=` in the output of a program of the machine.
pub fn figure(text: &str, name: &str) -> u64 {
    let value = text.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name} in: {text}"))
}

fn script(name: &str) -> Command {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/kernel-peer");
    Command::new(root.join(name))
}
