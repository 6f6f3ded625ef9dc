//! `dccp://` in virtual time: its congestion control against theory, outages, and hostile unknown sources.

mod acks;
#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod linux;
mod mtu;
mod outages;
mod rates;
mod raw_ip;
mod validator;
mod world;
