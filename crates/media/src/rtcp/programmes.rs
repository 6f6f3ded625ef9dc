//! The application-defined RTCP packets (RFC 3550 §6.7) by which a receiver learns which programmes its sender has, and says
//! which it wants to hear. They are sent by themselves, as RFC 5506 permits; other software ignores them.
//!
//! A receiver's question (subtype 0). The name stands in it instead of a number, as a sender that was started again may number its
//! programmes differently:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---+-+---------+---------------+-------------------------------+
//! |V=2|P|    0    |  PT=APP=204   |            length             |
//! +---+-+---------+---------------+-------------------------------+
//! |                SSRC of the receiver                           |
//! +---------------------------------------------------------------+
//! |                name "ANTP"                                    |
//! +-------------------------------+-------------------------------+
//! |  first entry wanted, from 0   |  bytes of the name, 0: none   |
//! +-------------------------------+-------------------------------+
//! |  number of the wish           |  0                            |
//! +-------------------------------+-------------------------------+
//! |  name of the programme to hear (UTF-8), zeros up to a word    |
//! ```
//!
//! A sender's answer (subtype 1):
//!
//! ```text
//! |                SSRC of the programme that is sent, "ANTP"     |
//! +-------------------------------+-------------------------------+
//! |  its number, from 0           |  programmes in all            |
//! +-------------------------------+-------------------------------+
//! |  number of the first entry    |  0, or 1: no such programme   |
//! +-------------------------------+-------------------------------+
//! |  number of the wish           |  0                            |
//! +---------------+---------------+-------------------------------+
//! |  for each entry: channels     |  bytes of the name            |  (8 bits each)
//! |                               |  1: it is over; 0: it goes on |  (16 bits)
//! |                rate in Hz                                     |
//! |                name (UTF-8), zeros up to a word               |
//! ```

use super::wire::{read_app, u32_at, write_app};

/// A receiver asks for the list of programmes, and says which it wants to hear.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgrammeQuestion {
    /// SSRC of the receiver.
    pub ssrc: u32,
    /// The first entry of the list that it wants.
    pub from: u16,
    /// Number of its wish: comes back in the answer, as answers may overtake each other.
    pub id: u16,
    /// The programme that it wants to hear; `None`: what it is sent.
    pub wish: Option<String>,
}

/// A sender tells what it sends to the receiver, and which programmes there are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProgrammeAnswer {
    /// SSRC of the programme that is sent to the receiver from now on.
    pub ssrc: u32,
    /// Its number, from 0.
    pub current: u16,
    /// How many there are.
    pub count: u16,
    /// Number of the first entry below.
    pub first: u16,
    /// Number of the wish that is answered.
    pub id: u16,
    /// There is no programme of the name that was wished for.
    pub refused: bool,
    /// Entries of the list, as many as fit.
    pub entries: Vec<Programme>,
}

/// One of a sender's programmes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Programme {
    /// Its name: one line, at most [`MAX_PROGRAMME_NAME`] bytes.
    pub name: String,
    /// Channels.
    pub channels: u8,
    /// Sampling rate, in Hz.
    pub rate: u32,
    /// Its source has ended.
    pub ended: bool,
}

impl ProgrammeQuestion {
    /// The longest packet.
    pub const MOST: usize = HEAD + 8 + padded(MAX_PROGRAMME_NAME);

    /// Writes it; a name that is too long is cut.
    pub fn write(&self, buf: &mut [u8; Self::MOST]) -> usize {
        // No name is no wish.
        let name = shortened(self.wish.as_deref().unwrap_or_default());
        let head = [pair(self.from, name.len() as u16), pair(self.id, 0)];
        let words = head.into_iter().chain(words(name));
        write_app(buf, 0, self.ssrc, NAME, words).expect("there is room for the longest name")
    }

    /// Reads one; `None` for any other packet.
    pub fn parse(bytes: &[u8]) -> Option<ProgrammeQuestion> {
        let (0, ssrc, data) = read_app(bytes, NAME)? else { return None };
        let (head, rest) = data.split_first_chunk::<8>()?;
        let [from, len] = halves(u32_at(head, 0));
        let [id, _] = halves(u32_at(head, 4));
        let (name, rest) = read_name(rest, len.into())?;
        let wish = (!name.is_empty()).then_some(name);
        rest.is_empty().then_some(ProgrammeQuestion { ssrc, from, id, wish })
    }
}

impl ProgrammeAnswer {
    /// The longest packet: it fits into any datagram that a path carries.
    pub const MOST: usize = 1_024;

    /// Writes it, with as many of the entries as fit.
    pub fn write(&self, buf: &mut [u8; Self::MOST]) -> usize {
        let head = [pair(self.current, self.count), pair(self.first, self.refused.into()), pair(self.id, 0)];
        let mut room = Self::MOST - HEAD - 12;
        let fits = |entry: &&Programme| {
            let left = room.checked_sub(8 + padded(shortened(&entry.name).len()));
            room = left.unwrap_or(0);
            left.is_some()
        };
        let entries = self.entries.iter().take_while(fits).flat_map(|entry| {
            let name = shortened(&entry.name);
            let first = u32::from(entry.channels) << 24 | (name.len() as u32) << 16 | u32::from(entry.ended);
            [first, entry.rate].into_iter().chain(words(name))
        });
        write_app(buf, 1, self.ssrc, NAME, head.into_iter().chain(entries))
            .expect("only what fits is written")
    }

