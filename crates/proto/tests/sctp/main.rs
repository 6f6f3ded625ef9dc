//! SCTP in virtual time over modelled links, and before a hostile public.

mod hostile;
mod loss;
mod sharing;
mod world;
