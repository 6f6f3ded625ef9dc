//! The page and its sections.

use crate::cards::{Card, render_cards, render_command};
use crate::chart::Chart;
use crate::encode::{Pool, sha256_base64};
use crate::fate::LossMap;
use crate::html::{escape, heading_id, inline, script_json, slug, unless_empty};
use crate::listen::{Clip, render_listen};
use crate::table::{Bars, Table};
use serde::{Deserialize, Serialize};

/// A whole report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Page {
    /// What kind of report this is, in small type above the title.
    pub kicker: String,
    /// The title, also of the browser's tab.
    pub title: String,
    /// The result in one sentence.
    pub verdict: String,
    /// What was done, when and with what: pairs of term and value under the verdict.
    pub facts: Vec<(String, String)>,
    /// The command line that reproduces the page's results; may be empty.
    pub command: String,
    /// The sections in reading order; their titles make the page's navigation.
    pub sections: Vec<Section>,
    /// A still picture (SVG made by this crate) shown in place of the charts where scripts don't run.
    #[serde(skip)]
    pub(crate) still: String,
}

/// A titled part of a page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Section {
    /// The heading; its words also make the anchor (`#latency-over-time`).
    pub title: String,
    /// A sentence or two under the heading; `` `code` `` between back-quotes.
    pub intro: String,
    /// What the section shows, in order.
    pub parts: Vec<Part>,
}

/// One piece of a section.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Part {
    /// A heading within the section; `[[its words]]` in other texts link to it, as they do to a section's title.
    Heading(String),
    /// Paragraphs, separated by blank lines; `` `code` `` between back-quotes.
    Prose(String),
    /// Pairs of term and value.
    Facts(Vec<(String, String)>),
    /// A command line to copy.
    Command(String),
    /// Recommendations, each with its reason and its confidence.
    Cards(Vec<Card>),
    /// Figures by row and column.
    Table(Table),
    /// Lines, points or steps over an axis.
    Chart(Chart),
    /// Counts by class, as bars that need no script.
    Bars(Bars),
    /// Every packet as one cell.
    LossMap(LossMap),
    /// Sounds next to the report, with one player.
    Listen(Vec<Clip>),
    /// Parts that are folded under this line.
    Details(String, Vec<Part>),
    /// Caveats, as a list.
    Notes(Vec<String>),
}

impl Page {
    /// The page as one HTML document.
    pub fn render(&self) -> String {
        let mut pool = Pool::default();
        let mut body = String::new();
        for (i, section) in self.sections.iter().enumerate() {
            section.render(i, &mut pool, &mut body);
        }
        let script = format!("{UPLOT_JS}\n{REPORT_JS}");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>{UPLOT_CSS}\n{REPORT_CSS}</style>\n\
             <script>{THEME_JS}</script>\n</head>\n<body>\n<a class=\"skip\" href=\"#main\">Skip to the results</a>\n\
             {header}{nav}\n{still}<main id=\"main\">\n{body}</main>\n{footer}\n\
             <script type=\"application/json\" id=\"columns\">{columns}</script>\n<script>{script}</script>\n\
             </body>\n</html>\n",
            policy = policy(&[THEME_JS, &script]),
            title = escape(&self.title),
            header = self.header(),
            nav = self.navigation(),
            still = self.without_script(),
            footer = footer(),
            columns = script_json(&pool.into_json()),
        )
    }

    fn header(&self) -> String {
        let mut out = format!(
            "<header>\n<div class=\"top\"><p class=\"kicker\">{}</p>\
             <button type=\"button\" id=\"theme\" hidden>Theme</button></div>\n<h1>{}</h1>\n",
            escape(&self.kicker),
            escape(&self.title),
        );
        let verdict = |text: &str| format!("<p class=\"verdict\">{}</p>\n", inline(text));
        out.push_str(&unless_empty(&self.verdict, verdict));
        if !self.facts.is_empty() {
            render_facts(&self.facts, &mut out);
        }
        if !self.command.is_empty() {
            render_command(&self.command, &mut out);
        }
        out.push_str("</header>\n");
        out
    }

    fn navigation(&self) -> String {
        let links =
            self.sections.iter().enumerate().map(|(i, section)| {
                format!("<a href=\"#{}\">{}</a>", section.anchor(i), escape(&section.title))
            });
        format!("<nav aria-label=\"Sections\">{}</nav>", links.collect::<String>())
    }

    fn without_script(&self) -> String {
        let has_figures = self.sections.iter().flat_map(|s| &s.parts).any(Part::needs_script);
        if !has_figures {
            return String::new();
        }
        let instead = if self.still.is_empty() { "" } else { " This picture stands in for them." };
        format!(
            "<noscript><div class=\"noscript\"><p>Scripts don't run here, so the charts and loss maps below stay \
             empty; text, tables and players are complete.{instead}</p>{}</div></noscript>\n",
            self.still
        )
    }
}

impl Section {
    /// A section called `title`, with nothing in it yet.
    pub fn new(title: &str, intro: &str) -> Self {
        Section { title: title.into(), intro: intro.into(), parts: Vec::new() }
    }

