//! The headers in `include/` are what the source says. To write them again:
//! `ANTIPHON_WRITE_HEADERS=1 cargo test -p antiphon-capi --test headers`.

use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn config(guard: &str, includes: &[&str], about: &str) -> Config {
    let mut config = Config {
        language: Language::C,
        // `struct srp_client_socket *`, as the report writes it.
        style: Style::Tag,
        cpp_compat: true,
        documentation_style: DocumentationStyle::Doxy,
        include_guard: Some(guard.into()),
        no_includes: true,
        sys_includes: includes.iter().map(|name| (*name).to_string()).collect(),
        header: Some(about.into()),
        line_length: 110,
        usize_is_size_t: true,
        ..Config::default()
    };
    config.export.rename.insert("sockaddr".into(), "struct sockaddr".into());
    config
}

fn made(sources: &[&str], config: Config) -> String {
    let mut builder = Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(here().join("src").join(source));
    }
    let mut text = Vec::new();
    builder.generate().expect("source that cbindgen can read").write(&mut text);
    tidied(&String::from_utf8(text).expect("text"))
}

/// What cbindgen has no setting for: leaves out the sections on safety, which say what a C programmer takes for granted;
/// writes no comment that C90 does not know, and no negative number that could join what stands before it.
fn tidied(text: &str) -> String {
    let (mut kept, mut skipping): (Vec<String>, bool) = (Vec::new(), false);
    for line in text.lines() {
        if line.trim() == "* # Safety" {
            skipping = true;
            if kept.last().is_some_and(|last| last.trim() == "*") {
                kept.pop();
            }
        }
        skipping &= line.trim() != "*/";
        if !skipping {
            kept.push(tidied_line(line.trim_end()));
        }
    }
    kept.join("\n") + "\n"
}

fn tidied_line(line: &str) -> String {
    let directive = line.starts_with('#') || line.starts_with('}');
    let line = match line.split_once(" //") {
        Some((code, comment)) if directive => format!("{code} /*{comment} */"),
        _ => line.to_string(),
    };
    match line.split_once(" -") {
        Some((define, number)) if line.starts_with("#define") => format!("{define} (-{number})"),
        _ => line,
    }
}

fn check(name: &str, text: &str) {
    let path: PathBuf = here().join("include").join(name);
    if std::env::var_os("ANTIPHON_WRITE_HEADERS").is_some() {
        std::fs::write(&path, text).expect("a writable directory");
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == text,
        "include/{name} is not what the source says: run ANTIPHON_WRITE_HEADERS=1 cargo test -p antiphon-capi --test \
         headers, and commit it"
    );
}

#[test]
fn srp_h_is_what_the_source_says() {
    let about = "/* SRP for C: the interface of the appendix of \"SRP - A Multimedia Network Protocol\" (K. French, \
                 G. Oprica,\n   M. Piecuch, Worcester Polytechnic Institute, 2000). Part of Antiphon; \
                 docs/c-interface.md tells how to use it.\n   Made from crates/capi/src/srp.rs; don't edit. */";
    check("srp.h", &made(&["srp.rs"], config("SRP_H", &["sys/socket.h"], about)));
}

#[test]
fn antiphon_h_is_what_the_source_says() {
    let about = "/* Antiphon for C: messages and sound over any transport, by URI. docs/c-interface.md tells how to use \
                 it.\n   Made from crates/capi/src; don't edit. */";
    let sources = ["errors.rs", "messages.rs", "sound.rs"];
    check("antiphon.h", &made(&sources, config("ANTIPHON_H", &["stddef.h", "stdint.h"], about)));
}

/// The report's appendix, as its fact sheet has it: a change of a name, a type or an order breaks programs.
#[test]
fn the_signatures_are_the_reports() {
    let header = std::fs::read_to_string(here().join("include/srp.h")).expect("checked in");
    // The text before a comment, and the text after its end.
    let code: String =
        header.split("/*").map(|part| part.split_once("*/").map_or(part, |(_, code)| code)).collect();
    let code = code.split_whitespace().collect::<Vec<_>>().join(" ");
    for signature in [
        "struct srp_client_socket *srp_client_start(int sock, unsigned int flags, const struct sockaddr *to, \
         int tolen, float loss, int lat);",
        "void srp_client_stop(struct srp_client_socket *sock);",
        "int srp_recvfrom(struct srp_client_socket *sock, void *buffer, int max);",
        "struct srp_server_socket *srp_server_start(int sock, unsigned int flags, const struct sockaddr *to, \
         int tolen);",
        "void srp_server_stop(struct srp_server_socket *sock);",
        "int srp_sendto(struct srp_server_socket *sock, const void *msg, int len);",
    ] {
        assert!(code.contains(signature), "{signature} is not in\n{code}");
    }
}
