//! Reports as one HTML file that needs nothing else: no server, no network, no fonts of others.
//!
//! A [`Page`] is made of [`Section`]s, and a section of [`Part`]s, each fed with plain data: prose, facts, cards,
//! [`Table`], [`Chart`], [`Bars`], [`LossMap`], audio [`Clip`]s, notes. [`render_compare`] builds the report of
//! `antiphon compare` from these pieces, and [`compare_svg`] a still picture of the same run for a README.
//!
//! Text, tables, bars and players work without JavaScript; charts and loss maps are drawn by a bundled script that a
//! content security policy names by its hash. Every string from outside is escaped on its way in, so a caller passes
//! names, commands and file names as they are. Equal input gives equal bytes.

mod cards;
mod chart;
mod compare;
mod encode;
mod fate;
mod html;
mod page;
mod picture;
mod sections;
mod shares;
mod table;

pub use cards::{Card, Clip};
pub use chart::{Axis, Chart, Mark, MarkAxis, Scale, Series, Style};
pub use compare::{Advice, CompareReport, LatencyNote, LinkNote, TradeOff, TransportPanel, render_compare};
pub use fate::{Fate, LossMap, Strip};
pub use html::{escape, number};
pub use page::{Page, Part, Section};
pub use picture::compare_svg;
pub use shares::{burst_lengths, not_there_after, target_for};
pub use table::{Bars, Better, Cell, Column, Row, Table};
