//! The library, installed as users have it, and programs compiled against it with what its pkg-config file says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use crate::program::Program;

/// A directory with the installed library, and room for programs. One for all tests of the process.
pub struct Installed {
    directory: PathBuf,
    /// Programs that are there: a second linker would replace one that runs.
    programs: Mutex<BTreeSet<PathBuf>>,
}

/// How to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// As C, against the shared library.
    Shared,
    /// As C, against the static library.
    Static,
    /// As C, with the compiler's checks of memory and undefined behaviour.
    Sanitised,
    /// As C++.
    CPlusPlus,
}

pub fn crate_directory() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has left the libraries: beside this test.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a file");
    test.parent().expect("in a directory").to_path_buf()
}

impl Installed {
    pub fn get() -> &'static Installed {
        static INSTALLED: OnceLock<Installed> = OnceLock::new();
        INSTALLED.get_or_init(|| {
            // Statics are not dropped: what is left is where cargo cleans, and the next run replaces it.
            let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
            if directory.exists() {
                std::fs::remove_dir_all(&directory).expect("a directory of ours");
            }
            std::fs::create_dir_all(&directory).expect("a directory of ours");
            let script = crate_directory().join("../../scripts/install-c-library");
            let mut command = Command::new(script);
            command.arg("--prefix").arg(&directory).arg("--built").arg(built());
            Program::start(&mut command, Duration::from_secs(60)).succeeds();
            // Static linking is asked for by showing the linker nothing else.
            let alone = directory.join("static");
            std::fs::create_dir(&alone).expect("a directory of ours");
            let library = directory.join("lib/libantiphon.a");
            std::os::unix::fs::symlink(library, alone.join("libantiphon.a")).expect("a directory of ours");
            Installed { directory, programs: Mutex::default() }
        })
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// What the pkg-config file says of `key`, its variables filled in. The real pkg-config is asked in
    /// `library::pkg_config_agrees`.
    pub fn pkg_config(&self, key: &str) -> String {
        let file = self.path().join("lib/pkgconfig/antiphon.pc");
        let text = std::fs::read_to_string(file).expect("installed");
        let start = format!("{key}: ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        let mut value = line.unwrap_or_else(|| panic!("no {key} in\n{text}")).to_string();
        for (name, meaning) in text.lines().rev().filter_map(|line| line.split_once('=')) {
            value = value.replace(&format!("${{{name}}}"), meaning);
        }
        value
    }

    /// Compiles a C source of this crate, once; returns the program.
    pub fn compile(&self, source: &str, kind: Kind) -> PathBuf {
        let stem = Path::new(source).file_stem().expect("a file").to_string_lossy().into_owned();
        let program = self.path().join(format!("{stem}-{kind:?}"));
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        if programs.contains(&program) {
            return program;
        }
        let error = Command::new("cc").arg("--version").output().err();
        assert!(
            error.is_none(),
            "there is no C compiler 'cc': install gcc, which building Rust programs needs too"
        );
        let mut command = Command::new(if kind == Kind::CPlusPlus { "c++" } else { "cc" });
        // The standard's own dialect, and every warning an error: a header must stand what its users' projects ask.
        if kind == Kind::CPlusPlus {
            command.args(["-x", "c++", "-std=c++11"]);
        } else {
            command.args(["-std=c99"]);
        }
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic-errors", "-O1", "-g"]);
        if kind == Kind::Sanitised {
            command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        }
        command.args(self.pkg_config("Cflags").split_whitespace()).arg(crate_directory().join(source));
        command.args(["-x", "none", "-o"]).arg(&program);
        if kind == Kind::Static {
            command.arg(format!("-L{}", self.path().join("static").display())).arg("-lantiphon");
            command.args(self.pkg_config("Libs.private").split_whitespace());
        } else {
            command.args(self.pkg_config("Libs").split_whitespace());
        }
        command.arg("-lpthread");
        Program::start(&mut command, Duration::from_secs(120)).succeeds();
        programs.insert(program.clone());
        program
    }

    /// A command that runs `program` so that it finds the shared library.
    pub fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.path().join("lib"));
        command
    }

    /// The same under valgrind, which ends it with an error at the first wrong access, and for memory lost at its end.
    pub fn run_watched(&self, program: &Path) -> Command {
        let mut command = Command::new("valgrind");
        command.env("LD_LIBRARY_PATH", self.path().join("lib"));
        command.args([
            "--quiet",
            "--error-exitcode=99",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
        ]);
        let safe = concat!("--suppressions=", env!("CARGO_MANIFEST_DIR"), "/tests/c/safe_rust.supp");
        command.arg(safe).arg("--fair-sched=yes").arg(program);
        command
    }
}
