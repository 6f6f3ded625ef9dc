//! Why there are no namespaces.

/// Why namespaces or their devices are not available.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}{remedy}")]
pub struct NetnsError {
    what: String,
    source: std::io::Error,
    remedy: &'static str,
}

impl NetnsError {
    pub(crate) fn new(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        let source = source.into();
        let remedy = match source.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "; run as root, or allow unprivileged user namespaces (sysctl user.max_user_namespaces, \
                 kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
            }
            _ => "",
        };
        NetnsError { what: what.into(), source, remedy }
    }
}
