//! Why the packets of the published simple retransmission came more than once.
//!
//! Its sender repeats a packet for which it has not read an acknowledgement in time. Both ends note here what they send and
//! what reaches them, so that each repetition that turns out to be a duplicate has one cause, which is what was the case
//! when it was sent.

use std::cell::RefCell;
use std::rc::Rc;

use crate::figures::StreamFigures;

/// What both ends of a stream have sent and received.
#[derive(Debug, Default)]
pub struct Copies {
    /// By the number in the packet, which begins with 1.
    packets: Vec<Packet>,
    /// Each transmission, in the order of sending.
    sent: Vec<Transmission>,
}

/// The record that both ends write.
pub type SharedCopies = Rc<RefCell<Copies>>;

/// A numbered packet, with all of its transmissions.
#[derive(Clone, Copy, Debug, Default)]
struct Packet {
    /// How many of them have arrived.
    arrived: u32,
    /// Acknowledgements sent.
    acknowledged: u32,
    /// Which of these was the first to reach the sender, counted from 1; 0: none has.
    first_ack: u32,
}

#[derive(Clone, Copy, Debug)]
struct Transmission {
    number: u32,
    /// The packet as it was before this transmission.
    then: Packet,
    arrival: Arrival,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arrival {
    No,
    First,
    Duplicate,
}

/// A text packet of the protocol: `seq:N ` or `ack:N`.
enum Text {
    Data(u32),
    Ack(u32),
}

/// Duplicates by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Causes {
    /// No transmission before it had arrived.
    pub packet_late: u64,
    /// An acknowledgement was on its way, and arrived.
    pub ack_late: u64,
    /// Acknowledgements had been sent, and none of them arrived.
    pub ack_lost: u64,
    /// An acknowledgement was in the sender's socket, not yet read.
    pub ack_unread: u64,
}

impl Copies {
    /// A record with room for `packets` packets, each sent up to four times as published.
    pub fn shared(packets: usize) -> SharedCopies {
        let sent = Vec::with_capacity(4 * packets);
        Rc::new(RefCell::new(Copies { packets: vec![Packet::default(); packets + 1], sent }))
    }

    /// A datagram is sent. Returns the number by which it is recognised when it arrives.
    pub fn on_sent(&mut self, payload: &[u8]) -> u32 {
        match text(payload) {
            Some(Text::Data(number)) => {
                let then = *self.packet(number);
                self.sent.push(Transmission { number, then, arrival: Arrival::No });
                (self.sent.len() - 1) as u32
            }
            Some(Text::Ack(number)) => {
                let packet = self.packet(number);
                packet.acknowledged += 1;
                packet.acknowledged
            }
            None => 0,
        }
    }

    /// The datagram that [`Self::on_sent`] called `mark` has arrived.
    pub fn on_arrival(&mut self, payload: &[u8], mark: u32) {
        match text(payload) {
            Some(Text::Data(number)) => {
                let packet = self.packet(number);
                packet.arrived += 1;
                let arrival = if packet.arrived == 1 { Arrival::First } else { Arrival::Duplicate };
                let sent = self.sent.get_mut(mark as usize).filter(|sent| sent.number == number);
                // What the network copied was not repeated by the sender.
                if let Some(sent) = sent.filter(|sent| sent.arrival == Arrival::No) {
                    sent.arrival = arrival;
                }
            }
            Some(Text::Ack(number)) => {
                let packet = self.packet(number);
                if packet.first_ack == 0 {
                    packet.first_ack = mark;
                }
            }
            None => {}
        }
    }

    fn packet(&mut self, number: u32) -> &mut Packet {
        let index = number as usize;
        if index >= self.packets.len() {
            self.packets.resize(index + 1, Packet::default());
        }
        &mut self.packets[index]
    }

