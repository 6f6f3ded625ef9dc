//! A connection to a PulseAudio server: its messages, one after the other.
//!
//! What messages mean is the crate `pulseaudio`'s; its client would run callbacks behind a lock and does not show the
//! server's requests. Here one thread sends and receives as it likes.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use pulseaudio::protocol::{
    AuthParams, AuthReply, Command, CommandReply, CommandTag, DESCRIPTOR_SIZE, Descriptor, DescriptorFlags,
    MAX_MEMBLOCKQ_LENGTH, MAX_VERSION, MIN_VERSION, Prop, Props, ProtocolError, PulseError,
    SetClientNameReply, TagStructReader, encode_descriptor, read_descriptor, write_command_message,
};

use super::address::Address;
use super::text::c_text;
use crate::os::Clock;

/// Why there is no connection, or no stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// `PULSE_SERVER` names only servers on other machines.
    Remote(String),
    /// No server listens at any of these places.
    NoServer(String),
    /// A server listens, but not to this user.
    Denied(String),
    /// It does not answer.
    Silent,
    /// It has closed the connection.
    Closed,
    /// It answers what can't be understood.
    Strange(String),
    /// It refuses a request.
    Refused(PulseError),
    /// It has no such sink or source; those that it has.
    NoDevice(String, Vec<String>),
    /// It has ended the stream: its sink or source is gone.
    Killed,
}

impl Failure {
    pub fn strange(error: ProtocolError) -> Self {
        match error {
            ProtocolError::ServerError(error) => Failure::Refused(error),
            other => Failure::Strange(other.to_string()),
        }
    }
}

/// A message of the server.
pub(super) enum Message {
    /// A command, or the answer to one of ours with its number. The bytes are what the range of [`Connection::bytes`] holds.
    Control(Range<usize>),
    /// Sound of the stream with this number.
    Sound(u32, Range<usize>),
}

/// A connection whose user is known to the server.
pub(super) struct Connection {
    socket: UnixStream,
    version: u16,
    /// The number of the next request.
    next: u32,
    /// What has come; what lies before `read` was handled.
    inbox: Vec<u8>,
    read: usize,
    /// What is to be sent; what lies before `sent` was.
    outbox: Vec<u8>,
    sent: usize,
    clock: Clock,
}

impl Connection {
    /// Connects, and tells who calls. The server has `patience` for each answer.
    pub fn open(name: &str, patience: Duration) -> Result<Self, Failure> {
        let address = Address::of_environment()?;
        let mut connection = Self::over(connect(&address)?).map_err(|error| broken(&error))?;
        let auth = AuthParams {
            version: MAX_VERSION,
            supports_shm: false,
            supports_memfd: false,
            cookie: address.cookie(),
        };
        let answer: AuthReply = connection.ask(&Command::Auth(auth), patience).map_err(|error| {
            let denied = matches!(error, Failure::Refused(PulseError::AccessDenied | PulseError::AuthKey));
            if denied { Failure::Denied("it asks for a cookie".into()) } else { error }
        })?;
        if answer.version < MIN_VERSION {
            return Err(Failure::Strange(format!("its protocol has the version {}", answer.version)));
        }
        connection.version = answer.version.min(MAX_VERSION);
        let mut props = Props::new();
        props.set(Prop::ApplicationName, c_text(name));
        let _client: SetClientNameReply = connection.ask(&Command::SetClientName(props), patience)?;
        Ok(connection)
    }

