//! The built program, from outside.

mod common;
mod doors;
mod help;
mod input;
mod json;
mod lab;
mod results;
mod settings;
mod streams;
mod truth;
mod usage;
mod voice;