    /// This section with `part` at its end.
    pub fn with(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// The section's anchor; `index` distinguishes two sections with the same title.
    fn anchor(&self, index: usize) -> String {
        format!("s{}-{}", index + 1, slug(&self.title))
    }

    fn render(&self, index: usize, pool: &mut Pool, out: &mut String) {
        let anchor = self.anchor(index);
        let target = heading_id(&self.title);
        if pool.takes_anchor(&target) {
            out.push_str(&format!("<span id=\"{target}\"></span>\n"));
        }
        out.push_str(&format!(
            "<section id=\"{anchor}\" aria-labelledby=\"{anchor}-h\">\n<h2 id=\"{anchor}-h\">{}</h2>\n",
            escape(&self.title)
        ));
        if !self.intro.is_empty() {
            out.push_str(&format!("<p class=\"intro\">{}</p>\n", inline(&self.intro)));
        }
        render_parts(&self.parts, &anchor, &self.title, pool, out);
        out.push_str("</section>\n");
    }
}

/// `id` begins the ids of the parts; `title` stands above them.
fn render_parts(parts: &[Part], id: &str, title: &str, pool: &mut Pool, out: &mut String) {
    let mut title = title;
    for (i, part) in parts.iter().enumerate() {
        if let Part::Heading(text) = part {
            title = text;
        }
        part.render(&format!("{id}-{i}"), title, pool, out);
    }
}

impl Part {
    fn needs_script(&self) -> bool {
        match self {
            Part::Chart(_) | Part::LossMap(_) => true,
            Part::Details(_, parts) => parts.iter().any(Part::needs_script),
            _ => false,
        }
    }

    /// `title`: the heading that the part is under, which names it to those who can't see where it stands.
    fn render(&self, id: &str, title: &str, pool: &mut Pool, out: &mut String) {
        match self {
            Part::Heading(text) => {
                // Links lead to the first of several with the same words.
                let anchor = heading_id(text);
                let id = if pool.takes_anchor(&anchor) { format!(" id=\"{anchor}\"") } else { String::new() };
                out.push_str(&format!("<h3{id}>{}</h3>\n", escape(text)));
            }
            Part::Prose(text) => {
                for paragraph in text.split("\n\n").filter(|p| !p.trim().is_empty()) {
                    out.push_str(&format!("<p>{}</p>\n", inline(paragraph.trim())));
                }
            }
            Part::Facts(facts) => render_facts(facts, out),
            Part::Command(line) => render_command(line, out),
            Part::Cards(cards) => render_cards(cards, out),
            Part::Table(table) => table.render(id, title, out),
            Part::Chart(chart) => chart.render(pool, out),
            Part::Bars(bars) => bars.render(title, out),
            Part::LossMap(map) => map.render(pool, out),
            Part::Listen(clips) => render_listen(clips, pool, out),
            Part::Details(summary, parts) => {
                out.push_str(&format!("<details class=\"fold\"><summary>{}</summary>\n", escape(summary)));
                render_parts(parts, id, summary, pool, out);
                out.push_str("</details>\n");
            }
            Part::Notes(notes) => {
                let items = notes.iter().map(|note| format!("<li>{}</li>\n", inline(note)));
                out.push_str(&format!("<ul class=\"notes\">\n{}</ul>\n", items.collect::<String>()));
            }
        }
    }
}

fn render_facts(facts: &[(String, String)], out: &mut String) {
    let rows = facts
        .iter()
        .map(|(term, value)| format!("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(term), inline(value)));
    out.push_str(&format!("<dl class=\"facts\">\n{}</dl>\n", rows.collect::<String>()));
}

/// Only sounds next to the report may be fetched, and only our own scripts may run.
///
/// `file:` is named because browsers differ on whether `'self'` covers it. Inline style is allowed: uPlot and the bars
/// set widths with it, and style can't fetch anything under this policy.
fn policy(scripts: &[&str]) -> String {
    let hashes: String =
        scripts.iter().map(|s| format!(" 'sha256-{}'", sha256_base64(s.as_bytes()))).collect();
    format!(
        "default-src 'none'; script-src{hashes}; style-src 'unsafe-inline'; img-src data:; \
         media-src 'self' file: data: blob:; base-uri 'none'; form-action 'none'"
    )
}

fn footer() -> String {
    format!(
        "<footer><p>Made by Antiphon {}. Self-contained; makes no network requests.</p>\n\
         <details><summary>Charts by uPlot 1.6.32 (MIT)</summary><pre>{}</pre></details></footer>",
        env!("CARGO_PKG_VERSION"),
        escape(include_str!("../assets/uPlot-LICENSE"))
    )
}

const UPLOT_JS: &str = include_str!("../assets/uPlot.iife.min.js");
const UPLOT_CSS: &str = include_str!("../assets/uPlot.min.css");
const REPORT_JS: &str = include_str!("../assets/report.js");
const REPORT_CSS: &str = include_str!("../assets/report.css");
const THEME_JS: &str = include_str!("../assets/theme.js");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_can_stand_inline() {
        for script in [UPLOT_JS, REPORT_JS, THEME_JS] {
            let lower = script.to_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("<!--"));
            // The parser turns CR LF into LF, and the hash would not match.
            assert!(!script.contains('\r'));
            assert!(!lower.contains("eval(") && !lower.contains("new function"));
            assert!(!lower.contains("fetch(") && !lower.contains("xmlhttprequest"));
        }
        assert!(
            !UPLOT_CSS.contains("url(") && !REPORT_CSS.contains("url(") && !REPORT_CSS.contains("@import")
        );
    }

    #[test]
    fn two_sections_of_one_title_have_two_anchors() {
        let page =
            Page { sections: vec![Section::new("Loss", ""), Section::new("Loss", "")], ..Page::default() };
        let html = page.render();
        assert!(html.contains("id=\"s1-loss\"") && html.contains("id=\"s2-loss\""));
        assert_eq!(html.matches("id=\"h-loss\"").count(), 1, "links lead to the first");
        assert!(!html.contains("<noscript>"), "no figure, so nothing is missing without scripts");
    }

    #[test]
    fn prose_makes_paragraphs() {
        let page = Page {
            sections: vec![Section::new("A", "").with(Part::Prose("one `x`\n\ntwo".into()))],
            ..Page::default()
        };
        assert!(page.render().contains("<p>one <code>x</code></p>\n<p>two</p>"));
    }
}
