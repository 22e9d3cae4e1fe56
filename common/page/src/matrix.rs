//! A matrix of things that were compared with each other, in place of a long list of pairs: each
//! row against each column, with a mark that tells without colours which is better.

use std::fmt::Write as _;

use crate::chart::Table;
use crate::document::{escape, letters};

/// Above this number of columns their heads are numbers, which the names of the rows begin with.
const NAMED_MAX: usize = 6;
/// The number of letters of the longest name above which the heads are numbers, too.
const LETTERS_MAX: usize = 16;

/// A matrix.
#[derive(Debug, Clone, Default)]
pub struct Matrix {
    /// The id of its anchor.
    pub id: String,
    /// The title.
    pub title: String,
    /// What the numbers are.
    pub about: String,
    /// The names of the rows, and in the same order of the columns.
    pub names: Vec<String>,
    /// The cells by row, then column; none: not compared, as each with itself.
    pub cells: Vec<Vec<Option<Cell>>>,
}

/// A row compared with a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The number.
    pub value: String,
    /// Its interval, empty if it has none.
    pub interval: String,
    /// What follows from it.
    pub outcome: Outcome,
    /// The comparison in words.
    pub about: String,
}

/// What follows from a comparison for the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The row is better.
    Better,
    /// The row is worse.
    Worse,
    /// The row seems to be better, on too little to be sure.
    SeemsBetter,
    /// The row seems to be worse, on too little to be sure.
    SeemsWorse,
    /// Neither is better.
    Tie,
    /// It is not decided.
    Open,
}

impl Outcome {
    /// All outcomes, in the order of the key.
    pub const ALL: [Self; 6] =
        [Self::Better, Self::Worse, Self::SeemsBetter, Self::SeemsWorse, Self::Tie, Self::Open];

    /// The mark.
    pub fn sign(self) -> char {
        match self {
            Self::Better => '▲',
            Self::Worse => '▼',
            Self::SeemsBetter => '△',
            Self::SeemsWorse => '▽',
            Self::Tie => '=',
            Self::Open => '?',
        }
    }

    /// What the mark says of the row.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::SeemsBetter => "seems better",
            Self::SeemsWorse => "seems worse",
            Self::Tie => "a tie",
            Self::Open => "not decided",
        }
    }

    /// The outcome for the column.
    #[must_use]
    pub fn reversed(self) -> Self {
        match self {
            Self::Better => Self::Worse,
            Self::Worse => Self::Better,
            Self::SeemsBetter => Self::SeemsWorse,
            Self::SeemsWorse => Self::SeemsBetter,
            other => other,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Better | Self::SeemsBetter => "better",
            Self::Worse | Self::SeemsWorse => "worse",
            Self::Tie => "tie",
            Self::Open => "open",
        }
    }
}

impl Matrix {
    /// The outcomes that occur, each with its meaning.
    pub fn key(&self) -> String {
        let occurs = |outcome: &Outcome| {
            self.cells.iter().flatten().flatten().any(|cell| cell.outcome == *outcome)
        };
        let told = Outcome::ALL.into_iter().filter(occurs);
        let told = told.map(|one| format!("{} {}", one.sign(), one.meaning()));
        format!("Of the row against the column: {}.", told.collect::<Vec<_>>().join(", "))
    }

    /// The matrix as a table of texts.
    pub fn table(&self) -> Table {
        let mut table = Table::new(&[""]);
        table.heads.extend(self.heads());
        for (name, cells) in self.row_names().zip(&self.cells) {
            let cells = cells.iter().map(|cell| match cell {
                None => "·".to_owned(),
                Some(cell) => {
                    let Cell { value, interval, outcome, .. } = cell;
                    format!("{} {value} {interval}", outcome.sign()).trim_end().to_owned()
                }
            });
            table.rows.push([name].into_iter().chain(cells).collect());
        }
        table
    }

    fn is_numbered(&self) -> bool {
        let longest = self.names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        self.names.len() > NAMED_MAX || longest > LETTERS_MAX
    }

