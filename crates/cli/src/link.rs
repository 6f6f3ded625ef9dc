//! `antiphon link`.

use std::time::Duration;

use antiphon::Error;
use antiphon::link::{DuplexSpec, KEYS, PRESETS};
use antiphon::net::AllowList;
use antiphon::net::emulator::{
    EmulatorError, LaneConfig, Router, RouterConfig, Sides, StreamProxy, StreamProxyConfig, UdpProxy,
    UdpProxyConfig,
};
use antiphon::net::netns::{Means, Namespace};
use serde_json::json;

use crate::args::{Global, LinkArgs};
use crate::exit;
use crate::grid::{Align, Cell, Grid, Tone};
use crate::output::Output;
use crate::progress::{Pace, StreamProgress};

mod traffic;

use traffic::Traffic;

/// Runs the command; returns the exit code.
pub fn run(args: &LinkArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    if args.list {
        list(output);
        return Ok(exit::DONE);
    }
    let spec = args.spec()?;
    let watch = output.watch(global.time_limit)?;
    let allow = AllowList::new(args.allow.iter().copied());
    let emulator = Emulator::start(args, spec, allow.clone(), output)?;
    begin(args, spec, &emulator, output);
    let mut progress = StreamProgress::new(output, &watch.stop);
    let mut end = args.seconds.map(|time| Pace::new(output.clock(), time));
    let mut second = Pace::new(output.clock(), Duration::from_secs(1));
    let mut earlier = Traffic::default();
    loop {
        let stopped = watch.wait(TICK) || end.as_mut().is_some_and(Pace::is_due);
        let Some(mut traffic) = emulator.report() else {
            progress.clear();
            return Err(Error::failed("the link failed; its counters are lost"));
        };
        if stopped {
            break;
        }
        traffic.keep_slowest(&earlier);
        progress.update(|| traffic.line(), output);
        earlier = traffic;
        if second.is_due() && output.json {
            output.timed("interval", std::mem::take(&mut earlier).json());
        }
    }
    progress.clear();
    let mut traffic = emulator.stop();
    traffic.add_denied(allow.denied());
    if output.json {
        output.timed("summary", traffic.json());
    } else {
        let table = traffic.table().render(output.width, output.palette);
        output.result(&table);
        for note in traffic.notes() {
            output.result(&note);
        }
    }
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

/// How often the counters are read, for display.
const TICK: Duration = Duration::from_millis(200);

fn begin(args: &LinkArgs, spec: DuplexSpec, emulator: &Emulator, output: &mut Output) {
    if output.json {
        output.timed(
            "run",
            json!({
                "command": "link",
                "version": env!("CARGO_PKG_VERSION"),
                "seed": args.seed,
                "link": { "name": args.spec, "up": spec.up.to_string(), "down": spec.down.to_string() },
                "where": emulator.place(),
            }),
        );
    }
    output.talk(&emulator.place());
    if spec.up == spec.down {
        output.talk(&format!("link: {}", spec.up));
    } else {
        output.talk(&format!("up:   {}\ndown: {}", spec.up, spec.down));
    }
    output.talk(&format!("seed: {}; stop with Ctrl-C", args.seed));
    if matches!(emulator, Emulator::Tcp(..)) {
        output.talk(&crate::grid::wrap(StreamProxy::limits(), output.width).join("\n"));
    }
}

/// The emulator, whichever it is.
enum Emulator {
    Udp(UdpProxy, String),
    Tcp(StreamProxy, String),
    Router(Router, String),
}

impl Emulator {
    fn start(args: &LinkArgs, spec: DuplexSpec, allow: AllowList, output: &Output) -> Result<Self, Error> {
        let clock = output.clock();
        if let (Some(listen), Some(target)) = (args.listen, args.to) {
            if args.tcp {
                let config = StreamProxyConfig {
                    listen,
                    target,
                    link: spec,
                    seed: args.seed,
                    max_connections: args.max_flows,
                    real_time: args.real_time,
                    allow,
                };
                let proxy = StreamProxy::start(config, clock).map_err(failure)?;
                let place = format!("TCP connections to {} are forwarded to {target}", proxy.local_addr());
                return Ok(Emulator::Tcp(proxy, place));
            }
            let config = UdpProxyConfig {
                max_flows: args.max_flows,
                idle: args.idle,
                real_time: args.real_time,
                allow,
                ..UdpProxyConfig::new(listen, target, spec, args.seed)
            };
            let proxy = UdpProxy::start(config, clock).map_err(failure)?;
            let place = format!("datagrams to {} are forwarded to {target}", proxy.local_addr());
            return Ok(Emulator::Udp(proxy, place));
        }
        let (Some(from), Some(to)) = (&args.from_netns, &args.to_netns) else {
            return Err(Error::usage(
                "write --listen HOST:PORT --to HOST:PORT, or --from-netns A --to-netns B",
            ));
        };
        let find = |name: &str| Namespace::find(name).map_err(|error| Error::usage(error.to_string()));
        let sides = Sides::Existing { near: find(from)?, far: find(to)? };
        let lanes = vec![LaneConfig { sides, ..LaneConfig::private(spec, args.seed) }];
        let router = Router::start(RouterConfig { lanes, means: None, real_time: args.real_time }, clock)
            .map_err(failure)?;
        let by = match router.means() {
            Means::Tun => "TUN devices",
            _ => "virtual Ethernet",
        };
        let place = match router.lanes() {
            [lane, ..] => {
                format!(
                    "{from} is {} and {}, {to} is {} and {}, over {by}",
                    lane.near.v4, lane.near.v6, lane.far.v4, lane.far.v6
                )
            }
            [] => by.into(),
        };
        Ok(Emulator::Router(router, place))
    }

    /// The addresses of its ends, in a sentence.
    fn place(&self) -> String {
        match self {
            Emulator::Udp(_, place) | Emulator::Tcp(_, place) | Emulator::Router(_, place) => place.clone(),
        }
    }

    /// The counts so far; `None` if it failed.
    fn report(&self) -> Option<Traffic> {
        match self {
            Emulator::Udp(proxy, _) => proxy.report().map(Traffic::from),
            Emulator::Tcp(proxy, _) => proxy.report().map(Traffic::from),
            Emulator::Router(router, _) => router.report().map(Traffic::from),
        }
    }

    /// Stops it; returns the final counts.
    fn stop(self) -> Traffic {
        match self {
            Emulator::Udp(proxy, _) => proxy.stop().into(),
            Emulator::Tcp(proxy, _) => proxy.stop().into(),
            Emulator::Router(router, _) => router.stop().into(),
        }
    }
}

fn failure(error: EmulatorError) -> Error {
    match error {
        EmulatorError::Spec(error) => error.into(),
        other => Error::failed(other.to_string()),
    }
}

/// Prints presets and keys with their reasons.
fn list(output: &mut Output) {
    if output.json {
        for preset in &PRESETS {
            let setting = |s: &antiphon::link::Setting| json!({ "setting": s.text, "reason": s.reason });
            let settings: Vec<_> = preset.settings.iter().map(setting).collect();
            output.record(
                "preset",
                json!({ "name": preset.name, "place": preset.place, "settings": settings }),
            );
        }
        return;
    }
    let mut text = String::new();
    for preset in &PRESETS {
        let place = crate::grid::wrap(preset.place, output.width.saturating_sub(2)).join("\n  ");
        text += &format!("{}\n  {place}\n", output.palette.paint(Tone::Head, preset.name));
        let mut grid = Grid::new([Align::Left, Align::Prose]);
        for setting in preset.settings {
            grid.row([Cell::from(format!("    {}", setting.text)), Cell::new(setting.reason, Tone::Dim)]);
        }
        text += &grid.render(output.width, output.palette);
        text.push('\n');
    }
    let mut grid = Grid::new([Align::Left, Align::Prose]);
    for (key, example, about) in KEYS {
        grid.row([Cell::from(format!("    {key}={example}")), Cell::from(about)]);
    }
    let keys = grid.render(output.width, output.palette);
    text += &format!(
        "{}\n{keys}",
        output.palette.paint(Tone::Head, "Keys, alone or after a preset, separated by commas")
    );
    text += "    up.KEY, down.KEY: in one direction only\n";
    output.result(&text);
}
