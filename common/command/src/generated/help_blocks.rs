//! The blocks of a help text, which are separated by blank lines: paragraphs, and lists under a
//! title.

/// A part of a help text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block<'t> {
    /// Lines that may be broken otherwise.
    Paragraph(Vec<&'t str>),
    /// A title, and lines below it that stay as they are.
    List(&'t str, Vec<&'t str>),
}

/// The blocks of a text. A list has a first line that ends with a colon, and further lines, all of
/// them indented.
pub(super) fn blocks(text: &str) -> Vec<Block<'_>> {
    text.split("\n\n").filter(|block| !block.trim().is_empty()).map(block).collect()
}

fn block(text: &str) -> Block<'_> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    match lines.split_first() {
        Some((first, below)) if !below.is_empty() && is_indented(below) => {
            match first.strip_suffix(':') {
                Some(title) => Block::List(title, below.to_vec()),
                None => Block::Paragraph(lines),
            }
        }
        _ => Block::Paragraph(lines),
    }
}

fn is_indented(lines: &[&str]) -> bool {
    lines.iter().all(|line| line.starts_with("  "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_indented_below_its_title() {
        let check = |text, expected: &[Block<'_>]| assert_eq!(blocks(text), expected, "{text:?}");
        check("", &[]);
        check("One\nsentence.\n", &[Block::Paragraph(vec!["One", "sentence."])]);
        let list = || Block::List("Examples", vec!["  a  b", "  c"]);
        check("Examples:\n  a  b\n  c", &[list()]);
        check("Above.\n\n\nExamples:\n  a  b\n  c\n", &[Block::Paragraph(vec!["Above."]), list()]);
        check("Not so:\n  a\nb", &[Block::Paragraph(vec!["Not so:", "  a", "b"])]);
        check("Nor so:", &[Block::Paragraph(vec!["Nor so:"])]);
    }
}
