//! Tells a service manager how a stream is doing: systemd's protocol of notifications (sd_notify(3)).
//!
//! The manager names a datagram socket in the environment; each datagram holds assignments, one a line. A watchdog is fed
//! when a media thread has told its state, and not by a timer of its own: a media thread that stands still is noticed.

#[cfg(not(unix))]
mod absent;
#[cfg(unix)]
mod socket;

use std::ffi::OsString;
use std::time::Duration;

use antiphon_core::Instant;
use antiphon_net::OsClock;

use crate::Error;
#[cfg(not(unix))]
use absent::Manager;
#[cfg(unix)]
use socket::Manager;

/// Tells the service manager that started this program.
pub struct ServiceNotifier {
    manager: Manager,
    /// How often the watchdog is fed; `None` without one.
    feed_every: Option<Duration>,
    clock: OsClock,
    feed_at: Instant,
    status_at: Instant,
    ready: bool,
    stopping: bool,
}

impl ServiceNotifier {
    /// From what the manager has put into the environment; `None` if nobody waits to be told. `variable` reads one.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<Option<Self>, Error> {
        let Some(name) = variable("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Ok(None) };
        let failed = |why: std::io::Error| {
            Error::failed(format!(
                "the service manager cannot be told at '{}' (NOTIFY_SOCKET): {why}; start the program without this variable, \
                 or by systemd with Type=notify",
                name.to_string_lossy()
            ))
        };
        let manager = Manager::find(&name).map_err(failed)?;
        let clock = OsClock::new();
        Ok(Some(ServiceNotifier {
            manager,
            feed_every: watchdog(&variable).map(|time| time / FEEDS),
            clock,
            feed_at: clock.now(),
            status_at: clock.now(),
            ready: false,
            stopping: false,
        }))
    }

    /// A media thread has told its state, which `line` says in words. The first time the service is ready; then the watchdog
    /// is fed as often as it must be, and the words are told every ten seconds.
    pub fn alive(&mut self, line: impl FnOnce() -> String) {
        let now = self.clock.now();
        let mut text = String::new();
        if !std::mem::replace(&mut self.ready, true) {
            text.push_str("READY=1\n");
            self.status_at = now;
        }
        if let Some(every) = self.feed_every
            && now >= self.feed_at
        {
            self.feed_at = now + every;
            text.push_str("WATCHDOG=1\n");
        }
        if now >= self.status_at && !self.stopping {
            self.status_at = now + STATUS_EVERY;
            text.push_str(&status(&line()));
        }
        self.send(&text);
    }

    /// Tells what happens, in words.
    pub fn status(&mut self, line: &str) {
        self.status_at = self.clock.now() + STATUS_EVERY;
        self.send(&status(line));
    }

    /// The program begins to end.
    pub fn stopping(&mut self) {
        if !std::mem::replace(&mut self.stopping, true) {
            self.send("STOPPING=1\nSTATUS=ending\n");
        }
    }

    fn send(&self, text: &str) {
        if !text.is_empty() {
            self.manager.send(text);
        }
    }
}

/// How long the manager waits before it takes the program for dead, if it does at all and means this process.
fn watchdog(variable: &impl Fn(&str) -> Option<OsString>) -> Option<Duration> {
    // What is no number asks for nothing.
    let number = |name: &str| variable(name)?.to_str()?.parse::<u64>().ok();
    if variable("WATCHDOG_PID").is_some() && number("WATCHDOG_PID") != Some(std::process::id().into()) {
        return None;
    }
    number("WATCHDOG_USEC").filter(|micros| *micros > 0).map(Duration::from_micros)
}

/// An assignment of a status, which is one line.
fn status(line: &str) -> String {
    let line = line.replace(char::is_control, " ");
    format!("STATUS={}\n", line.chars().take(MOST_STATUS).collect::<String>())
}

/// How often the watchdog is fed in its time: sd_watchdog_enabled(3) advises to feed it in half of it; states come ten times a
/// second.
const FEEDS: u32 = 3;
const STATUS_EVERY: Duration = Duration::from_secs(10);
const MOST_STATUS: usize = 200;

