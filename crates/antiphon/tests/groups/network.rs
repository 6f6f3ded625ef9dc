//! Networks of namespaces.

use std::process::Command;

use antiphon::net::netns::{Namespace, NetnsError};

/// Namespaces that a bridge joins. None has a name: they and their devices exist as long as the handles, or this process.
pub struct Network {
    /// Where the bridge is, with a port for each host.
    hub: Namespace,
    /// The sender, then the members; host *n* has the address 10.61.7.(*n* + 1).
    pub hosts: Vec<Namespace>,
}

impl Network {
    pub fn new(hosts: usize) -> Result<Self, NetnsError> {
        let hub = Namespace::private()?;
        let hosts = (0..hosts).map(|_| Namespace::private()).collect::<Result<Vec<_>, _>>()?;
        let network = Network { hub, hosts };
        network.hub.run(|| network.join())?;
        Ok(network)
    }

    /// Makes the bridge and its ports, in the hub.
    fn join(&self) {
        // Without snooping it floods groups at once; with it, members would first have to be learned.
        program("ip link add bridge type bridge mcast_snooping 0");
        program("ip link set bridge up");
        let here = std::fs::read_link("/proc/thread-self").expect("/proc is mounted");
        let here = format!("/proc/{}/ns/net", here.display());
        for (n, host) in self.hosts.iter().enumerate() {
            let connect = || {
                program(&format!("ip link add net type veth peer name port{n} netns {here}"));
                program(&format!("ip address add {}/24 dev net", address(n)));
                program("ip link set net up");
            };
            host.run(connect).expect("a namespace");
            program(&format!("ip link set port{n} master bridge up"));
        }
    }

    /// Takes from what a host is to receive the packets that a classic BPF program chooses.
    pub fn lose(&self, host: usize, program_of_filter: &str) {
        let (port, sink) = (format!("port{host}"), format!("lost{host}"));
        self.in_hub(|| {
            // Its other end receives what was lost, and nobody reads it.
            program(&format!("ip link add {sink} up type veth peer name end{host}"));
            program(&format!("ip link set end{host} up"));
            program(&format!("tc qdisc add dev {port} clsact"));
            program(&format!(
                "tc filter add dev {port} egress bpf bytecode {program_of_filter:?} action mirred egress redirect \
                 dev {sink}"
            ));
        });
    }

    /// Nothing reaches a host any more, nor leaves it.
    pub fn cut_off(&self, host: usize) {
        self.in_hub(|| program(&format!("ip link set port{host} down")));
    }

    /// Packets that a host did not get since [`Self::lose`].
    pub fn lost(&self, host: usize) -> u64 {
        let told = self.in_hub(|| program(&format!("tc -s filter show dev port{host} egress")));
        // The action's statistics: "Sent 14920 bytes 10 pkt (dropped 0, …".
        let before = told.split(" pkt ").next().and_then(|before| before.split_whitespace().last());
        before.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("no packets in {told}"))
    }

    fn in_hub<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.hub.run(work).expect("a namespace")
    }
}

pub fn address(host: usize) -> String {
    format!("10.61.7.{}", host + 1)
}

/// Runs a program in the namespace of the calling thread, and returns what it says; words in quotation marks stay together.
pub fn program(line: &str) -> String {
    let parts: Vec<&str> = line.split('"').collect();
    let words = parts.iter().enumerate().flat_map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![*part],
    });
    let words: Vec<&str> = words.collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", words[0]));
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}
