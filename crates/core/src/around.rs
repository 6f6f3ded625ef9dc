//! A stack around a stack.

use std::rc::Rc;

use crate::dissector::Dissector;
use crate::endpoint::Endpoint;
use crate::over_ip::OverIp;
use crate::stack::{Role, Stack};
use crate::time::Instant;
use crate::validator::Validator;

/// A stack whose endpoints are what `wrap` makes of those of `inner`; all else is that of `inner`.
pub struct Around<F> {
    /// The stack.
    pub inner: Rc<dyn Stack>,
    /// Is given each endpoint that is opened.
    pub wrap: F,
}

impl<F: Fn(Box<dyn Endpoint>) -> Box<dyn Endpoint>> Stack for Around<F> {
    fn open(&self, now: Instant, role: Role) -> Box<dyn Endpoint> {
        (self.wrap)(self.inner.open(now, role))
    }

    fn validator(&self, now: Instant) -> Box<dyn Validator> {
        self.inner.validator(now)
    }

    fn dissector(&self) -> Box<dyn Dissector> {
        self.inner.dissector()
    }

    fn over_ip(&self) -> Option<&dyn OverIp> {
        self.inner.over_ip()
    }
}
