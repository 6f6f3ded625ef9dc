//! Gives the shared library its name for the dynamic linker.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // While the major version is 0, the minor one says what is compatible (SemVer, as Cargo reads it).
    let version = std::env::var("CARGO_PKG_VERSION").expect("set by cargo");
    let mut parts = version.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let compatible = if major == "0" { format!("0.{minor}") } else { major.to_string() };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libantiphon.so.{compatible}");
}
