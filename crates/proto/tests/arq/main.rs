//! The simple retransmission protocol over modelled links, in virtual time, against closed forms.

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod hostile;
mod repairs;
mod world;
