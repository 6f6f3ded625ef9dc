//! Who takes part: sender, receiver, reflector, and the hub that serves many peers on one socket.
//!
//! A session is handed its endpoint as `Box<dyn Endpoint>` and knows no concrete transport, socket or clock; it runs
//! unchanged on real sockets and in virtual time.

mod hub;
mod reflector;
mod station;

pub use hub::{Hub, HubConfig, HubCounters, MakeStation};
pub use reflector::{ArrivalLog, Reflector, ReflectorConfig, ReflectorCounters};
pub use station::Station;
