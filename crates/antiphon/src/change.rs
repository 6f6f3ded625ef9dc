//! Changes the transport of a running stream, and sends it over several.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::mpsc;
use std::time::Duration;

use antiphon_core::{Instant, WireId, units};
use antiphon_media::rtcp::Token;
use antiphon_net::{Lines, Target};
use antiphon_session::{Change, Joining, Session, StreamFraming};

use crate::run::{OpenedWire, Stacks, WIRE, WirePlan, spawn};
use crate::transport::{StackPlan, StreamUri, random_token};
use crate::{Error, SendOptions};

/// Another transport or address that takes the place of the present one, and when.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// URI of the transport.
    pub uri: String,
    /// After so much sound was sent.
    pub at: Duration,
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write URI@TIME, such as sctp://studio.example@10s";
        let (uri, at) = text.rsplit_once('@').ok_or(format!("'{text}' has no time: {example}"))?;
        let at = units::parse_duration(at).map_err(|error| format!("{error}; {example}"))?;
        Ok(Switch { uri: uri.into(), at })
    }
}

/// A wire to be opened.
struct Planned {
    at: Duration,
    joining: Joining,
    uri: String,
    plan: WirePlan,
}

/// The changes of a stream, on the thread that talks to the user.
pub(crate) struct Changes {
    options: SendOptions,
    stack: StackPlan,
    /// In the order of their times.
    planned: Vec<Planned>,
    /// How many of them were begun.
    begun: usize,
    /// Another transport is about to take the place of the present one.
    moving: bool,
    opened: mpsc::Sender<Arrival>,
    happened: mpsc::Receiver<(WireId, Change)>,
    /// By their wires.
    uris: BTreeMap<WireId, String>,
    failures: Vec<String>,
}

/// An opened wire, or why it could not be opened.
type Arrival = (WireId, Joining, Result<OpenedWire, Error>);

/// The changes on the media thread.
pub(crate) struct Arriving {
    opened: mpsc::Receiver<Arrival>,
    happened: mpsc::Sender<(WireId, Change)>,
    /// Wires that could not be opened or added, and why.
    failed: mpsc::Sender<(WireId, String)>,
    token: Token,
}

/// What cannot be opened.
pub(crate) type Failures = mpsc::Receiver<(WireId, String)>;

impl Changes {
    /// Reads `--also` and `--switch`; `first`: the stream's own URI and stack.
    pub fn read(
        options: &SendOptions,
        first: &StreamUri,
        stack: &StackPlan,
    ) -> Result<(Self, Arriving, Failures), Error> {
        let also = options.also.iter().map(|uri| (uri, Duration::ZERO, Joining::Beside));
        let switch = options.switch.iter().map(|switch| (&switch.uri, switch.at, Joining::Instead));
        let read = |(uri, at, joining): (&String, Duration, Joining)| {
            Ok(Planned { at, joining, uri: uri.clone(), plan: plan(uri, options, stack)? })
        };
        let mut planned = also.chain(switch).map(read).collect::<Result<Vec<_>, Error>>()?;
        if !planned.is_empty() && matches!(first.target, Target::Listen(_)) {
            return Err(Error::usage(
                "a sender that waits for callers can't choose their transport: name the receiver, or omit --also and \
                 --switch",
            ));
        }
        planned.sort_by_key(|one| one.at);
        let (opened, arriving) = mpsc::channel();
        let (tell, happened) = mpsc::channel();
        let (failed, failures) = mpsc::channel();
        let changes = Changes {
            options: options.clone(),
            stack: stack.clone(),
            planned,
            begun: 0,
            moving: false,
            opened,
            happened,
            uris: BTreeMap::from([(WIRE, options.target.clone())]),
            failures: Vec::new(),
        };
        Ok((changes, Arriving { opened: arriving, happened: tell, failed, token: random_token() }, failures))
    }

    /// Begins what is due after so much sound, and tells of what happened. Connecting waits on a thread of its own.
    pub fn poll(&mut self, sent: Duration, failures: &Failures, notice: &mut dyn FnMut(String)) {
        while let Ok((wire, change)) = self.happened.try_recv() {
            self.tell(wire, change, notice);
        }
        while let Ok((wire, why)) = failures.try_recv() {
            self.fail(wire, &why, notice);
        }
        while let Some(next) = self.planned.get(self.begun).filter(|next| next.at <= sent) {
            let moves = next.joining == Joining::Instead;
            if moves && self.moving {
                return;
            }
            self.moving |= moves;
            self.begun += 1;
            let (wire, joining, plan) = (WireId(self.begun as u32), next.joining, next.plan.clone());
            self.uris.insert(wire, next.uri.clone());
            let opened = self.opened.clone();
            let open = move || {
                let _the_stream_has_ended = opened.send((wire, joining, plan.open()));
            };
            if let Err(error) = spawn("open", open) {
                self.fail(wire, &error.to_string(), notice);
            }
        }
    }

    /// Plans one more change of the transport, after all that are planned.
    pub fn plan_switch(&mut self, switch: &Switch) -> Result<(), Error> {
        let plan = plan(&switch.uri, &self.options, &self.stack)?;
        let at = self.planned.last().map_or(switch.at, |last| last.at.max(switch.at));
        self.planned.push(Planned { at, joining: Joining::Instead, uri: switch.uri.clone(), plan });
        Ok(())
    }

