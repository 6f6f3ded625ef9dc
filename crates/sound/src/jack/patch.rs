//! What others have connected our ports with, as a patch bay does: a new client in place of one that was lost is connected alike.

/// Connections of our ports by channel, each with the other port's name, in the order that the server tells.
pub(super) type Connections = Vec<Vec<String>>;

/// Remembers connections, and which of them a new client lacks.
#[derive(Default)]
pub(super) struct Patch {
    /// As last looked at, and the last cycle by then.
    seen: Connections,
    cycle: u64,
    /// As they were while cycles still came: a server that ends may disconnect its clients first.
    kept: Connections,
    /// Those of a lost client that the new one lacks.
    lacking: Vec<(usize, String)>,
    /// How often they are looked for.
    looks: u32,
}

impl Patch {
    /// The client's connections are `now`; its last cycle was handled at `cycle`, in microseconds.
    pub fn look(&mut self, now: Connections, cycle: u64) {
        let seen = std::mem::replace(&mut self.seen, now);
        if std::mem::replace(&mut self.cycle, cycle) != cycle && self.lacking.is_empty() {
            self.kept = seen;
        }
    }

    /// Another client begins.
    pub fn restart(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        // One that is called no more may be connected later still.
        let last = if self.seen.iter().all(Vec::is_empty) { kept } else { std::mem::take(&mut self.seen) };
        for (channel, ports) in last.into_iter().enumerate() {
            for port in ports.into_iter().map(|port| (channel, port)) {
                if !self.lacking.contains(&port) {
                    self.lacking.push(port);
                }
            }
        }
        (self.seen, self.looks) = (Vec::new(), LOOKS);
    }

    /// Makes connections of the client before that this one lacks, by `connect`, as far as the ports are there: other programs may come back later. Returns the
    /// ports of others that it has connected.
    pub fn restore(
        &mut self,
        now: &Connections,
        mut connect: impl FnMut(usize, &str) -> bool,
    ) -> Vec<String> {
        let mut connected = Vec::new();
        self.lacking.retain(|(channel, port)| {
            let is_there = now.get(*channel).is_some_and(|ports| ports.contains(port));
            if !is_there && connect(*channel, port) {
                connected.push(port.clone());
                return false;
            }
            !is_there
        });
        self.looks = self.looks.saturating_sub(1);
        if self.looks == 0 {
            self.lacking.clear();
        }
        connected
    }

    /// Whether the client before had connections that this one lacks.
    pub fn lacks(&self) -> bool {
        !self.lacking.is_empty()
    }
}

/// A client is looked at every 50 ms: for half a minute, as long as the programs of a session take to come back.
const LOOKS: u32 = 600;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ports: &[&str]) -> Connections {
        vec![ports.iter().map(|port| (*port).to_string()).collect()]
    }

    #[test]
    fn a_new_client_gets_the_connections_of_the_one_before() {
        let mut patch = Patch::default();
        for cycle in 1..4 {
            patch.look(of(&["mixer:in", "scope:in"]), cycle);
        }
        // The server disconnects it, which may be seen while its last cycle is fresh.
        patch.look(of(&[]), 4);
        patch.look(of(&[]), 4);
        patch.restart();
        assert!(patch.lacks());
        // The new one is connected with one of them already; the other comes later.
        let mut asked = Vec::new();
        assert!(patch.restore(&of(&["mixer:in"]), |_, _| false).is_empty());
        patch.look(of(&["mixer:in"]), 5);
        assert_eq!(
            patch.restore(&of(&["mixer:in"]), |channel, port| {
                asked.push((channel, port.to_string()));
                true
            }),
            ["scope:in"]
        );
        assert_eq!(asked, [(0, "scope:in".to_string())]);
        assert!(!patch.lacks());
    }

    #[test]
    fn a_connection_made_after_the_last_cycle_counts() {
        let mut patch = Patch::default();
        (1..4).for_each(|cycle| patch.look(of(&[]), cycle));
        patch.look(of(&["mixer:in"]), 3);
        patch.restart();
        assert_eq!(patch.restore(&of(&[]), |_, _| true), ["mixer:in"]);
    }

    #[test]
    fn what_is_disconnected_while_all_is_well_stays_so() {
        let mut patch = Patch::default();
        patch.look(of(&["mixer:in"]), 1);
        (2..5).for_each(|cycle| patch.look(of(&[]), cycle));
        patch.restart();
        assert!(!patch.lacks());
    }

    #[test]
    fn ports_that_never_come_back_are_given_up() {
        let mut patch = Patch::default();
        (1..4).for_each(|cycle| patch.look(of(&["mixer:in"]), cycle));
        patch.restart();
        let tries = (0..10_000).filter(|_| {
            let mut tried = false;
            patch.restore(&of(&[]), |_, _| {
                tried = true;
                false
            });
            tried
        });
        assert_eq!(tries.count(), LOOKS as usize);
    }

    #[test]
    fn what_a_second_client_lacks_is_known_once() {
        let mut patch = Patch::default();
        (1..4).for_each(|cycle| patch.look(of(&["mixer:in", "scope:in"]), cycle));
        for _ in 0..5 {
            patch.restart();
            // Another program connects it by hand just before it is lost again.
            patch.look(of(&["mixer:in"]), 4);
        }
        patch.restart();
        assert_eq!(patch.restore(&of(&[]), |_, _| true), ["mixer:in", "scope:in"]);
    }
}