    /// A connection before anything was said.
    pub fn over(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket,
            version: MAX_VERSION,
            next: 0,
            inbox: Vec::with_capacity(READ_AT_ONCE),
            read: 0,
            outbox: Vec::with_capacity(READ_AT_ONCE),
            sent: 0,
            clock: Clock::new(),
        })
    }

    /// The version of the protocol.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Another handle of the socket, to end the connection from another thread.
    pub fn handle(&self) -> io::Result<UnixStream> {
        self.socket.try_clone()
    }

    /// Sends `command` and waits for its answer. Commands of the server that come before are left aside, so ask before a
    /// stream begins.
    pub fn ask<T: CommandReply>(&mut self, command: &Command, patience: Duration) -> Result<T, Failure> {
        let number = self.request(command)?;
        let give_up = self.clock.micros() + patience.as_micros() as u64;
        loop {
            self.flush()?;
            while let Some(message) = self.next_message()? {
                let Message::Control(range) = message else { continue };
                if let Some(answer) = Answer::of(&self.inbox[range], number)? {
                    return answer.read(self.version);
                }
            }
            let left = give_up.saturating_sub(self.clock.micros());
            if left == 0 {
                return Err(Failure::Silent);
            }
            self.wait(Duration::from_micros(left).max(Duration::from_millis(1)))?;
            self.receive()?;
        }
    }

    /// Queues `command`. Returns the number that its answer will have.
    pub fn request(&mut self, command: &Command) -> Result<u32, Failure> {
        let number = self.next;
        self.next = self.next.wrapping_add(1) & LAST_NUMBER;
        self.forget_sent();
        write_command_message(&mut self.outbox, number, command, self.version).map_err(Failure::strange)?;
        Ok(number)
    }

    /// Queues `length` bytes of sound for a stream; the caller fills them, which are zeros, at once.
    pub fn sound(&mut self, stream: u32, length: usize) -> Result<&mut [u8], Failure> {
        self.forget_sent();
        if self.outbox.len() + length > MOST_UNSENT {
            return Err(Failure::Silent);
        }
        let mut header = [0; DESCRIPTOR_SIZE];
        let descriptor =
            Descriptor { length: length as u32, channel: stream, offset: 0, flags: DescriptorFlags::empty() };
        encode_descriptor(&mut header, &descriptor);
        self.outbox.extend_from_slice(&header);
        let begin = self.outbox.len();
        self.outbox.resize(begin + length, 0);
        Ok(&mut self.outbox[begin..])
    }

    /// Sends what the socket takes now.
    pub fn flush(&mut self) -> Result<(), Failure> {
        while self.sent < self.outbox.len() {
            match self.socket.write(&self.outbox[self.sent..]) {
                Ok(0) => return Err(Failure::Closed),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(())
    }

    /// Waits until something has come, what is queued can be sent, or the time is over.
    pub fn wait(&self, time: Duration) -> Result<(), Failure> {
        let send = if self.sent < self.outbox.len() { PollFlags::POLLOUT } else { PollFlags::empty() };
        let mut sockets = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN | send)];
        let time = PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX);
        match poll(&mut sockets, time) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(error) => Err(broken(&error.into())),
        }
    }

    /// Takes what has come.
    pub fn receive(&mut self) -> Result<(), Failure> {
        self.inbox.drain(..self.read);
        self.read = 0;
        loop {
            let begin = self.inbox.len();
            self.inbox.resize(begin + READ_AT_ONCE, 0);
            let result = self.socket.read(&mut self.inbox[begin..]);
            let came = result.as_ref().map_or(0, |came| *came);
            self.inbox.truncate(begin + came);
            match result {
                Ok(0) => return Err(Failure::Closed),
                // A server that sends without an end is heard between two pieces.
                Ok(READ_AT_ONCE) if self.inbox.len() < MAX_MEMBLOCKQ_LENGTH => {}
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
    }

    /// The next message that has come whole.
    pub fn next_message(&mut self) -> Result<Option<Message>, Failure> {
        let there = &self.inbox[self.read..];
        let Some(mut header) = there.get(..DESCRIPTOR_SIZE) else { return Ok(None) };
        let descriptor = read_descriptor(&mut header).map_err(Failure::strange)?;
        let length = descriptor.length as usize;
        if length > MAX_MEMBLOCKQ_LENGTH {
            return Err(Failure::Strange(format!("a message of {length} bytes")));
        }
        if there.len() < DESCRIPTOR_SIZE + length {
            return Ok(None);
        }
        let begin = self.read + DESCRIPTOR_SIZE;
        self.read = begin + length;
        let range = begin..self.read;
        Ok(Some(match descriptor.channel {
            CONTROL => Message::Control(range),
            stream => Message::Sound(stream, range),
        }))
    }

    /// The bytes of a message, until more is received.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.inbox[range]
    }

    fn forget_sent(&mut self) {
        self.outbox.drain(..self.sent);
        self.sent = 0;
    }
}

/// A message that answers a request.
pub(super) struct Answer<'a> {
    refused: bool,
    rest: &'a [u8],
}