#[cfg(all(test, unix))]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// A manager, and the environment of a program that it starts.
    fn manager(watchdog: &str) -> (UnixDatagram, tempfile::TempDir, BTreeMap<String, OsString>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_nonblocking(true).unwrap();
        let pairs = [("NOTIFY_SOCKET", path.into_os_string()), ("WATCHDOG_USEC", watchdog.into())];
        (socket, directory, pairs.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
    }

    fn notifier(environment: &BTreeMap<String, OsString>) -> ServiceNotifier {
        ServiceNotifier::from_environment(|name| environment.get(name).cloned()).unwrap().expect("a manager")
    }

    /// The datagrams so far.
    fn told(socket: &UnixDatagram) -> Vec<String> {
        let mut buf = [0; 1000];
        std::iter::from_fn(|| {
            socket.recv(&mut buf).ok().map(|len| String::from_utf8_lossy(&buf[..len]).into())
        })
        .collect()
    }

    #[test]
    fn it_is_ready_once_and_feeds_the_watchdog_only_when_alive() {
        // Fed each time: a third of a microsecond has always passed.
        let (socket, _directory, environment) = manager("1");
        let mut service = notifier(&environment);
        assert_eq!(told(&socket), Vec::<String>::new(), "nothing is alive yet");
        service.alive(|| "sending\nnow".into());
        service.alive(|| "again".into());
        assert_eq!(told(&socket), ["READY=1\nWATCHDOG=1\nSTATUS=sending now\n", "WATCHDOG=1\n"]);
        service.status("no packets");
        service.stopping();
        service.stopping();
        service.alive(|| "unsaid".into());
        assert_eq!(told(&socket), ["STATUS=no packets\n", "STOPPING=1\nSTATUS=ending\n", "WATCHDOG=1\n"]);
    }

    #[test]
    fn a_watchdog_is_fed_no_more_often_than_it_needs() {
        let (socket, _directory, environment) = manager("3600000000");
        let mut service = notifier(&environment);
        (0..5).for_each(|_| service.alive(String::new));
        assert_eq!(told(&socket), ["READY=1\nWATCHDOG=1\nSTATUS=\n"]);
    }

    #[test]
    fn a_watchdog_of_another_process_or_none_is_not_fed() {
        for (name, value) in [("WATCHDOG_PID", "1"), ("WATCHDOG_USEC", "0"), ("WATCHDOG_USEC", "x")] {
            let (socket, _directory, mut environment) = manager("1");
            environment.insert(name.into(), value.into());
            notifier(&environment).alive(|| "x".into());
            assert_eq!(told(&socket), ["READY=1\nSTATUS=x\n"], "{name}={value}");
        }
        let (socket, _directory, mut environment) = manager("1");
        environment.insert("WATCHDOG_PID".into(), std::process::id().to_string().into());
        notifier(&environment).alive(|| "x".into());
        assert_eq!(told(&socket), ["READY=1\nWATCHDOG=1\nSTATUS=x\n"]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn abstract_names_are_told_and_others_refused() {
        let name = format!("antiphon-service-test-{}", std::process::id());
        let address = socket::without_file(name.as_bytes()).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        let environment = BTreeMap::from([("NOTIFY_SOCKET".to_string(), format!("@{name}").into())]);
        notifier(&environment).alive(|| "x".into());
        assert_eq!(told(&socket), ["READY=1\nSTATUS=x\n"]);
        let with = |value: &str| {
            ServiceNotifier::from_environment(|name| (name == "NOTIFY_SOCKET").then(|| value.into()))
        };
        assert!(with("").unwrap().is_none());
        let long = format!("/{}", "x".repeat(200));
        for wrong in ["vsock:2:1234", "relative", &long] {
            let error = with(wrong).err().expect("refused");
            assert!(error.message.contains("Type=notify"), "{error}");
        }
    }

    #[test]
    fn a_manager_that_is_gone_or_does_not_read_holds_nothing_up() {
        let (socket, directory, environment) = manager("1");
        let mut service = notifier(&environment);
        // Its queue is full after a few.
        (0..10_000).for_each(|_| service.alive(String::new));
        drop((socket, directory));
        service.alive(String::new);
        service.stopping();
    }
}
