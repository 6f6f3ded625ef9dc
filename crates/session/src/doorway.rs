//! Where strangers come in: by the looks of their first datagram, or past a transport's doorkeeper.

use std::collections::VecDeque;

use antiphon_core::{Doorkeeper, Ecn, Instant, Meeting, PathId, Transmit};

/// Decides who may begin an association, and holds the doorkeeper's answers until they are sent.
pub(crate) struct Doorway {
    admits: fn(&[u8]) -> bool,
    keeper: Option<Box<dyn Doorkeeper>>,
    answers: VecDeque<(PathId, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// What the doorkeeper says instead of the datagram that was let in last; empty where that speaks for itself.
    vouched: Vec<u8>,
    answered: u64,
}

impl Doorway {
    /// A doorway without doorkeeper: looks decide.
    pub fn new(admits: fn(&[u8]) -> bool) -> Self {
        Doorway {
            admits,
            keeper: None,
            answers: VecDeque::new(),
            spare: Vec::new(),
            vouched: Vec::new(),
            answered: 0,
        }
    }

    /// Puts a doorkeeper there, or `None`.
    pub fn set_keeper(&mut self, keeper: Option<Box<dyn Doorkeeper>>) {
        if keeper.is_some() && self.spare.is_empty() {
            self.answers.reserve(ANSWERS);
            self.spare.extend((0..ANSWERS).map(|_| vec![0; ANSWER_ROOM]));
        }
        self.keeper = keeper;
    }

    /// Whether `datagram` of a stranger begins an association.
    pub fn lets_in(&mut self, now: Instant, path: PathId, datagram: &[u8]) -> bool {
        self.vouched.clear();
        let Some(keeper) = &mut self.keeper else { return (self.admits)(datagram) };
        // With no room for an answer the question is lost, as on the wire; the caller asks again.
        let Some(mut answer) = self.spare.pop() else { return false };
        let meeting = keeper.meet(now, path, datagram, &mut answer);
        if let Meeting::Answered { len } = meeting {
            self.answered += 1;
            answer.truncate(len);
            self.answers.push_back((path, answer));
            return false;
        }
        if let Meeting::Vouched { len } = meeting {
            self.vouched.extend_from_slice(&answer[..len]);
        }
        self.spare.push(answer);
        matches!(meeting, Meeting::Admitted | Meeting::Vouched { .. })
    }

    /// There is no room for whom [`Self::lets_in`] has just let in.
    pub fn turn_away(&mut self) {
        if let Some(keeper) = &mut self.keeper {
            keeper.turn_away();
        }
    }

    /// What a station is to be given of the `datagram` that has just been let in.
    pub fn entering<'a>(&'a self, datagram: &'a [u8]) -> &'a [u8] {
        if self.vouched.is_empty() { datagram } else { &self.vouched }
    }

    /// Which of the parties behind one address `datagram` is of (`Doorkeeper::party_of`).
    pub fn party_of(&self, datagram: &[u8]) -> u16 {
        self.keeper.as_ref().map_or(0, |keeper| keeper.party_of(datagram))
    }

    /// The association that `datagram` names, as the doorkeeper reads it (`Doorkeeper::association_of`).
    pub fn association_of(&self, datagram: &[u8]) -> Option<u64> {
        self.keeper.as_ref()?.association_of(datagram)
    }

    /// Writes the next answer into `buf`.
    pub fn poll_transmit(&mut self, buf: &mut [u8]) -> Option<Transmit> {
        let (path, mut answer) = self.answers.pop_front()?;
        let len = answer.len();
        buf[..len].copy_from_slice(&answer);
        answer.resize(ANSWER_ROOM, 0);
        self.spare.push(answer);
        Some(Transmit { path, len, ecn: Ecn::NotCapable })
    }

    /// Answers given to strangers so far.
    pub fn answered(&self) -> u64 {
        self.answered
    }
}

/// Answers that may wait: those to the datagrams of two batches of the driver's.
const ANSWERS: usize = 32;
/// A path's datagram on Ethernet and some.
const ANSWER_ROOM: usize = 2048;
