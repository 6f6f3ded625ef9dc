//! The sender's side: offers what it has, and sends what is asked for.

use std::io;
use std::time::Duration;

use antiphon_media::Source;
use antiphon_media::codec::encode;
use antiphon_media::completion::{Message, Offer, SOUND_HEADER, Stretch};
use antiphon_net::{OsClock, SocketOptions, Stop};
use antiphon_sound::each_block;

use super::{Broken, MOST_MESSAGE, OUTAGE, message_options, receive, send};
use crate::Error;
use crate::messages::MessageLink;

/// Calls the recording at `uri` and sends what it asks for of a source, which `open` opens from its beginning. Returns the
/// sample frames that it says are still missing, and those that were sent.
///
/// # Errors
///
/// A sentence: nobody listens there, or asks for what was never sent, or for more than there is.
pub(crate) fn offer(
    uri: &str,
    socket: &SocketOptions,
    has: Offer,
    open: &dyn Fn() -> Result<Box<dyn Source>, Error>,
    stop: &Stop,
    notice: &mut dyn FnMut(String),
) -> Result<(u64, u64), String> {
    let clock = OsClock::new();
    let (mut sent, mut told) = (0, false);
    let mut progress = clock.now();
    loop {
        let before = sent;
        let result = call(uri, socket, stop).and_then(|link| {
            let result = serve(&link, has, open, &mut sent, stop, &mut |asked| {
                if !std::mem::replace(&mut told, true) && asked > 0 {
                    let seconds = asked as f64 / f64::from(has.format.rate());
                    notice(format!("completing the recording: it misses {seconds:.3} s"));
                }
            });
            let _it_has_ended_already = link.close();
            result
        });
        if sent > before {
            progress = clock.now();
        }
        match result {
            Ok(missing) => return Ok((missing, sent)),
            Err(Broken::Connection) if clock.now().since(progress) < patience(told) && !stop.is_asked() => {
                std::thread::park_timeout(CALL_AGAIN);
            }
            Err(Broken::Connection) => {
                return Err(format!("nobody answers at {uri}: start 'antiphon receive' with --complete"));
            }
            Err(Broken::Stopped) => return Err("the recording was not completed: stopped".into()),
            Err(Broken::Rules(why) | Broken::File(why)) => {
                return Err(format!("the recording was not completed: {why}"));
            }
        }
    }
}

/// How long a recording is called that does not answer: until it is finished, and through an outage once it has answered.
fn patience(has_answered: bool) -> Duration {
    if has_answered { OUTAGE } else { FINISHING }
}

fn call(uri: &str, socket: &SocketOptions, stop: &Stop) -> Result<MessageLink, Broken> {
    let link = MessageLink::open(uri, &message_options(socket)).map_err(|_| Broken::Connection)?;
    match link.wait_connected(Some(CONNECT)) {
        Ok(()) => Ok(link),
        Err(_) if stop.is_asked() => Err(Broken::Stopped),
        Err(_) => Err(Broken::Connection),
    }
}

/// One call: returns the sample frames that are still missing.
fn serve(
    link: &MessageLink,
    has: Offer,
    open: &dyn Fn() -> Result<Box<dyn Source>, Error>,
    sent: &mut u64,
    stop: &Stop,
    on_asked: &mut dyn FnMut(u64),
) -> Result<u64, Broken> {
    let mut buffer = vec![0; MOST_MESSAGE];
    send(link, &Message::Offer(has), stop)?;
    let mut asked = Asked::new(has.frames, has.frames.saturating_sub(*sent));
    loop {
        match receive(link, &mut buffer, ANSWER, stop)? {
            Some(Message::Ask { more, stretches }) => {
                asked.add(&stretches)?;
                if !more {
                    break;
                }
            }
            Some(Message::Done { missing }) => return Ok(missing),
            Some(_) => return Err(Broken::Rules("the recording does not keep to the rules".into())),
            None => return Err(Broken::Connection),
        }
    }
    on_asked(asked.frames);
    let mut source = open().map_err(|error| Broken::File(error.to_string()))?;
    let mut sounds = Sounds { link, has, stretches: &asked.stretches, at: 0, sent, stop, broken: None };
    let read = each_block(&mut *source, BLOCK, &mut |block| sounds.on_block(block));
    match (sounds.broken, read) {
        (Some(broken), _) => return Err(broken),
        (None, Err(error)) if error.kind() != io::ErrorKind::Interrupted => {
            return Err(Broken::File(format!("the source cannot be read again: {error}")));
        }
        _ => {}
    }
    send(link, &Message::End, stop)?;
    match receive(link, &mut buffer, ANSWER, stop)? {
        Some(Message::Done { missing }) => Ok(missing),
        Some(_) => Err(Broken::Rules("the recording asks for more than it missed".into())),
        None => Err(Broken::Connection),
    }
}

