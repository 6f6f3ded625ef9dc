use crate::{Error, ReflectOptions};
use antiphon_net::Stop;
use std::time::Duration;

/// What a reflector does, told about once a second.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ReflectStatus {
    /// Since it began.
    pub elapsed: Duration,
    /// Each transport: scheme, address listened on, peers now, frames returned so far.
    pub transports: Vec<(String, String, u64, u64)>,
}

/// Returns every frame to its sender until stopped. `status` is called once at the start and then every second.
pub fn reflect(
    options: &ReflectOptions,
    stop: &Stop,
    status: &mut dyn FnMut(&ReflectStatus),
) -> Result<ReflectStatus, Error> {
    let _ = (options, stop, status);
    Err(Error::failed("not built yet"))
}
