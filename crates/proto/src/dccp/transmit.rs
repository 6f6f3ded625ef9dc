//! Packets to send, in their order: answers, steps of the connection, data, acknowledgements.

use antiphon_core::{Instant, Outcome};

use super::endpoint::{DccpEndpoint, State};
use super::features::{self, ACK_RATIO, Location};
use super::logs::{Fate, Sent};
use super::seq::Seq48;
use super::validator::LONGEST_RESPONSE;
use super::wire::{self, DccpOption, Header, Kind, OptionWriter};

impl DccpEndpoint {
    pub(super) fn next_packet(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        self.write_answer(buf).or_else(|| match self.state {
            State::Closed => None,
            State::Listen => self.write_reply(buf),
            State::Finishing(_) => self.write_last(now, buf),
            State::Request => self.write_request(now, buf),
            _ => self.write_in_flow(now, buf),
        })
    }

    /// A Reset outside the connection.
    fn write_answer(&mut self, buf: &mut [u8]) -> Option<usize> {
        let header = self.due.answer.take()?;
        wire::emit(&header, &OptionWriter::default(), &[], self.checksum, buf)
    }

    /// The validator's reply.
    fn write_reply(&mut self, buf: &mut [u8]) -> Option<usize> {
        let reply = std::mem::take(&mut self.reply);
        let place = buf.get_mut(..reply.len()).filter(|place| !place.is_empty())?;
        place.copy_from_slice(&reply);
        Some(reply.len())
    }

    /// The Reset, if one is due; then the connection is over.
    fn write_last(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let reset = self.due.reset.take();
        let ack = self.sequence.gsr;
        let len = reset.and_then(|(code, data)| {
            self.write_packet(now, Kind::Reset { ack, code, data }, &OptionWriter::default(), &[], buf)
        });
        self.finish();
        len
    }

    fn write_request(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !std::mem::take(&mut self.due.step) {
            return None;
        }
        let mut options = OptionWriter::default();
        let seq = self.sequence.gss.next();
        self.features.write(now, seq, self.rtt.estimate(), true, &mut options);
        let kind = Kind::Request { service: self.settings.service };
        // Padded so that the server's answer is not longer: it may send no more than it received.
        options.pad_to(LONGEST_RESPONSE - kind.header_len());
        self.timers.on_step(now);
        self.write_packet(now, kind, &options, &[], buf)
    }

    fn write_in_flow(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if let Some(ack) = self.due.sync_ack.take() {
            return self.write_padded(now, Kind::SyncAck { ack }, 0, buf);
        }
        if let Some(ack) = self.due.sync.take() {
            return self.write_sync(now, ack, buf);
        }
        if let Some(path) = self.path_to_prove() {
            let written = self.write_sync(now, self.sequence.gsr, buf);
            self.on_path_asked(self.sequence.gss);
            self.aside = Some(path);
            return written;
        }
        if let Some(len) = self.write_probe(now, buf) {
            return Some(len);
        }
        let ack = self.sequence.gsr;
        let leave = match self.state {
            State::Closing => Some(Kind::Close { ack }),
            State::CloseReq => Some(Kind::CloseReq { ack }),
            _ => None,
        };
        if let Some(kind) = leave.filter(|_| std::mem::take(&mut self.due.step)) {
            self.timers.on_step(now);
            return self.write_padded(now, kind, 0, buf);
        }
        // Before, the cookie is in every packet, and the driver's room is all that is known.
        let open = self.state == State::Open;
        let most = if open { self.packet_size().max(LONGEST_ACK) } else { buf.len() }.min(buf.len());
        let buf = &mut buf[..most];
        let len = self.write_data(now, buf).or_else(|| self.write_ack(now, buf));
        self.close_when_flushed(now);
        len
    }

