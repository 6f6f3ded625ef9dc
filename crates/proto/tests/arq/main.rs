//! The simple retransmission protocol over modelled links, in virtual time, against closed forms.

mod commands;
mod hostile;
mod repairs;
mod world;
