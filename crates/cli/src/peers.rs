//! `antiphon peers`.

use antiphon::{Announced, AnnouncedStream, Error, FoundPeer, PeerRole, hear_announcements, quoted};
use serde_json::json;

use crate::args::{Global, PeersArgs};
use crate::exit;
use crate::output::Output;

/// Runs the command; returns the exit code.
pub fn run(args: &PeersArgs, global: &Global, output: &mut Output) -> Result<u8, Error> {
    let watch = output.watch(global.time_limit)?;
    let seconds = args.seconds.as_secs_f64();
    output.talk(&format!("listening for announcements for {seconds} s; Ctrl-C ends it"));
    let mut found = 0;
    hear_announcements(args.seconds, args.iface.as_deref(), &watch.stop, &mut |stream| {
        found += 1;
        match stream {
            Announced::Stream(stream) => show(stream, output),
            Announced::Peer(peer) => show_peer(peer, output),
        }
    })?;
    if found == 0 {
        output.talk(
            "nothing was announced: 'antiphon receive rtp://:7710 SINK --announce NAME' announces a receiver, and send, talk and \
             reflect have --announce, too; --iface chooses the network",
        );
    }
    Ok(watch.exit_code().unwrap_or(exit::DONE))
}

fn show_peer(peer: &FoundPeer, output: &mut Output) {
    let role = peer.role.map(PeerRole::name);
    if output.json {
        return output.record(
            "peer",
            json!({
                "name": peer.name, "role": role, "transports": peer.transports, "address": peer.address.to_string(),
                "format": peer.format, "purpose": peer.purpose, "command": peer.command(),
            }),
        );
    }
    let name = if peer.name.is_empty() { "(no name)" } else { &peer.name };
    let details = [Some(peer.transports.join(" ")), peer.format.clone(), peer.purpose.clone()];
    let details: String =
        details.into_iter().flatten().filter(|one| !one.is_empty()).map(|one| format!(", {one}")).collect();
    output.result(&format!("{name}, {}{details}, at {}", role.unwrap_or("of an unknown kind"), peer.address));
    output.result(&match peer.command() {
        Some(command) => format!("    {command}"),
        None => "    this program cannot use it".into(),
    });
}

fn show(stream: &AnnouncedStream, output: &mut Output) {
    let described = &stream.description;
    let format =
        format!("{}/{}/{}", described.coding.name(), described.format.rate(), described.format.channels());
    let uri = stream.uri();
    if output.json {
        return output.record(
            "stream",
            json!({
                "name": stream.name, "origin": stream.origin.to_string(), "uri": uri, "format": format,
                "payload_type": described.payload_type,
                "ptime_ms": described.ptime.map(|ptime| ptime.as_secs_f64() * 1e3),
            }),
        );
    }
    let name = if stream.name.is_empty() { "(no name)" } else { &stream.name };
    output.result(&format!("{name}, {format}, of {}", stream.origin));
    output.result(&match uri {
        Some(uri) => {
            let (uri, payload_type) = (quoted(&uri), described.payload_type);
            format!("    antiphon receive {uri} --format {format} --payload-type {payload_type}")
        }
        None => "    it goes to a single receiver".into(),
    });
}