impl<'a> Answer<'a> {
    /// `message`, if it is the answer to the request of that number.
    pub fn of(message: &'a [u8], number: u32) -> Result<Option<Self>, Failure> {
        let mut rest = message;
        let mut reader = TagStructReader::new(&mut rest, MAX_VERSION);
        let (tag, answers) = (reader.read_u32(), reader.read_u32());
        let (tag, answers) = (tag.map_err(Failure::strange)?, answers.map_err(Failure::strange)?);
        let refused = tag == CommandTag::Error as u32;
        let is_answer = refused || tag == CommandTag::Reply as u32;
        Ok((is_answer && answers == number).then_some(Answer { refused, rest }))
    }

    /// What follows in it.
    pub fn read<T: CommandReply>(self, version: u16) -> Result<T, Failure> {
        let mut rest = self.rest()?;
        let mut reader = TagStructReader::new(&mut rest, version);
        T::read(&mut reader, version).map_err(Failure::strange)
    }

    /// The bytes that follow in it.
    pub fn rest(self) -> Result<&'a [u8], Failure> {
        let mut rest = self.rest;
        if !self.refused {
            return Ok(rest);
        }
        let error = TagStructReader::new(&mut rest, MAX_VERSION).read_enum();
        Err(Failure::Refused(error.unwrap_or(PulseError::Unknown)))
    }
}

fn connect(address: &Address) -> Result<UnixStream, Failure> {
    let mut denied = None;
    for socket in &address.sockets {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                denied.get_or_insert(format!("{}: permission denied", socket.display()));
            }
            Err(_) => {}
        }
    }
    let places: Vec<_> = address.sockets.iter().map(|socket| socket.display().to_string()).collect();
    Err(denied.map_or_else(|| Failure::NoServer(places.join(", ")), Failure::Denied))
}

fn broken(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Failure::Closed,
        _ => Failure::Strange(error.to_string()),
    }
}

/// The channel of messages that belong to no stream.
const CONTROL: u32 = u32::MAX;
/// Numbers of requests stay below that of what is no answer.
const LAST_NUMBER: u32 = u32::MAX >> 1;
const READ_AT_ONCE: usize = 1 << 16;
/// A server that has not taken so much for so long stands still: five seconds of stereo.
const MOST_UNSENT: usize = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Connection::over(ours).unwrap(), theirs)
    }

    const PATIENCE: Duration = Duration::from_millis(50);

    #[test]
    fn an_answer_is_found_behind_other_messages() {
        let (mut connection, mut server) = pair();
        let mut sent = Vec::new();
        write_command_message(&mut sent, u32::MAX, &Command::Started(3), MAX_VERSION).unwrap();
        let client = SetClientNameReply { client_id: 5 };
        pulseaudio::protocol::write_reply_message(&mut sent, 0, &client, MAX_VERSION).unwrap();
        server.write_all(&sent).unwrap();
        let answer: SetClientNameReply = connection.ask(&Command::Stat, PATIENCE).unwrap();
        assert_eq!(answer.client_id, 5);
    }

    #[test]
    fn a_refusal_and_silence_are_told_apart() {
        let (mut connection, mut server) = pair();
        let ask = |connection: &mut Connection| {
            connection.ask::<SetClientNameReply>(&Command::Stat, PATIENCE).unwrap_err()
        };
        assert_eq!(ask(&mut connection), Failure::Silent);
        pulseaudio::protocol::write_error(&mut server, 1, &PulseError::NoEntity).unwrap();
        assert_eq!(ask(&mut connection), Failure::Refused(PulseError::NoEntity));
        drop(server);
        assert_eq!(ask(&mut connection), Failure::Closed);
    }

    #[test]
    fn a_message_without_measure_is_refused() {
        let (mut connection, mut server) = pair();
        server.write_all(&[0xff; DESCRIPTOR_SIZE]).unwrap();
        connection.receive().unwrap();
        assert!(matches!(connection.next_message(), Err(Failure::Strange(_))));
    }

    #[test]
    fn a_server_that_takes_nothing_is_given_up() {
        let (mut connection, _server) = pair();
        let mut queued = 0;
        let failure = loop {
            match connection.sound(0, 1 << 16).map(|_| ()).and_then(|()| connection.flush()) {
                Ok(()) => queued += 1,
                Err(failure) => break failure,
            }
        };
        assert_eq!(failure, Failure::Silent);
        // What the socket holds, and the queue.
        assert!((31..100).contains(&queued), "{queued} times 64 KiB");
    }
}
