//! Extracts messages from a byte stream.

/// Splits one direction of a connection into messages, each after a header that states its length.
#[derive(Debug, Default)]
pub struct Cutter {
    /// The incomplete message with its header.
    partial: Vec<u8>,
    /// Bytes of the stream seen.
    position: u64,
    lost: bool,
    lacking: u64,
}

impl Cutter {
    /// A new connection begins.
    pub fn open(&mut self) {
        *self = Cutter { lacking: self.lacking, ..Cutter::default() };
    }

    /// Takes the part of the stream that begins at `position`, and passes on each message that it completes.
    /// `message_len` returns the length of a message from its header of `header` bytes.
    ///
    /// After a gap the beginnings of messages are unknown: the rest of this connection is counted, not shown.
    pub fn push(
        &mut self,
        position: u64,
        mut bytes: &[u8],
        header: usize,
        message_len: impl Fn(&[u8]) -> usize,
        mut each: impl FnMut(&[u8]),
    ) {
        self.lost |= position != self.position;
        self.position = position.wrapping_add(bytes.len() as u64);
        while !bytes.is_empty() && !self.lost {
            bytes = self.fill(bytes, header);
            if self.partial.len() < header {
                return;
            }
            let len = message_len(&self.partial[..header]);
            if len > LONGEST {
                self.lost = true;
                break;
            }
            bytes = self.fill(bytes, header + len);
            if self.partial.len() < header + len {
                return;
            }
            if len > 0 {
                each(&self.partial[header..]);
            }
            self.partial.clear();
        }
        self.lacking += u64::from(self.lost);
    }

    /// Parts of the stream that could not be shown.
    pub fn lacking(&self) -> u64 {
        self.lacking
    }

    /// Fills the message in progress up to `want` bytes; returns the rest.
    fn fill<'a>(&mut self, bytes: &'a [u8], want: usize) -> &'a [u8] {
        let (now, later) = bytes.split_at(want.saturating_sub(self.partial.len()).min(bytes.len()));
        self.partial.extend_from_slice(now);
        later
    }
}

/// The longest message that can be shown: the limit of RFC 4571, 65 535 bytes.
const LONGEST: usize = 65_535;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(cutter: &mut Cutter, position: u64, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        cutter.push(position, bytes, 1, |header| header[0].into(), |message| messages.push(message.to_vec()));
        messages
    }

    #[test]
    fn after_a_gap_nothing_is_shown_until_the_next_connection() {
        let mut cutter = Cutter::default();
        assert_eq!(cut(&mut cutter, 0, &[2, 7, 8, 0, 1, 9, 3, 1]), [vec![7, 8], vec![9]]);
        assert_eq!(cut(&mut cutter, 9, &[1, 5, 1, 5]), Vec::<Vec<u8>>::new());
        assert_eq!(cut(&mut cutter, 13, &[1, 5]), Vec::<Vec<u8>>::new());
        assert_eq!(cutter.lacking(), 2);
        cutter.open();
        assert_eq!(cut(&mut cutter, 0, &[1, 5]), [vec![5]]);
        assert_eq!(cutter.lacking(), 2);
    }

    #[test]
    fn a_header_that_names_too_much_costs_no_memory() {
        let mut cutter = Cutter::default();
        for n in 0..100 {
            cutter.push(1_000 * n, &[0; 1_000], 4, |_| usize::MAX, |_| panic!("no message"));
        }
        assert!(cutter.partial.len() <= 4);
        assert_eq!(cutter.lacking(), 100);
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..20),
            cuts in prop::collection::vec(1usize..100, 1..40),
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(|f| [&[f.len() as u8][..], f].concat()).collect();
            let (mut cutter, mut got, mut at) = (Cutter::default(), Vec::new(), 0);
            for n in (0..).map(|i| cuts[i % cuts.len()]) {
                let end = (at + n).min(stream.len());
                got.extend(cut(&mut cutter, at as u64, &stream[at..end]));
                at = end;
                if at == stream.len() { break }
            }
            prop_assert_eq!(got, messages);
            prop_assert_eq!(cutter.lacking(), 0);
        }
    }
}
