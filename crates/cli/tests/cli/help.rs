//! Help, manual and completions: complete, from one table, and no wider than a terminal.

use crate::common::{run, width};

const COMMANDS: [&str; 14] = [
    "compare",
    "send",
    "receive",
    "talk",
    "reflect",
    "link",
    "lab",
    "lab run",
    "lab check",
    "devices",
    "peers",
    "doctor",
    "man",
    "completions",
];

/// The help of a command, whose name may be of two words.
fn help(command: &str, flag: &str) -> crate::common::Ran {
    let words: Vec<&str> = command.split(' ').chain([flag]).collect();
    run(&words)
}

/// The long options that a help text lists.
fn options(help: &str) -> Vec<String> {
    let starts = help.lines().filter(|line| line.trim_start().starts_with('-'));
    let words = starts
        .flat_map(|line| line.split([' ', ',', '<', '[', '=', '.']))
        .filter(|word| word.starts_with("--"));
    let mut options: Vec<String> = words.map(Into::into).collect();
    options.sort();
    options.dedup();
    options
}

#[test]
fn help_fits_eighty_columns_and_shows_examples() {
    for command in COMMANDS {
        for flag in ["--help", "-h"] {
            let help = help(command, flag);
            assert_eq!(help.code, Some(0), "{command}: {}", help.err);
            assert!(width(&help.out) <= 80, "{command} {flag}: {}\n{}", width(&help.out), help.out);
            assert!(help.out.contains(&format!("antiphon {command}")), "{command} has no example");
        }
    }
    let main = run(&["--help"]);
    assert!(width(&main.out) <= 80);
    assert!(
        COMMANDS.iter().filter(|command| !command.contains(' ')).all(|command| main.out.contains(command))
    );
    for code in ["0  done", "1  failed", "2  usage", "3  a --require", "4  the peer", "124 ", "130 "] {
        assert!(main.out.contains(code), "{code}\n{}", main.out);
    }
}

#[test]
fn help_names_what_each_command_takes() {
    let takes: [(&str, &[&str]); 8] = [
        (
            "lab run",
            &["--results", "--threads", "--run", "--capture", "--fresh", "--repetitions", "--seed", "--set"],
        ),
        ("lab check", &["--repetitions", "--seed", "--set", "--json"]),
        (
            "compare",
            &[
                "--link",
                "--seconds",
                "--channels",
                "--rate",
                "--transports",
                "--source",
                "--seed",
                "--out",
                "--capture",
                "--passport",
                "--block",
                "--format",
                "--latency",
                "--conceal",
                "--no-expire",
                "--protect",
                "--busy-poll",
                "--link-method",
                "--dscp",
                "--congestion",
                "--require",
                "--json",
                "--config",
                "--color",
                "--verbose",
            ],
        ),
        (
            "send",
            &[
                "--sdp",
                "--format",
                "--payload-type",
                "--capture",
                "--passport",
                "--ttl",
                "--iface",
                "--wait-for-peer",
                "--voice",
                "--voice-size",
                "--fifo",
                "--silence",
                "--seconds",
                "--channel-map",
                "--groups",
                "--framing",
                "--protect",
                "--ptime",
                "--latency",
                "--rate",
            ],
        ),
        (
            "receive",
            &[
                "--sdp",
                "--format",
                "--payload-type",
                "--capture",
                "--passport",
                "--forever",
                "--voice",
                "--voice-send",
                "--mix",
                "--clock",
                "--seconds",
                "--framing",
                "--conceal",
            ],
        ),
        (
            "talk",
            &[
                "--source",
                "--sink",
                "--mute",
                "--monitor",
                "--latency",
                "--block",
                "--format",
                "--wait-for-peer",
            ],
        ),
        ("reflect", &["--listen", "--transports", "--max-peers", "--seconds", "--capture"]),
        (
            "link",
            &[
                "--listen",
                "--to",
                "--tcp",
                "--from-netns",
                "--to-netns",
                "--list",
                "--seed",
                "--loss",
                "--delay",
                "--rate",
                "--jitter",
                "--queue",
                "--stall",
                "--reorder",
                "--duplicate",
                "--corrupt",
            ],
        ),
    ];
    for (command, wanted) in takes {
        let listed = options(&help(command, "--help").out);
        for option in wanted {
            assert!(listed.iter().any(|known| known == option), "{command} {option}: {listed:?}");
        }
    }
}

