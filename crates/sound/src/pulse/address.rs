//! Where the server listens, and what shows that its user calls.
//!
//! As PulseAudio's own library does it, without its files of settings: the environment, then the usual place.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::connection::Failure;

/// Where a server may be, and where to look for its cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    /// Sockets to try, in this order.
    pub sockets: Vec<PathBuf>,
    /// Files that may hold the cookie.
    pub cookies: Vec<PathBuf>,
}

impl Address {
    /// That of the server for this user.
    pub fn of_environment() -> Result<Self, Failure> {
        Self::read(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn read(value: impl Fn(&str) -> Option<OsString>) -> Result<Self, Failure> {
        let path = |name: &str| value(name).map(PathBuf::from);
        let home = path("HOME");
        let config = path("XDG_CONFIG_HOME").or(home.as_ref().map(|home| home.join(".config")));
        let cookies = [
            path("PULSE_COOKIE"),
            config.map(|config| config.join("pulse/cookie")),
            home.map(|home| home.join(".pulse-cookie")),
        ];
        let sockets = match value("PULSE_SERVER") {
            Some(servers) => named(&servers.to_string_lossy())?,
            None => [
                path("PULSE_RUNTIME_PATH").map(|folder| folder.join("native")),
                path("XDG_RUNTIME_DIR").map(|folder| folder.join("pulse/native")),
                Some(format!("/run/user/{}/pulse/native", nix::unistd::getuid()).into()),
                // Of a server for all users.
                Some("/var/run/pulse/native".into()),
            ]
            .into_iter()
            .flatten()
            .collect(),
        };
        Ok(Address { sockets, cookies: cookies.into_iter().flatten().collect() })
    }

    /// The first cookie there is; zeros if there is none, as servers that know the user by the socket ask for no cookie.
    pub fn cookie(&self) -> Vec<u8> {
        let read = |path: &PathBuf| read_cookie(path);
        self.cookies.iter().find_map(read).unwrap_or_else(|| vec![0; COOKIE_LENGTH])
    }
}

fn read_cookie(path: &Path) -> Option<Vec<u8>> {
    let mut cookie = vec![0; COOKIE_LENGTH];
    // Whatever else the file may be, it is no cookie.
    File::open(path).and_then(|mut file| file.read_exact(&mut cookie)).ok()?;
    Some(cookie)
}

/// The local servers that `PULSE_SERVER` names: addresses divided by blanks, each with the id of a machine in front if it is
/// only for that one.
fn named(servers: &str) -> Result<Vec<PathBuf>, Failure> {
    let address = |word: &str| match word.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((_machine, address)) => address.to_string(),
        None => word.to_string(),
    };
    let local = |address: String| match address.strip_prefix("unix:") {
        Some(path) => Some(PathBuf::from(path)),
        None => address.starts_with('/').then(|| PathBuf::from(&address)),
    };
    let sockets: Vec<_> = servers.split_ascii_whitespace().filter_map(|word| local(address(word))).collect();
    if sockets.is_empty() {
        return Err(Failure::Remote(servers.chars().filter(|c| !c.is_control()).take(80).collect()));
    }
    Ok(sockets)
}

/// `PA_NATIVE_COOKIE_LENGTH`: servers refuse any other.
const COOKIE_LENGTH: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn sockets(variables: &[(&str, &str)]) -> Result<Vec<String>, Failure> {
        let value = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        let address = Address::read(value)?;
        Ok(address.sockets.iter().map(|path| path.display().to_string()).collect())
    }

    #[test]
    fn the_server_is_where_the_environment_says() {
        let named = |servers| sockets(&[("PULSE_SERVER", servers), ("XDG_RUNTIME_DIR", "/run/me")]);
        assert_eq!(named("unix:/tmp/a").unwrap(), ["/tmp/a"]);
        assert_eq!(named("{0123}unix:/tmp/a tcp:hall:4713 /tmp/b").unwrap(), ["/tmp/a", "/tmp/b"]);
        assert!(matches!(named("tcp:hall:4713"), Err(Failure::Remote(server)) if server == "tcp:hall:4713"));
        let usual = sockets(&[("PULSE_RUNTIME_PATH", "/run/pa"), ("XDG_RUNTIME_DIR", "/run/me")]).unwrap();
        assert_eq!(usual[..2], ["/run/pa/native", "/run/me/pulse/native"]);
    }

    #[test]
    fn without_a_cookie_there_are_zeros() {
        let folder = tempfile::tempdir().unwrap();
        let (short, whole) = (folder.path().join("short"), folder.path().join("whole"));
        std::fs::write(&short, [1; 255]).unwrap();
        let address = |cookies| Address { sockets: Vec::new(), cookies };
        assert_eq!(address(vec![short.clone()]).cookie(), [0; 256]);
        std::fs::write(&whole, [1; 256]).unwrap();
        assert_eq!(address(vec![short, whole]).cookie(), [1; 256]);
    }
}
