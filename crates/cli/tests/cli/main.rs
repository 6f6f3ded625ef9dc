//! The built program, from outside.

mod common;
mod help;
mod json;
mod lab;
mod results;
mod settings;
mod streams;
mod truth;
mod usage;
