//! `srp://` as a stack: endpoints of the mode in the URI, or of the caller's mode.

use std::rc::Rc;

use antiphon_core::{Dissector, Endpoint, Instant, OverIp, Profile, Role, Stack, Validator};

use super::endpoint::SrpEndpoint;
use super::settings::Settings;
use super::{begins_an_association, place_of, speaks_as_published};
use crate::adapt::{Adaptive, Other};
use crate::dissect::EachDatagram;
use crate::looks::ByLooks;
use crate::seeds::Seeds;
use crate::{OpenError, StackArgs};

/// Endpoints of one URI.
#[derive(Debug)]
pub(super) struct SrpStack {
    settings: Settings,
    /// The mode to which a listener changes if its caller uses it, and the profile of its endpoints.
    other: Option<(Settings, Profile)>,
    max_datagram: usize,
    seeds: Seeds,
}

/// A stack with these settings.
pub(super) fn stack(args: &StackArgs<'_>) -> Result<Rc<dyn Stack>, OpenError> {
    let settings = Settings::read(args.query, args.playout_delay)?;
    // Keys of the improved mode restrict a listener to it.
    let published = match args.query.value("mode") {
        Some(_) => None,
        None => {
            Settings::read(&crate::query::with(args.query, "mode", "as-published"), args.playout_delay).ok()
        }
    };
    let (max_datagram, seeds) = (args.max_datagram, Seeds::new(args.secret));
    let open =
        |settings: &Settings| SrpEndpoint::new(settings, Role::Listener, max_datagram, 0, Instant::ZERO);
    let other = published.map(|settings| (settings, open(&settings).profile()));
    Ok(Rc::new(SrpStack { settings, other, max_datagram, seeds }))
}

impl Stack for SrpStack {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        let (max_datagram, seed) = (self.max_datagram, self.seeds.next());
        let own = Box::new(SrpEndpoint::new(&self.settings, role, max_datagram, seed, now));
        let Some((published, profile)) = self.other.filter(|_| role == Role::Listener) else { return own };
        let open = Box::new(move |now| -> Box<dyn Endpoint> {
            Box::new(SrpEndpoint::new(&published, role, max_datagram, seed, now))
        });
        Box::new(Adaptive::new(own, Other { speaks: speaks_as_published, profile, open }))
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
