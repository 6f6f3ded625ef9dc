//! `dccp://` in virtual time: its congestion control against theory, outages, and strangers who wish it ill.

mod door;
mod hostile;
mod linux;
mod mtu;
mod outages;
mod rates;
mod raw_ip;
mod world;
