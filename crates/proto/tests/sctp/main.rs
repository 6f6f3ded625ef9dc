//! SCTP in virtual time over modelled links, and before a hostile public.

mod hostile;
mod loss;
mod paths;
mod peers;
mod sharing;
mod world;
