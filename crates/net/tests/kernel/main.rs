//! Our SCTP and DCCP with independent implementations: a Linux 6.1 kernel in a virtual machine, usrsctp, and tshark,
//! which checks every packet that crosses between them.
//!
//! Needs root; `scripts/install-peers` installs the rest. The machine boots once for all tests, in a network namespace
//! named after this process, and is stopped with it, however it ends. One test at a time (`--test-threads=1`), as the
//! impairments that some of them set apply to all:
//!
//! ```text
//! cargo test -p antiphon-net --test kernel -- --ignored --test-threads=1
//! ```

mod dccp;
mod guest;
mod party;
mod sctp;
#[path = "../common/party.rs"]
mod transports;
mod usrsctp;
mod wire;