    fn heads(&self) -> impl Iterator<Item = String> {
        let is_numbered = self.is_numbered();
        let names = self.names.iter().zip(1..);
        names.map(move |(name, n): (_, u32)| if is_numbered { n.to_string() } else { name.clone() })
    }

    fn row_names(&self) -> impl Iterator<Item = String> {
        let is_numbered = self.is_numbered();
        let names = self.names.iter().zip(1..);
        names.map(move |(name, n): (_, u32)| match is_numbered {
            true => format!("{n} {name}"),
            false => name.clone(),
        })
    }

    /// The table of the page.
    pub(crate) fn html(&self) -> String {
        let caption = escape(&self.title);
        let mut text = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\
             <table class=\"matrix\" style=\"--name:{}ch\"><caption>{caption}</caption><thead><tr>\
             <td></td>",
            letters(self.names.iter()) + 3
        );
        for (head, name) in self.heads().zip(&self.names) {
            let (head, name) = (escape(&head), escape(name));
            // Writing to a string does not fail, neither here nor below.
            let _ = write!(text, "<th scope=\"col\" title=\"{name}\">{head}</th>");
        }
        text.push_str("</tr></thead><tbody>\n");
        for (name, cells) in self.row_names().zip(&self.cells) {
            let _ = write!(text, "<tr><th scope=\"row\">{}</th>", escape(&name));
            cells.iter().for_each(|cell| html_cell(&mut text, cell.as_ref()));
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>");
        text
    }
}

fn html_cell(text: &mut String, cell: Option<&Cell>) {
    let Some(cell) = cell else {
        text.push_str("<td class=\"self\">·</td>");
        return;
    };
    let [value, interval, about] =
        [&cell.value, &cell.interval, &cell.about].map(|part| escape(part));
    let (class, sign) = (cell.outcome.class(), cell.outcome.sign());
    let _ = write!(
        text,
        "<td class=\"{class}\" title=\"{about}\"><span class=\"sign\">{sign}</span> \
         <span class=\"ratio\">{value}</span><small>{interval}</small></td>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(names: &[&str]) -> Matrix {
        let cell = |row: usize, column: usize| {
            (row != column).then(|| Cell {
                value: "1.12".into(),
                interval: "[1.08, 1.16]".into(),
                outcome: if row < column { Outcome::Better } else { Outcome::Better.reversed() },
                about: "<odd>".into(),
            })
        };
        let all = 0..names.len();
        Matrix {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            cells: all.clone().map(|row| all.clone().map(|c| cell(row, c)).collect()).collect(),
            ..Matrix::default()
        }
    }

    #[test]
    fn a_mark_tells_what_a_colour_tells() {
        let table = matrix(&["a", "b"]).table();
        assert_eq!(table.heads, ["", "a", "b"]);
        assert_eq!(table.rows[0], ["a", "·", "▲ 1.12 [1.08, 1.16]"]);
        assert_eq!(table.rows[1], ["b", "▼ 1.12 [1.08, 1.16]", "·"]);
        let key = "Of the row against the column: ▲ better, ▼ worse.";
        assert_eq!(matrix(&["a", "b"]).key(), key);
        let signs: std::collections::BTreeSet<char> =
            Outcome::ALL.into_iter().map(Outcome::sign).collect();
        assert_eq!(signs.len(), Outcome::ALL.len());
        let page = matrix(&["a", "b"]).html();
        assert!(page.contains("title=\"&lt;odd&gt;\"") && !page.contains("<odd>"), "{page}");
    }

    #[test]
    fn long_names_and_many_are_numbered() {
        let heads = |names: &[&str]| matrix(names).table().heads[1..].join(" ");
        assert_eq!(heads(&["nginx", "h2o"]), "nginx h2o");
        assert_eq!(heads(&["nginx", "event-loop-shared-listener"]), "1 2");
        assert_eq!(heads(&["a", "b", "c", "d", "e", "f", "g"]), "1 2 3 4 5 6 7");
        assert_eq!(matrix(&["nginx", "event-loop-shared-listener"]).table().rows[0][0], "1 nginx");
    }
}
