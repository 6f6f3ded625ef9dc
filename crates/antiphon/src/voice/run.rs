//! The media thread of voice channels.

use std::rc::Rc;
use std::sync::mpsc;

use antiphon_net::{Capture, Stop, Target};
use antiphon_session::VoicePort;

use super::VoicePlan;
use super::sinks::Written;
use super::status::Snapshot;
use crate::Error;
use crate::run::{RunPlan, WIRE, finish_capture};
use crate::send::{SILENCE, open_wire};
use crate::show::Looks;

/// What the media thread returns.
pub(super) struct Ended {
    pub last: Snapshot,
    /// Sentences for the user.
    pub notes: Vec<String>,
    /// The result of the capture.
    pub files: Vec<String>,
    pub written: Result<Written, String>,
}

pub(super) fn run(
    plan: VoicePlan,
    capture: Option<Capture>,
    stop: &Stop,
    mut out: Looks<Snapshot>,
    tell: &mpsc::Sender<String>,
    ready: &mpsc::Sender<()>,
) -> Result<Ended, Error> {
    let VoicePlan { uri, stack, sends, receives, sink, options, clock, notes: source_notes } = plan;
    let mut wire = uri.wire(stack);
    // Groups of channels are due at the same time, with data of one length.
    wire.socket.segments = true;
    // Tens of thousands of channels fill the usual room within 3 ms, for which a busy machine keeps a thread from reading.
    wire.socket.receive_buffer = wire.socket.receive_buffer.max(RECEIVE_BUFFER);
    let wire = RunPlan {
        taps: capture.as_ref().map(|capture| (capture.taps(), uri.transport.scheme.into())),
        wait: options.wait,
        ..RunPlan::new(wire, clock)
    };
    let mut runner = open_wire(wire, options.wait_for_peer, stop, tell)?;
    let sends = sends.map(|mut sends| {
        sends.max_packet = runner.max_packet();
        sends
    });
    let now = clock.now();
    let seed = options.seed ^ crate::transport::unguessable();
    let mut port = VoicePort::new(now, seed, options.role, sends, receives, sink);
    match uri.target {
        Target::Call(_) => port.call(now, WIRE, runner.paths(), &**runner.stack()),
        Target::Listen(_) => port.listen(now, WIRE, Rc::clone(runner.stack()), SILENCE),
    }
    let _main_thread_is_gone = ready.send(());
    runner.drive(&mut port, stop, &mut |now, port: &mut VoicePort<_>, _| {
        out.look(now, || Snapshot::of(now, port));
    })?;
    let last = Snapshot::of(clock.now(), &port);
    let after = runner.finish();
    let mut notes = vec![format!("media thread: {}", after.scheduling)];
    notes.extend(source_notes);
    notes.extend(after.notes.into_iter().chain(after.facts));
    let captured = finish_capture(capture).map(|ended| ended.unwrap_or_else(|why| why));
    let written = port.into_sink().finish();
    Ok(Ended { last, notes, files: captured.into_iter().collect(), written })
}

/// Bytes of the socket's receive buffer, as far as the system allows (on Linux `net.core.rmem_max`).
const RECEIVE_BUFFER: usize = 4 << 20;
