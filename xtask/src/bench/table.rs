//! Tables of estimates, for people (Markdown).

use statistics::Estimate;

/// The confidence of every interval.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// An estimate with its interval: `5.30 [5.28, 5.35]`.
pub(crate) fn estimate(estimate: Option<Estimate>) -> String {
    let Some(Estimate { median, interval }) = estimate else { return "–".into() };
    let digits = if median < 100.0 { 2 } else { 0 };
    format!("{median:.digits$} [{:.digits$}, {:.digits$}]", interval.low, interval.high)
}

/// A Markdown table whose source is aligned; the first row is its head.
pub(crate) fn markdown(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&widths).map(|(cell, &width)| format!(" {cell:<width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule: String = widths.iter().map(|&width| format!("{}|", "-".repeat(width + 2))).collect();
    let (head, body) = rows.split_at(rows.len().min(1));
    let body: String = body.iter().map(|row| line(row)).collect();
    head.iter().map(|row| format!("{}|{rule}\n", line(row))).collect::<String>() + &body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned() {
        let rows = [vec!["a".to_owned(), "µs".into()], vec!["long".into(), "1".into()]];
        assert_eq!(markdown(&rows), "| a    | µs |\n|------|----|\n| long | 1  |\n");
    }
}
