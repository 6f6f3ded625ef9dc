//! The built program, from outside.

mod common;
mod described;
mod doctor;
mod doors;
mod help;
mod input;
mod json;
mod lab;
mod results;
mod screen;
mod service;
mod settings;
mod stopped;
mod streams;
mod talk;
mod truth;
mod usage;
mod voice;