    fn tell(&mut self, wire: WireId, change: Change, notice: &mut dyn FnMut(String)) {
        let uri = &self.uris[&wire];
        match change {
            Change::Joined(_) if self.joining(wire) == Some(Joining::Beside) => {
                notice(format!("the receiver accepts the stream over {uri} as well"));
            }
            Change::Joined(_) => {}
            Change::Moved(_) => {
                notice(format!("the stream continues over {uri}"));
                self.moving = false;
            }
            Change::Failed(_, why) => self.fail(wire, &why.to_string(), notice),
        }
    }

    fn joining(&self, wire: WireId) -> Option<Joining> {
        let planned = (wire.0 as usize).checked_sub(1).and_then(|at| self.planned.get(at));
        planned.map(|planned| planned.joining)
    }

    fn fail(&mut self, wire: WireId, why: &str, notice: &mut dyn FnMut(String)) {
        let sentence = format!("{}: {why}; the stream continues without it", self.uris[&wire]);
        notice(sentence.clone());
        self.failures.push(sentence);
        if self.joining(wire) == Some(Joining::Instead) {
            self.moving = false;
        }
    }

    /// What did not happen as it was asked for, once the stream has ended.
    pub fn finish(mut self, failures: &Failures, notice: &mut dyn FnMut(String)) -> Vec<String> {
        while let Ok((wire, change)) = self.happened.try_recv() {
            self.tell(wire, change, notice);
        }
        while let Ok((wire, why)) = failures.try_recv() {
            self.fail(wire, &why, notice);
        }
        for missed in &self.planned[self.begun..] {
            let sentence = format!("{}: the stream ended before this switch", missed.uri);
            notice(sentence.clone());
            self.failures.push(sentence);
        }
        self.failures
    }
}

impl Arriving {
    /// Adds wires that were opened, and passes on what the session did with them; on the media thread, after each round.
    pub fn poll(&mut self, now: Instant, session: &mut Session, lines: &mut Lines<'static>, stacks: &Stacks) {
        while let Ok((wire, joining, opened)) = self.opened.try_recv() {
            let added = opened.and_then(|opened| {
                let stack = opened.stack()?;
                stacks.borrow_mut().insert(wire, (opened.scheme().into(), Rc::clone(&stack)));
                let paths = opened.paths(&*stack);
                opened.add(wire, lines)?;
                session.call_further(now, wire, &paths, &*stack, joining, self.token);
                Ok(())
            });
            if let Err(error) = added {
                let _main_thread_is_gone = self.failed.send((wire, error.to_string()));
            }
        }
        while let Some(change) = session.poll_change() {
            let (Change::Joined(wire) | Change::Moved(wire) | Change::Failed(wire, _)) = change;
            let _main_thread_is_gone = self.happened.send((wire, change));
        }
    }
}

/// The wire of a further URI. What it says of the sound would differ from the first, so only the transport's own settings
/// and those of the socket are accepted.
fn plan(text: &str, options: &SendOptions, first: &StackPlan) -> Result<WirePlan, Error> {
    let uri = StreamUri::read(text, &options.socket)?;
    let keys = &uri.keys;
    let of_sound = [
        ("rate", keys.rate.is_some()),
        ("channels", keys.channels.is_some()),
        ("format", keys.sample.is_some()),
        ("groups", keys.groups.is_some()),
        ("ptime", keys.ptime.is_some()),
        ("latency", keys.latency.is_some()),
        ("protect", keys.protect.is_some()),
        ("framing", keys.framing.is_some_and(|framing| framing != first.framing)),
    ];
    if let Some((key, _)) = of_sound.iter().find(|(_, given)| *given) {
        return Err(Error::usage(format!(
            "'{text}': {key}= belongs to the stream, which has one: write it in the first URI"
        )));
    }
    if first.framing != StreamFraming::Rtp {
        return Err(Error::usage(format!(
            "the framing '{}' has no packet numbers by which a receiver joins two transports: omit --also and --switch",
            first.framing.name()
        )));
    }
    if matches!(uri.target, Target::Listen(_)) {
        return Err(Error::usage(format!(
            "'{text}' has no receiver: write {}://HOST:PORT",
            uri.transport.scheme
        )));
    }
    let stack =
        StackPlan { groups: first.groups, ..uri.stack(options.seed, first.playout_delay, first.framing) };
    Ok(WirePlan { stack, target: uri.target, over_ip: uri.keys.over_ip, socket: uri.keys.socket })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_a_uri_and_a_time() {
        let switch = |text: &str| text.parse::<Switch>();
        let expected =
            Switch { uri: "sctp://[::1]:9899?order=ordered".into(), at: Duration::from_millis(1500) };
        assert_eq!(switch("sctp://[::1]:9899?order=ordered@1.5s"), Ok(expected));
        for wrong in ["sctp://studio", "sctp://studio@", "sctp://studio@10", "@"] {
            let said = switch(wrong).unwrap_err();
            assert!(said.contains("@10s"), "'{wrong}' said: {said}");
        }
    }
}
