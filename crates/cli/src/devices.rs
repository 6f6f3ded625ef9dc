//! `antiphon devices`.

use antiphon::sound::{Device, devices};
use serde_json::json;

use crate::exit;
use crate::grid::{Align, Cell, Grid, Tone, wrap};
use crate::output::Output;

/// Runs the command; returns the exit code.
pub fn run(output: &mut Output) -> u8 {
    let devices = devices();
    if output.json {
        for device in &devices {
            output.record(
                "device",
                json!({
                    "name": device.name,
                    "about": device.about,
                    "source": device.source,
                    "sink": device.sink,
                    "available": device.available,
                    "clocked": device.clocked,
                    "rate_hz": device.rate,
                    "channels": device.channels,
                    "default": device.default,
                }),
            );
        }
        return exit::DONE;
    }
    let text = text(&devices, output);
    output.result(&text);
    exit::DONE
}

fn text(devices: &[Device], output: &Output) -> String {
    let mut grid = Grid::new([Align::Left, Align::Prose]);
    for device in devices {
        let (name, about) = if device.available { (Tone::Head, Tone::Plain) } else { (Tone::Dim, Tone::Dim) };
        grid.row([Cell::new(device.name.as_str(), name), Cell::new(device.about.as_str(), about)]);
        for (what, uri) in [("from", &device.source), ("to", &device.sink)] {
            let Some(uri) = uri else { continue };
            let beside = format!("    {what:<4} {uri}");
            if beside.chars().count() <= output.width {
                grid.title(Cell::new(beside, Tone::Dim));
            } else {
                // Never folded, since URIs are copied from here.
                grid.title(Cell::new(format!("  {what}"), Tone::Dim));
                grid.title(Cell::new(format!("  {uri}"), Tone::Dim));
            }
        }
    }
    let hint = "Use a URI wherever a command takes a source or a sink. Quote it if it contains '?' or '&', as in \
                antiphon compare --source 'tone:440Hz?seconds=20s'.";
    format!(
        "{}\n{}\n",
        grid.render(output.width, output.palette),
        wrap(hint, output.width.min(96)).join("\n")
    )
}
