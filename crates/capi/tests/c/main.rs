//! C programs against the library, installed into a directory of the test's own by the script that installs it.
//!
//! Everything is on loopback, under ports that nobody else gets, and no program outlives its deadline. What needs more
//! than a C compiler is ignored here and run by `.ci/run` with `--ignored`.

mod changes;
mod installed;
mod library;
mod misuse;
mod program;
mod streams;