    /// Reads one; `None` for any other packet, and for one with an entry that is cut off.
    pub fn parse(bytes: &[u8]) -> Option<ProgrammeAnswer> {
        let (1, ssrc, data) = read_app(bytes, NAME)? else { return None };
        let (head, mut rest) = data.split_first_chunk::<12>()?;
        let [current, count] = halves(u32_at(head, 0));
        let [first, refused] = halves(u32_at(head, 4));
        let [id, _] = halves(u32_at(head, 8));
        let mut entries = Vec::new();
        while let Some((entry, after)) = rest.split_first_chunk::<8>() {
            let (name, after) = read_name(after, entry[1].into())?;
            let ended = entry[3] & 1 == 1;
            entries.push(Programme { name, channels: entry[0], rate: u32_at(entry, 4), ended });
            rest = after;
        }
        let answer = ProgrammeAnswer { ssrc, current, count, first, id, refused: refused != 0, entries };
        rest.is_empty().then_some(answer)
    }
}

/// A name of this many bytes, and the zeros behind it: another party's control characters are left out, as they might
/// command a terminal.
fn read_name(bytes: &[u8], len: usize) -> Option<(String, &[u8])> {
    let (name, rest) = bytes.split_at_checked(padded(len)).filter(|_| len <= MAX_PROGRAMME_NAME)?;
    let name = std::str::from_utf8(&name[..len]).ok()?;
    Some((name.chars().filter(|c| !c.is_control()).collect(), rest))
}

fn words(name: &str) -> impl Iterator<Item = u32> {
    name.as_bytes().chunks(4).map(|part| {
        let mut word = [0; 4];
        word[..part.len()].copy_from_slice(part);
        u32::from_be_bytes(word)
    })
}

/// The longest beginning of a name that is sent.
fn shortened(name: &str) -> &str {
    let mut end = name.len().min(MAX_PROGRAMME_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// Bytes of a name with the zeros behind it.
const fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn pair(high: u16, low: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

fn halves(word: u32) -> [u16; 2] {
    [(word >> 16) as u16, word as u16]
}

/// Bytes of the longest name of a programme: a line of a list.
pub const MAX_PROGRAMME_NAME: usize = 64;
/// The most programmes of a sender: a receiver keeps the list of them.
pub const MOST_PROGRAMMES: usize = 64;
/// Bytes before what is told.
const HEAD: usize = 12;
const NAME: [u8; 4] = *b"ANTP";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn programmes() -> impl Strategy<Value = Programme> {
        ("[a-z é☂]{0,20}", any::<u8>(), any::<u32>(), any::<bool>())
            .prop_map(|(name, channels, rate, ended)| Programme { name, channels, rate, ended })
    }

    proptest! {
        #[test]
        fn questions_are_read_as_written(ssrc: u32, from: u16, id: u16, wish in prop::option::of("[a-z é☂]{1,20}")) {
            let question = ProgrammeQuestion { ssrc, from, id, wish };
            let mut buf = [0; ProgrammeQuestion::MOST];
            let len = question.write(&mut buf);
            prop_assert_eq!(ProgrammeQuestion::parse(&buf[..len]), Some(question));
            prop_assert_eq!(ProgrammeAnswer::parse(&buf[..len]), None);
            prop_assert_eq!(crate::packet::classify(&buf[..len]), Some(crate::packet::PacketKind::Rtcp));
            prop_assert!((0..len).all(|len| ProgrammeQuestion::parse(&buf[..len]).is_none()));
        }

        #[test]
        fn answers_are_read_as_written(
            (ssrc, current, count, first, id, refused) in any::<(u32, u16, u16, u16, u16, bool)>(),
            entries in prop::collection::vec(programmes(), 0..40),
        ) {
            let answer = ProgrammeAnswer { ssrc, current, count, first, id, refused, entries };
            let mut buf = [0; ProgrammeAnswer::MOST];
            let len = answer.write(&mut buf);
            let read = ProgrammeAnswer::parse(&buf[..len]).expect("it is one");
            let fit = read.entries.len();
            prop_assert!(fit == answer.entries.len() || len > ProgrammeAnswer::MOST - 100);
            let entries = answer.entries[..fit].to_vec();
            prop_assert_eq!(read, ProgrammeAnswer { entries, ..answer });
        }

        #[test]
        fn anything_can_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200), subtype in 0u8..2) {
            let mut bytes = bytes;
            bytes.truncate(bytes.len() / 4 * 4);
            if bytes.len() >= 12 {
                let length = (bytes.len() / 4 - 1) as u8;
                bytes[..4].copy_from_slice(&[0x80 | subtype, 204, 0, length]);
                bytes[8..12].copy_from_slice(&NAME);
            }
            let bounded = |name: &str| name.len() <= MAX_PROGRAMME_NAME && !name.contains(char::is_control);
            let question = ProgrammeQuestion::parse(&bytes);
            prop_assert!(question.and_then(|one| one.wish).is_none_or(|wish| bounded(&wish)));
            let answer = ProgrammeAnswer::parse(&bytes);
            prop_assert!(answer.is_none_or(|one| one.entries.iter().all(|entry| bounded(&entry.name))));
        }
    }

    #[test]
    fn control_characters_of_a_name_are_left_out() {
        let wish = Some("\x1b[2JNews\r\n".to_string());
        let mut buf = [0; ProgrammeQuestion::MOST];
        let len = ProgrammeQuestion { ssrc: 1, from: 0, id: 0, wish }.write(&mut buf);
        assert_eq!(ProgrammeQuestion::parse(&buf[..len]).unwrap().wish.as_deref(), Some("[2JNews"));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let wish = Some("☂".repeat(40));
        let mut buf = [0; ProgrammeQuestion::MOST];
        let len = ProgrammeQuestion { ssrc: 1, from: 0, id: 0, wish }.write(&mut buf);
        assert_eq!(ProgrammeQuestion::parse(&buf[..len]).unwrap().wish, Some("☂".repeat(21)));
    }
}
