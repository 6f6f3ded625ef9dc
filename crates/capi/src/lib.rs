//! Antiphon for programs in C: `srp.h`, the interface of the SRP report's appendix to the letter, and `antiphon.h`, the
//! facade in plain C. `docs/c-interface.md` tells how to build, link and use them.
//!
//! A skin without logic: [`srp`] wraps `antiphon::srp`, [`messages`] and [`sound`] wrap `antiphon::messages` and
//! `antiphon::SoundTask`. What is its own is what C needs: handles that can be wrong without harm, numbers for errors,
//! and no panic that leaves a function.
//!
//! The headers in `include/` are made from this source; `tests/headers.rs` compares, and rewrites them with
//! `ANTIPHON_WRITE_HEADERS=1 cargo test -p antiphon-capi --test headers`.

mod boundary;
mod registry;

pub mod errors;
pub mod messages;
pub mod sound;
pub mod srp;
