//! Announcing a stream to a group in its network (SAP, RFC 2974), so that receivers find it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use antiphon_media::sap::{Announcement, SAP_PORT, description_hash};
use antiphon_net::{GroupSocket, SocketOptions};

use crate::Error;

/// Announces one description until it is dropped; then takes it back.
pub(crate) struct Announcer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Announcer {
    /// Announces `description` of a stream that is sent from `origin` to `group`, on behalf of its sender's socket.
    pub fn start(
        description: String,
        origin: IpAddr,
        group: Ipv4Addr,
        options: &SocketOptions,
    ) -> Result<Self, Error> {
        let socket = GroupSocket::sending(group.into(), options)?;
        let to = SocketAddr::from((group, SAP_PORT));
        // PulseAudio's parser takes a description only with lines that end in a line feed alone; others get what RFC 8866 asks for.
        let description =
            if group == PULSEAUDIO_GROUP { description.replace("\r\n", "\n") } else { description };
        let hash = description_hash(description.as_bytes());
        let packet = move |deletion| {
            Announcement { deletion, hash, origin, description: description.as_bytes() }.to_bytes()
        };
        let (announced, over) = (packet(false), packet(true));
        socket
            .send_to(&announced, to)
            .map_err(|error| Error::failed(format!("cannot announce to {group}: {error}")))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run = move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(ANNOUNCE_EVERY);
                let packet = if stopped.load(Ordering::Acquire) { &over } else { &announced };
                // A network that is down for a while may be up for the next one.
                let _next_time = socket.send_to(packet, to);
            }
        };
        let thread = std::thread::Builder::new().name("announce".into()).spawn(run);
        let thread = thread.map_err(|error| Error::failed(format!("cannot start a thread: {error}")))?;
        Ok(Announcer { stop, thread: Some(thread) })
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there was printed, and the stream is at its end.
            let _panicked = thread.join();
        }
    }
}

/// Groups of announcements: of streams to 239.0.0.0/8, as AES67 devices have them (RFC 2974 §3, administrative scope); of
/// those to all the world (224.2.128.0/17); and of PulseAudio and PipeWire, by their default.
pub const ANNOUNCEMENT_GROUPS: [Ipv4Addr; 3] =
    [Ipv4Addr::new(239, 255, 255, 255), Ipv4Addr::new(224, 2, 127, 254), PULSEAUDIO_GROUP];
const PULSEAUDIO_GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 56);
/// As PulseAudio and PipeWire do: a receiver that comes later waits no longer. RFC 2974 §3.1 has 300 s at least, for the
/// Internet as a whole; at one announcement of 500 bytes this is 0.8 kbit/s.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(5);
