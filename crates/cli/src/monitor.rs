//! Who watches a running command from outside: a service manager, and those who fetch metrics.

use antiphon::{Error, MetricsServer, MetricsState, ServiceNotifier, Stop};

use crate::args::MetricsArgs;
use crate::output::Output;

/// What a running command tells to others than its user.
pub struct Monitor {
    metrics: Option<MetricsServer>,
    service: Option<ServiceNotifier>,
    stop: Stop,
}

impl Monitor {
    /// Opens what was asked for by options and by the service manager.
    pub fn open(args: &MetricsArgs, stop: &Stop, output: &Output) -> Result<Self, Error> {
        let metrics = args.start()?;
        if let Some(server) = &metrics {
            output.talk(&format!("metrics at http://{}/metrics", server.address()));
        }
        Ok(Monitor { metrics, ..Monitor::of_service(stop)? })
    }

    /// For a command without metrics.
    pub fn of_service(stop: &Stop) -> Result<Self, Error> {
        let service = ServiceNotifier::from_environment(|name| std::env::var_os(name))?;
        Ok(Monitor { metrics: None, service, stop: stop.clone() })
    }

    /// A state for metrics alone.
    pub fn metrics(&mut self, state: impl FnOnce() -> MetricsState) {
        if let Some(metrics) = &self.metrics {
            metrics.tell(state());
        }
    }

    /// A media thread is alive.
    pub fn alive(&mut self, line: impl FnOnce() -> String) {
        if self.stop.is_asked() {
            self.stopping();
        }
        if let Some(service) = &mut self.service {
            service.alive(line);
        }
    }

    /// Tells what has happened.
    pub fn notice(&mut self, text: &str) {
        if let Some(service) = &mut self.service {
            service.status(text);
        }
    }

    /// The command begins to end.
    pub fn stopping(&mut self) {
        if let Some(service) = &mut self.service {
            service.stopping();
        }
    }
}