    /// The next message, if the congestion control permits it; with an acknowledgement if one is wanted.
    fn write_data(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        if !self.is_open() {
            return None;
        }
        let newest = self.settings.newest_first;
        let len = self.queue.peek_len(now, newest)?;
        let flow = self.flow.as_mut()?;
        if !flow.sender.may_send(now, len) {
            return None;
        }
        if let Some(ratio) = flow.sender.ack_ratio(self.features.told(ACK_RATIO)) {
            self.features.tell(ACK_RATIO, ratio);
        }
        let acknowledges = self.state == State::PartOpen
            || flow.receiver.is_wanted()
            || flow.since_ack >= flow.sender.ack_of_acks_after()
            || self.features.is_due(now);
        let ack = self.sequence.gsr;
        let (kind, options) = if acknowledges {
            let kind = Kind::DataAck { ack };
            let room = kind.header_len() + len;
            if self.state == State::PartOpen && room + self.least_ack_options() > buf.len() {
                // The cookie and the message don't fit together: the message waits until the server has answered.
                return None;
            }
            let options = self.ack_options(now, buf.len().saturating_sub(room));
            if room + options.padded().len() > buf.len() {
                return self.write_ack_with(now, &options, buf);
            }
            (kind, options)
        } else {
            let mut options = OptionWriter::default();
            self.write_ndp(&mut options);
            (Kind::Data, options)
        };
        let message = if newest { self.queue.pop_newest(now) } else { self.queue.pop(now) }?;
        let written = self.write_packet(now, kind, &options, &message.bytes, buf);
        if let Some(flow) = self.flow.as_mut().filter(|_| written.is_some()) {
            flow.sender.on_sent(now, len, &self.rtt);
            if acknowledges {
                flow.receiver.on_ack_sent();
                self.due.ack = false;
            }
        }
        // A buffer too short for `max_message` is the driver's mistake; the message is lost in either case.
        self.queue.finish(message, if written.is_some() { Outcome::Released } else { Outcome::Aborted });
        written
    }

    /// An acknowledgement by itself, if one is due.
    fn write_ack(&mut self, now: Instant, buf: &mut [u8]) -> Option<usize> {
        let flow = self.flow.as_ref()?;
        // Linux takes every acknowledgement for CCID 3's feedback, and its age for a round trip: a Change is repeated with
        // the next one that is due anyway.
        let negotiates =
            if flow.receiver.has_vectors() { self.features.is_due(now) } else { self.features.is_news() };
        if !self.due.ack && !flow.receiver.is_due(now) && !negotiates {
            return None;
        }
        let options = self.ack_options(now, buf.len());
        self.write_ack_with(now, &options, buf)
    }

    fn write_ack_with(&mut self, now: Instant, options: &OptionWriter, buf: &mut [u8]) -> Option<usize> {
        self.due.ack = false;
        let ack = self.sequence.gsr;
        let written = self.write_packet(now, Kind::Ack { ack }, options, &[], buf);
        if let Some(flow) = self.flow.as_mut() {
            flow.receiver.on_ack_sent();
        }
        if self.state == State::PartOpen {
            self.timers.on_step(now);
        }
        written
    }

    /// Options that an acknowledgement can't do without, in bytes at most.
    fn least_ack_options(&self) -> usize {
        self.cookie.len().next_multiple_of(4)
    }

    /// `room`: bytes for options; only what can be done without looks at it.
    fn ack_options(&mut self, now: Instant, room: usize) -> OptionWriter {
        let mut options = OptionWriter::default();
        if self.state == State::PartOpen && room >= ROOM_TO_REPEAT {
            self.features.repeat_confirms(&mut options);
        }
        if self.state == State::PartOpen {
            // Cookies that are longer than any header are the server's fault, and bring no connection about.
            options.copy(&self.cookie);
        }
        let seq = self.sequence.gss.next();
        self.features.write(now, seq, self.rtt.estimate(), false, &mut options);
        self.write_echo(now, &mut options);
        // The server may receive any of the first packets first; for Linux that one's echo is the only round trip it
        // knows.
        self.echo = self.echo.filter(|_| self.state == State::PartOpen);
        self.write_ndp(&mut options);
        let Some(flow) = &mut self.flow else { return options };
        if let Some((dropped, code)) = flow.dropped.take() {
            write_dropped(self.sequence.gsr, dropped, code, &mut options);
        }
        flow.receiver.write(now, &flow.received, &mut options);
        if flow.receiver.has_vectors() {
            flow.received.on_reported(seq);
        }
        options
    }

