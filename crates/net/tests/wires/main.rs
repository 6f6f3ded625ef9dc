//! Several wires of one participant on one thread, on loopback. Ports are the kernel's choice, and waiting is always for an
//! event with a bound.

mod changes;
mod closing;
mod hostile;
mod server;
mod serving;
