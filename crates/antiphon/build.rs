//! Tells the program which commit it is built from, for reports. Where there is no repository, it is built without.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let ran = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(ran.stdout).ok()?;
    ran.status.success().then(|| text.trim().to_string())
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Written by every commit and checkout.
    if let Some(log) =
        git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| std::fs::metadata(log).is_ok())
    {
        println!("cargo::rerun-if-changed={log}");
    }
    // A package unpacked inside someone else's repository is not of that one's commits.
    let ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]).filter(|_| ours) {
        println!("cargo::rustc-env=ANTIPHON_COMMIT={commit}");
    }
}
