//! Puts the panels on the screen.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::parts::{Look, minutes, title};
use super::{Model, State, panels};
use crate::signals::STOPPING;

/// How it is shown: what keys have changed.
pub struct View {
    look: Look,
    help: bool,
    /// The picture that is shown while it is frozen.
    frozen: Option<Box<Model>>,
}

/// The smallest terminal in which all panels have room.
const LEAST: (u16, u16) = (60, 16);

impl View {
    pub fn new(coloured: bool) -> Self {
        View { look: Look { coloured }, help: false, frozen: None }
    }

    /// A key was pressed while `shown` was.
    pub fn on_key(&mut self, key: u8, shown: &Model) {
        match key {
            b'?' | b'h' => self.help = !self.help,
            b'p' => self.frozen = self.frozen.take().xor(Some(Box::new(shown.clone()))),
            _ => {}
        }
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>, now: &Model) {
        let area = frame.area();
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let (width, height) = (area.width, area.height);
            let text = format!(
                "--screen needs {} x {} characters; here are {width} x {height}. Enlarge the window. The stream goes on; Ctrl-C ends it.",
                LEAST.0, LEAST.1
            );
            let lines: Vec<Line<'_>> =
                crate::grid::wrap(&text, usize::from(width).max(1)).into_iter().map(Line::from).collect();
            frame.render_widget(Paragraph::new(lines), area);
            return;
        }
        let shown = self.frozen.as_deref().unwrap_or(now);
        let rows = Rows::new(area, shown);
        put(frame, rows.head, vec![self.head(shown)]);
        if self.help {
            let body = Rect { y: rows.top.y, height: rows.foot.y - rows.top.y, ..area };
            let chooses = shown.programmes().is_some();
            self.panel(frame, body, "Keys and words; ? closes", |_, _| help(shown.can_mute, chooses));
        } else {
            self.halves(frame, rows.top, shown);
            self.panel(frame, rows.packets, packets_title(shown), |width, _| {
                panels::packets(shown, width, self.look)
            });
            self.panel(frame, rows.events, "What happened", |width, rows| {
                panels::events(shown, width, rows, self.look)
            });
        }
        put(frame, rows.foot, vec![self.foot(now)]);
    }

    fn halves(&self, frame: &mut Frame<'_>, area: Rect, shown: &Model) {
        let left = Rect { width: area.width * 2 / 5, ..area };
        let right = Rect { x: area.x + left.width + 1, width: area.width - left.width - 1, ..area };
        self.panel(frame, left, "Levels in dBFS", |width, rows| {
            panels::levels(shown, width, rows, self.look)
        });
        self.panel(frame, right, "Now, and the last minute", |width, _| {
            panels::figures(shown, width, self.look)
        });
    }

    fn panel(
        &self,
        frame: &mut Frame<'_>,
        area: Rect,
        name: &str,
        lines: impl FnOnce(usize, usize) -> Vec<Line<'static>>,
    ) {
        let (width, rows) = (usize::from(area.width), usize::from(area.height.saturating_sub(1)));
        let mut all = vec![title(name, width, self.look)];
        all.extend(lines(width, rows));
        put(frame, area, all);
    }

    fn head(&self, shown: &Model) -> Line<'static> {
        let (time, live) = match &shown.state {
            None => (String::new(), None),
            Some(State::Send(status)) => {
                let total = status.total_s.map_or_else(String::new, |total| format!(" of {}", clock(total)));
                (format!("sent {}{total}", clock(status.sent_s)), Some(&status.live))
            }
            Some(State::Receive(status)) => {
                let heard = status.programmes.as_ref().and_then(|known| known.heard());
                let heard = heard.map_or_else(String::new, |heard| format!(" of {}", heard.name));
                (format!("played {}{heard}", clock(status.played_s)), Some(&status.live))
            }
            Some(State::Talk(status)) => {
                (format!("talked {}", clock(status.sent.sent_s)), Some(&status.received.live))
            }
        };
        let way = match shown.command {
            "send" => "to",
            "talk" => "with",
            _ => "from",
        };
        let transport =
            shown.log.transport().map_or(String::new(), |transport| format!(" over {}", transport.title));
        let peer = live.and_then(|live| live.peer.as_deref());
        let peer =
            peer.map_or_else(|| format!("{} (no peer yet)", shown.uri), |peer| format!("{peer}{transport}"));
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Line::from(vec![
            Span::styled(format!("antiphon {}  ", shown.command), bold),
            Span::raw(format!("{time}  {way} {peer}")),
            Span::styled(bounds(shown), self.look.dim()),
        ])
    }

    fn foot(&self, now: &Model) -> Line<'static> {
        let strong = Style::new().add_modifier(Modifier::REVERSED);
        let mut spans = Vec::new();
        if now.stopping {
            spans.push(Span::styled(format!(" {STOPPING} "), strong));
        } else if self.frozen.is_some() {
            spans.push(Span::styled(" frozen: p goes on ", strong));
        }
        let mute = if now.can_mute { "m mutes   " } else { "" };
        let next = if now.programmes().is_some() { "n next programme   " } else { "" };
        spans.push(Span::styled(format!(" q ends   {mute}{next}p freezes   ? explains"), self.look.dim()));
        Line::from(spans)
    }
}

