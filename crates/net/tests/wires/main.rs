//! Several wires of one participant on one thread, on loopback. The kernel chooses ports, and tests wait for events
//! with a bound.

mod changes;
mod closing;
mod hostile;
mod server;
mod serving;
