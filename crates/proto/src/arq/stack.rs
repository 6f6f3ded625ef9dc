//! `arq://` as a stack: endpoints of the mode that the URI names, or that the caller uses.

use std::rc::Rc;

use antiphon_core::{Dissector, Endpoint, Instant, OverIp, Profile, Role, Stack, Validator};

use super::improved::Improved;
use super::published::Published;
use super::settings::{self, Settings};
use super::{FIRST_NUMBER, begins_an_association, place_of, speaks_text};
use crate::adapt::{Adaptive, Other};
use crate::dissect::EachDatagram;
use crate::looks::ByLooks;
use crate::seeds::Seeds;
use crate::{OpenError, StackArgs};

/// Endpoints of one URI.
#[derive(Debug)]
pub(super) struct ArqStack {
    settings: Settings,
    /// The mode to which a listener changes if its caller uses it, and the profile of its endpoints.
    other: Option<(Settings, Profile)>,
    max_datagram: usize,
    seeds: Seeds,
}

/// A stack of these settings.
pub(super) fn stack(args: &StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError> {
    let settings = settings::read(args.query)?;
    // Settings that only the improved mode has select it for a listener.
    let published = match args.query.value("mode") {
        Some(_) => None,
        None => settings::read(&crate::query::with(args.query, "mode", "as-published")).ok(),
    };
    let profile = |settings: Settings| endpoint(settings, args.max_datagram, 0, Role::Listener).profile();
    let other = published.map(|settings| (settings, profile(settings)));
    let (max_datagram, seeds) = (args.max_datagram, Seeds::new(args.secret));
    Ok(Rc::new(ArqStack { settings, other, max_datagram, seeds }))
}

impl Stack for ArqStack {
    fn open(&self, _now: Instant, role: Role) -> Box<dyn Endpoint> {
        let (max_datagram, seed) = (self.max_datagram, self.seeds.next());
        let own = endpoint(self.settings, max_datagram, seed, role);
        let Some((published, profile)) = self.other.filter(|_| role == Role::Listener) else { return own };
        let open = Box::new(move |_now| endpoint(published, max_datagram, seed, role));
        Box::new(Adaptive::new(own, Other { speaks: speaks_text, profile, open }))
    }

    fn validator(&self, _now: Instant) -> Box<dyn Validator> {
        Box::new(ByLooks { begins: begins_an_association, place: place_of })
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        Box::new(EachDatagram(super::dissector::dissect))
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        None
    }
}

fn endpoint(settings: Settings, max_datagram: usize, seed: u64, role: Role) -> Box<dyn Endpoint> {
    match settings {
        Settings::Published(settings) => {
            Box::new(Published::open(settings, role, max_datagram, FIRST_NUMBER))
        }
        Settings::Improved(settings) => Box::new(Improved::open(settings, role, max_datagram, seed)),
    }
}
