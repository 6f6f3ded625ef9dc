//! SCTP in virtual time over modelled links, and before a hostile public.

mod hostile;
mod loss;
mod mtu;
mod paths;
mod peers;
mod sharing;
mod world;
