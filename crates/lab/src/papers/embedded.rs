//! The papers' data of `crates/lab/papers`, part of the program.

/// The files of one paper.
pub(super) struct Files {
    /// The folder, which is the paper's name in commands.
    pub key: &'static str,
    /// Title, authors, experiments and their stated parameters.
    pub paper: &'static str,
    /// Its conclusions.
    pub claims: &'static str,
    /// Why figures of ours differ from the printed ones.
    pub departures: &'static str,
    /// Remarks on the checks of its claims.
    pub checks: &'static str,
    /// How its claims came out with other seeds.
    pub seeds: &'static str,
    /// Name and text of each table, in the order of the paper.
    pub tables: &'static [(&'static str, &'static str)],
}

/// The files in the folder `$key`: those that each has, and its tables in the order of the paper.
macro_rules! files {
    ($key:literal: $($table:literal)*) => {
        $crate::papers::embedded::Files {
            key: $key,
            paper: files!(@text $key, "paper.toml"),
            claims: files!(@text $key, "claims.csv"),
            departures: files!(@text $key, "departures.toml"),
            checks: files!(@text $key, "checks.toml"),
            seeds: files!(@text $key, "seeds.csv"),
            tables: &[$(($table, files!(@text $key, $table)),)*],
        }
    };
    (@text $key:literal, $file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/papers/", $key, "/", $file))
    };
}
pub(super) use files;

#[cfg(test)]
mod tests {
    use crate::papers::MODULES;

    #[test]
    fn every_file_of_the_folders_is_here() {
        let papers = concat!(env!("CARGO_MANIFEST_DIR"), "/papers");
        let names = |folder: &str| -> Vec<String> {
            let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        let mut folders: Vec<&str> =
            MODULES.iter().map(|module| module.files.key).chain(["README.md"]).collect();
        folders.sort_unstable();
        assert_eq!(names(papers), folders);
        for files in MODULES.iter().map(|module| &module.files) {
            let mut here: Vec<&str> = files.tables.iter().map(|(name, _)| *name).collect();
            here.extend(["checks.toml", "claims.csv", "departures.toml", "paper.toml", "seeds.csv"]);
            here.sort_unstable();
            assert_eq!(names(&format!("{papers}/{}", files.key)), here, "{}", files.key);
        }
    }
}