    fn write_echo(&self, now: Instant, options: &mut OptionWriter) {
        if let Some((stamp, at)) = self.echo {
            let elapsed = wire::tens_of_micros(now.since(at));
            options.write(DccpOption::TimestampEcho { stamp, elapsed });
        }
    }

    fn write_ndp(&self, options: &mut OptionWriter) {
        if self.ndp > 0 && self.features.value(Location::Local, features::SEND_NDP_COUNT) == 1 {
            options.write(DccpOption::NdpCount(self.ndp));
        }
    }

    /// A Sync as long as the Reset that answers it where there is no connection any more: a listener sends no more than
    /// came.
    fn write_sync(&mut self, now: Instant, ack: Seq48, buf: &mut [u8]) -> Option<usize> {
        self.write_padded(now, Kind::Sync { ack }, wire::RESET_HEADER, buf)
    }

    /// A packet that says no more than its type, and how many without data came before it; with zeros behind that, until
    /// it has `len` bytes.
    pub(super) fn write_padded(
        &mut self,
        now: Instant,
        kind: Kind,
        len: usize,
        buf: &mut [u8],
    ) -> Option<usize> {
        let mut options = OptionWriter::default();
        self.write_ndp(&mut options);
        let header = self.header(now, kind, 0);
        let len = wire::emit_padded(&header, &options, len, self.checksum, buf)?;
        self.log_sent(now, &header, len, false);
        Some(len)
    }

    /// Writes the connection's next packet and logs it.
    fn write_packet(
        &mut self,
        now: Instant,
        kind: Kind,
        options: &OptionWriter,
        data: &[u8],
        buf: &mut [u8],
    ) -> Option<usize> {
        let coverage = if data.is_empty() { 0 } else { self.coverage() };
        let header = self.header(now, kind, coverage);
        let len = wire::emit(&header, options, data, self.checksum, buf)?;
        self.log_sent(now, &header, len, !data.is_empty());
        Some(len)
    }

    /// That of the connection's next packet.
    fn header(&mut self, now: Instant, kind: Kind, coverage: u8) -> Header {
        let ccval = self.flow.as_mut().map_or(0, |flow| flow.sender.ccval(now));
        let (source, destination) = self.ports;
        Header { source, destination, ccval, coverage, kind, seq: self.sequence.gss.next() }
    }

    /// The connection's next packet is written, of `len` bytes, with a message or without.
    fn log_sent(&mut self, now: Instant, header: &Header, len: usize, data: bool) {
        self.sequence.gss = header.seq;
        self.ndp = if data { 0 } else { self.ndp + 1 };
        if data {
            self.alive.on_data(now);
        }
        let Some(flow) = &mut self.flow else { return };
        // No datagram is longer than 16 bits tell.
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        flow.sent.push(header.seq, Sent { at: now, len, data, ccval: header.ccval, fate: Fate::Open });
        let acknowledges = header.kind.ack().is_some();
        flow.since_ack = if acknowledges { 0 } else { flow.since_ack.saturating_add(1) };
    }

    /// What was asked for, where the peer takes it.
    fn coverage(&self) -> u8 {
        let least = self.features.value(Location::Remote, features::MIN_COVERAGE);
        let wanted = self.settings.coverage;
        if least > 0 && u64::from(wanted) >= least { wanted } else { 0 }
    }
}

/// Data Dropped counts back from the acknowledgement number, 128 packets to a byte (RFC 4340 §11.7).
fn write_dropped(newest: Seq48, dropped: Seq48, code: u8, options: &mut OptionWriter) {
    let between = newest.distance(dropped);
    match between {
        0 => options.write(DccpOption::DataDropped(&[0x80 | (code << 4)])),
        1..=128 => options.write(DccpOption::DataDropped(&[(between - 1) as u8, 0x80 | (code << 4)])),
        // Long ago: the loss that this would explain is past.
        _ => true,
    };
}

/// An acknowledgement with all the options that it may have: as much passes wherever IPv4 does (RFC 791: 576 bytes), and
/// goes out even where a driver says less.
const LONGEST_ACK: usize = wire::ACK_HEADER + wire::options::ROOM;
/// With so much room, Confirms are repeated until the server is heard: they are 40 bytes or so, and a cookie, Changes and
/// what acknowledges stand beside them.
const ROOM_TO_REPEAT: usize = 200;
