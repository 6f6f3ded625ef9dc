//! The built program, from outside.

mod common;
mod help;
mod results;
mod settings;
mod usage;
