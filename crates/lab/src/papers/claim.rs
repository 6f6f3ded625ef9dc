//! What the papers conclude, one checkable statement each.

use super::table::{Table, TableError};

/// A conclusion of a paper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Such as `tv-09`.
    pub id: String,
    /// What the paper says.
    pub claim: String,
    /// Section or table of the paper; "derived" where the paper does not say it itself.
    pub place: String,
    /// How it is tested, and whether the paper's own figures pass.
    pub check: String,
    /// Whether a re-run must confirm it: the paper's own figures do not contradict it.
    pub required: bool,
    /// Whether it is our own claim, about something that the paper does not have: its id begins with `ours-`.
    pub own: bool,
}

/// Marks a claim that the paper's own tables contradict.
const CONTRADICTED: &str = "paper: does not hold";

impl Claim {
    /// All claims of a paper, from the text of its `claims.csv`.
    pub fn parse_all(file: &str, text: &str) -> Result<Vec<Claim>, TableError> {
        let table = Table::parse(file, text)?;
        let column = |name: &str| {
            let found = table.columns.join(",");
            table.column(name).ok_or(TableError::Header { file: file.into(), found })
        };
        let (id, claim, place, check) = (column("id")?, column("claim")?, column("where")?, column("check")?);
        let claims = table.rows.iter().map(|row| Claim {
            id: row[id].clone(),
            claim: row[claim].clone(),
            place: row[place].clone(),
            check: row[check].clone(),
            required: !row[check].contains(CONTRADICTED),
            own: row[id].starts_with("ours-"),
        });
        Ok(claims.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_paper_contradicts_is_not_required() {
        let text = "# Claims\nid,claim,where,check\n\
                    a-1,\"Fast, and good\",table 1,\"a < b; paper: holds (x; does not matter)\"\n\
                    a-2,Faster,section 2,a < b; paper: does not hold (table 3)\n\
                    a-3,Best,section 3,paper: no figures to check\n";
        let claims = Claim::parse_all("claims.csv", text).unwrap();
        let required: Vec<bool> = claims.iter().map(|claim| claim.required).collect();
        assert_eq!(required, [true, false, true]);
        assert_eq!((claims[0].claim.as_str(), claims[1].place.as_str()), ("Fast, and good", "section 2"));
        let error = Claim::parse_all("claims.csv", "# Claims\nid,claim,where\n").unwrap_err();
        assert!(error.to_string().contains("id,claim,where"), "{error}");
    }
}