    /// The duplicates so far, by cause.
    pub fn causes(&self) -> Causes {
        let mut causes = Causes::default();
        for Transmission { number, then, .. } in
            self.sent.iter().filter(|sent| sent.arrival == Arrival::Duplicate)
        {
            let first_ack = self.packets[*number as usize].first_ack;
            let cause = if then.first_ack > 0 {
                &mut causes.ack_unread
            } else if then.arrived == 0 {
                &mut causes.packet_late
            } else if (1..=then.acknowledged).contains(&first_ack) {
                &mut causes.ack_late
            } else {
                &mut causes.ack_lost
            };
            *cause += 1;
        }
        causes
    }
}

impl Causes {
    /// Adds them to the figures of arrivals.
    pub fn add_to(&self, figures: &mut StreamFigures) {
        figures.duplicate_packet_late = Some(self.packet_late as f64);
        figures.duplicate_ack_late = Some(self.ack_late as f64);
        figures.duplicate_ack_lost = Some(self.ack_lost as f64);
        figures.duplicate_ack_unread = Some(self.ack_unread as f64);
    }
}

fn text(payload: &[u8]) -> Option<Text> {
    let (kind, rest) = payload.split_at_checked(4)?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    match kind {
        b"seq:" => Some(Text::Data(number)),
        b"ack:" => Some(Text::Ack(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packet 7: sent, and once more after `between`. The copy arrives; at the end the acknowledgements arrive that are marked so.
    fn repeated(between: impl Fn(&mut Copies, u32), after: impl Fn(&mut Copies, u32)) -> Causes {
        let mut copies = Copies::default();
        let first = copies.on_sent(b"seq:7 sound");
        between(&mut copies, first);
        let second = copies.on_sent(b"seq:7 sound");
        after(&mut copies, first);
        copies.on_arrival(b"seq:7 sound", second);
        copies.causes()
    }

    #[test]
    fn each_duplicate_has_the_cause_of_the_time_of_its_sending() {
        let arrive = |copies: &mut Copies, first| {
            copies.on_arrival(b"seq:7 sound", first);
            assert_eq!(copies.on_sent(b"ack:7"), 1);
        };
        let acknowledge = |copies: &mut Copies, _| copies.on_arrival(b"ack:7", 1);
        let nothing = |_: &mut Copies, _| {};
        let unread =
            repeated(|copies, first| [arrive(copies, first), acknowledge(copies, first)][1], nothing);
        assert_eq!(unread, Causes { ack_unread: 1, ..Causes::default() });
        assert_eq!(repeated(arrive, acknowledge), Causes { ack_late: 1, ..Causes::default() });
        assert_eq!(repeated(arrive, nothing), Causes { ack_lost: 1, ..Causes::default() });
        assert_eq!(repeated(nothing, arrive), Causes { packet_late: 1, ..Causes::default() });
        assert_eq!(repeated(nothing, nothing), Causes::default(), "the first one was lost");
    }

    /// An acknowledgement of the second arrival cannot have stopped the second transmission.
    #[test]
    fn a_later_acknowledgement_does_not_count() {
        let mut copies = Copies::default();
        let first = copies.on_sent(b"seq:7 sound");
        copies.on_arrival(b"seq:7 sound", first);
        copies.on_sent(b"ack:7");
        let second = copies.on_sent(b"seq:7 sound");
        copies.on_arrival(b"seq:7 sound", second);
        let ack = copies.on_sent(b"ack:7");
        copies.on_arrival(b"ack:7", ack);
        assert_eq!(copies.causes(), Causes { ack_lost: 1, ..Causes::default() });
    }

    #[test]
    fn copies_of_the_network_have_no_cause() {
        let mut copies = Copies::default();
        let only = copies.on_sent(b"seq:1 sound");
        copies.on_arrival(b"seq:1 sound", only);
        copies.on_arrival(b"seq:1 sound", only);
        copies.on_arrival(b"neither", 5);
        assert_eq!(copies.causes(), Causes::default());
    }
}