/// What was asked for in one call.
struct Asked {
    stretches: Vec<Stretch>,
    /// Sample frames in them.
    frames: u64,
    /// Sample frames that were sent.
    all: u64,
    /// Sample frames that may still be asked for.
    left: u64,
}

impl Asked {
    fn new(all: u64, left: u64) -> Self {
        Asked { stretches: Vec::new(), frames: 0, all, left }
    }

    fn add(&mut self, stretches: &[Stretch]) -> Result<(), Broken> {
        for stretch in stretches {
            let end = self.stretches.last().map_or(0, |last| last.end());
            if stretch.at < end || stretch.end() > self.all {
                return Err(Broken::Rules("the recording asks for what was never sent".into()));
            }
            self.frames += stretch.frames;
            if self.frames > self.left {
                return Err(Broken::Rules("the recording has been sent once, and asks for more".into()));
            }
            self.stretches.push(*stretch);
        }
        Ok(())
    }
}

/// Sends the stretches of a source that is read from its beginning to its end.
struct Sounds<'a> {
    link: &'a MessageLink,
    has: Offer,
    /// Those that are not sent whole.
    stretches: &'a [Stretch],
    /// The next sample frame of the source.
    at: u64,
    sent: &'a mut u64,
    stop: &'a Stop,
    broken: Option<Broken>,
}

impl Sounds<'_> {
    /// An error ends the reading: `Interrupted` if nothing more is wanted, or if something else is in `broken`.
    fn on_block(&mut self, block: &[f32]) -> io::Result<()> {
        let channels = self.has.format.channels();
        let begin = self.at;
        self.at += (block.len() / channels) as u64;
        while let Some(stretch) = self.stretches.first() {
            let (from, to) = (stretch.at.max(begin), stretch.end().min(self.at));
            if from >= to {
                return if self.stop.is_asked() { self.end(Broken::Stopped) } else { Ok(()) };
            }
            let samples = (from - begin) as usize * channels..(to - begin) as usize * channels;
            if let Err(broken) = self.send(from, &block[samples]) {
                return self.end(broken);
            }
            if stretch.end() > self.at {
                return Ok(());
            }
            self.stretches = &self.stretches[1..];
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn end(&mut self, broken: Broken) -> io::Result<()> {
        self.broken = Some(broken);
        Err(io::ErrorKind::Interrupted.into())
    }

    fn send(&mut self, mut at: u64, samples: &[f32]) -> Result<(), Broken> {
        let (channels, width) = (self.has.format.channels(), self.has.sample.bytes());
        let room = self.link.max_message().min(MOST_MESSAGE) - SOUND_HEADER;
        let most = (room / (width * channels)).max(1);
        for part in samples.chunks(most * channels) {
            let mut bytes = vec![0; part.len() * width];
            let len = encode(self.has.sample, part, &mut bytes);
            send(self.link, &Message::Sound { at, samples: &bytes[..len] }, self.stop)?;
            let frames = (part.len() / channels) as u64;
            at += frames;
            *self.sent += frames;
        }
        Ok(())
    }
}

/// Sample frames of the source that are read at once: what a message holds of sound in two channels.
const BLOCK: usize = 4096;
/// How long a recording may take to say what it misses, or that it has all: a long file may have to be moved.
const ANSWER: Duration = Duration::from_secs(60);
/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How often a recording is called.
const CALL_AGAIN: Duration = Duration::from_millis(300);
/// How long after the stream a recording may take until it listens: it plays what is buffered and writes its file.
const FINISHING: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_twice_nor_what_was_never_sent() {
        let stretch = |at, frames| Stretch { at, frames };
        let mut asked = Asked::new(1_000, 1_000);
        assert!(asked.add(&[stretch(0, 10), stretch(10, 5), stretch(900, 100)]).is_ok());
        assert_eq!(asked.frames, 115);
        for refused in [stretch(950, 1), stretch(1_000, 1)] {
            assert!(asked.add(&[refused]).is_err(), "{refused:?}");
        }
        assert!(Asked::new(1_000, 1_000).add(&[stretch(0, 1_000)]).is_ok());
        assert!(Asked::new(1_000, 999).add(&[stretch(0, 1_000)]).is_err(), "a second time");
        assert!(Asked::new(1_000, 1_000).add(&[stretch(0, 500), stretch(400, 1)]).is_err());
    }
}