#[test]
fn defaults_stand_with_their_units() {
    // However the lines are folded.
    let help = run(&["compare", "--help"]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    for shown in ["[default: 80ms]", "[default: wifi-home]", "[default: 40ms]", "[default: 1MiB]"] {
        assert!(help.contains(shown), "{shown}");
    }
}

#[test]
fn help_on_transports_is_a_table_that_fits() {
    let table = run(&["help", "transports"]);
    assert_eq!((table.code, table.err.as_str()), (Some(0), ""));
    assert!(width(&table.out) <= 80 && table.out.contains("path MTU discovery"), "{}", table.out);
    for transport in antiphon::proto::TRANSPORTS {
        assert!(table.out.lines().next().unwrap().contains(transport.scheme), "{}", table.out);
    }
    assert!(run(&["--json", "help", "transports"]).out.starts_with(r#"{"record":"feature","schema":1,"#));
    assert_eq!(run(&["--color", "never", "help", "transports"]).out, table.out);
    // Help on commands is as before.
    assert!(run(&["help", "compare"]).out.contains("--link"));
    assert_eq!(run(&["help", "transport"]).code, Some(2));
}

#[test]
fn version_tells_itself() {
    let version = run(&["--version"]);
    assert_eq!(version.out.trim(), format!("antiphon {}", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_know_every_command_and_option() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let completions = run(&["completions", shell]);
        assert_eq!(completions.code, Some(0));
        for command in COMMANDS {
            let word = command.split(' ').next_back().unwrap();
            assert!(completions.out.contains(word), "{shell}: {command}");
            for option in options(&help(command, "--help").out) {
                assert!(
                    completions.out.contains(option.trim_start_matches('-')),
                    "{shell}: {command} {option}"
                );
            }
        }
    }
}

#[test]
fn a_manual_page_for_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("man1");
    assert_eq!(run(&["man", path.to_str().unwrap()]).code, Some(0));
    let main = std::fs::read_to_string(path.join("antiphon.1")).unwrap();
    for command in COMMANDS {
        let page =
            std::fs::read_to_string(path.join(format!("antiphon-{}.1", command.replace(' ', "-")))).unwrap();
        let first = command.split(' ').next().unwrap();
        assert!(main.contains(first), "{command}");
        for part in [".SH NAME", ".SH SYNOPSIS", "EXAMPLES", "EXIT STATUS", "124", "SEE ALSO"] {
            assert!(page.contains(part), "{command}: {part}\n{page}");
        }
        for option in options(&help(command, "--help").out) {
            assert!(page.replace('\\', "").contains(&option), "{command}: {option}");
        }
    }
}

#[test]
fn completions_offer_values() {
    let bash = run(&["completions", "bash"]).out;
    let offered = |option: &str, value: &str| {
        let at =
            bash.find(&format!("\n                {option})\n")).unwrap_or_else(|| panic!("no {option}"));
        let case = &bash[at..][..bash[at..].find(";;").expect("a case ends")];
        case.split(['"', ' ']).any(|word| word == value)
    };
    for (option, value) in [
        ("--link", "wifi-home"),
        ("--transports", "sctp"),
        ("--source", "clip:demo"),
        ("--also", "rtp://"),
        ("--conceal", "repetition"),
        ("--framing", "medusa"),
        ("--format", "l24"),
        ("--link-method", "router"),
    ] {
        assert!(offered(option, value), "{option} {value}");
    }
    // Presets, papers, experiments, sources and sinks also complete without an option.
    for value in ["satellite", "tv-audio-wlan", "tv-audio-wlan/udp", "tone:sweep", "null:"] {
        assert!(bash.split([' ', '"']).any(|word| word == value), "{value}");
    }
    // They are not listed in the help, which stays short.
    let help = run(&["compare", "--help"]).out;
    assert!(!help.contains("wifi-busy") && !help.contains("clip:tabla"), "{help}");
}
