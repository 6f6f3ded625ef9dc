//! The built program, from outside.

mod common;
mod help;
mod lab;
mod results;
mod settings;
mod usage;
