//! Reports as one HTML file that needs nothing else: no server, no network, no external fonts.
//!
//! A [`Page`] consists of [`Section`]s, and a section of [`Part`]s, each filled with plain data: prose, facts, cards,
//! [`Table`], [`Chart`], [`Bars`], [`LossMap`], audio [`Clip`]s with a player, notes. [`render_compare`] builds the report of
//! `antiphon compare` from these parts, and [`compare_svg`] a still picture of the same run for a README.
//!
//! Text, tables, bars and players work without JavaScript; a bundled script, which a content security policy identifies
//! by its hash, draws charts and loss maps. Every string from outside is escaped on input, so a caller passes names,
//! commands and file names unchanged. Equal input gives equal bytes.

mod cards;
mod chart;
mod compare;
mod encode;
mod fate;
mod html;
mod listen;
mod page;
mod picture;
mod sections;
mod shares;
mod table;

pub use cards::{Card, Command};
pub use chart::{Axis, Chart, Mark, MarkAxis, Scale, Series, Style};
pub use compare::{CompareReport, LatencyNote, Limit, LinkNote, TradeOff, TransportPanel, render_compare};
pub use fate::{Fate, LossMap, Strip};
pub use html::{escape, number};
pub use listen::{Clip, gaps};
pub use page::{Page, Part, Section};
pub use picture::compare_svg;
pub use shares::{burst_lengths, not_there_after, target_for};
pub use table::{Bars, Better, Cell, Column, Row, Table};
