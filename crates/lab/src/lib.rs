//! The laboratory: the same protocols as in the real world, in virtual time over modelled networks.
//!
//! [`scenario`] reads an experiment from text and plans its runs, [`setup`] describes one run as plain data, [`world`]
//! runs it, [`figures`] are its results, [`results`] summarises many runs, and [`experiment`] does runs and stores
//! them. [`replay`] runs transports over a path that was recorded; [`papers`] contains published studies to run again.
//! [`live`] has the ends of a setup's streams for a driver with sockets (the crate `antiphon-experiments`), so that
//! model and reality run the same participants and count in the same way.
//!
//! [`tcp`] is a TCP in user space that replaces a kernel's in virtual time: its time is passed in, its losses come from
//! a model, and its settings reach back to the kernels of 2000.

pub mod experiment;
pub mod figures;
pub mod live;
pub mod papers;
pub mod replay;
pub mod results;
pub mod scenario;
pub mod setup;
pub mod spreadsheet;
pub mod tcp;
pub mod world;