/// Bounds of a playout delay that adapts, and is not the sender's wish.
fn bounds(shown: &Model) -> String {
    let in_step =
        matches!(&shown.state, Some(State::Receive(status)) if status.step.is_some_and(|step| step.in_step));
    match shown.latency {
        Some(latency @ antiphon::Latency::Auto(_)) if !in_step => format!("  delay {latency}"),
        _ => String::new(),
    }
}

fn clock(seconds: f64) -> String {
    // Of what is no time, such as of a source without end, none is shown.
    if seconds.is_finite() { minutes(seconds.max(0.0) as u64) } else { "?".into() }
}

fn packets_title(shown: &Model) -> &'static str {
    match &shown.state {
        Some(State::Send(_)) => "Packets, and receivers",
        Some(State::Talk(status)) if status.parties.is_some() => "Packets, and who else is there",
        _ => "Packets, in all and each second of the last minute",
    }
}

fn put(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>) {
    frame.render_widget(Paragraph::new(lines), area);
}

/// Where the panels are.
struct Rows {
    head: Rect,
    top: Rect,
    packets: Rect,
    events: Rect,
    foot: Rect,
}

impl Rows {
    fn new(area: Rect, shown: &Model) -> Self {
        // Head, foot, titles of the panels below and two lines of what happened remain in any case.
        let spare = area.height.saturating_sub(LEAST.1);
        let (channels, figures, lines) = match &shown.state {
            None => (0, 5, 4),
            Some(State::Receive(status)) => (status.live.levels.len(), 5, 4),
            Some(State::Send(status)) => {
                (status.live.levels.len(), 5, 3 + status.members_shown.len() + status.receivers_shown.len())
            }
            Some(State::Talk(status)) => {
                let others = status.parties.as_ref().map_or(0, |parties| 1 + parties.len());
                let figures = if status.parties.is_some() { 4 } else { 8 };
                (status.sent.live.levels.len() + status.received.live.levels.len(), figures, 5 + others)
            }
        };
        let wanted = u16::try_from(channels.max(figures).min(16)).unwrap_or(16).max(5);
        let top = 1 + wanted.min(5 + spare / 2);
        let spare = spare - (top - 6);
        let lines = u16::try_from(lines.min(16)).unwrap_or(16);
        let packets = 1 + lines.min(4 + spare / 2);
        let at = |y: u16, height: u16| Rect { y: area.y + y, height, ..area };
        let below = 1 + top + packets;
        Rows {
            head: at(0, 1),
            top: at(1, top),
            packets: at(1 + top, packets),
            events: at(below, area.height - below - 1),
            foot: at(area.height - 1, 1),
        }
    }
}

fn help(can_mute: bool, chooses: bool) -> Vec<Line<'static>> {
    let mut lines =
        vec!["q, Ctrl-C   ends; a second time: at once", "p           freezes the picture, and goes on"];
    if can_mute {
        lines.push("m           mutes and unmutes this end");
    }
    if chooses {
        lines.push("n, 1 to 9   the next programme, or the one of this number");
    }
    lines.extend([
        "lost        never came      late   came after its time",
        "repaired    sent again, and came in time",
        "concealed   gaps that were filled",
        "delay       from arrival to playing, as asked or adapted",
        "buffer      sound that waits to be played",
        "jitter      how unevenly packets come (RFC 3550)",
        "drift       how much faster the sender's clock runs",
        "ear < peer  from its mouth to your ear; >: the other way",
        "its …       what the other end reports",
        "levels      the bar now; │ and number: highest of a second",
    ]);
    lines.into_iter().map(Line::from).collect()
}
