//! Compares a paper with a run: its machines as one sweep, its figures, its table, and each finding
//! of its text.
//!
//! A paper's contents come from a file; the shipped one describes the paper of Foglia, Giorgi and
//! Prete (2001). The verdicts on its findings are computed from the run. Nothing is simulated here.

mod data;
mod expression;
mod figures;
mod findings;
#[cfg(test)]
mod golden;
mod plan;
mod quantity;
mod tables;
mod verdict;

use coherence::Machine;
use page::chart::Figure;
use page::document::Section;

use super::measured::Runs;
pub(super) use data::Paper;
pub(super) use findings::{Finding, SEEDS_MIN};
pub(super) use plan::Plan;
pub(super) use verdict::Verdict;

const SHIPPED: &str = include_str!("../../../../../experiments/simulations/foglia-2001.toml");

/// Why the names in a paper that has been read cannot be wrong.
const WAS_TRIED: &str = "all of it was tried when it was read";

/// The paper that is shipped with this program.
pub(super) fn shipped() -> Paper {
    read(SHIPPED).expect("a test reads it")
}

/// Reads a paper's file. All names in it must be defined, and all its machines must be possible.
///
/// # Errors
/// One line that says what is wrong and where.
pub(super) fn read(text: &str) -> Result<Paper, String> {
    let paper = Paper::parse(text)?;
    if let Some(condition) = paper.about_if.keys().find(|condition| !condition.contains('=')) {
        return Err(format!("about_if: {condition:?}: write KEY=VALUE"));
    }
    for spec in plan::all(&paper)? {
        let checked = spec.machine(&Machine::default()).check();
        checked.map_err(|why| format!("{}: {why}", spec.describe()))?;
    }
    let nothing = Runs::default();
    figures::all(&paper, &nothing)?;
    tables::paper_table(&paper, &nothing)?;
    tables::stated(&paper, &nothing)?;
    findings::all(&paper, &nothing)?;
    Ok(paper)
}

/// The paper's figures in their order.
pub(super) fn figures(paper: &Paper, runs: &Runs) -> Vec<Figure> {
    figures::all(paper, runs).expect(WAS_TRIED)
}

/// The paper's findings, and what the run says of each.
pub(super) fn findings(paper: &Paper, runs: &Runs) -> Vec<Finding> {
    findings::all(paper, runs).expect(WAS_TRIED)
}

/// The paper's table, and the numbers stated in its text.
pub(super) fn sections(paper: &Paper, runs: &Runs) -> [Option<Section>; 2] {
    [tables::paper_table(paper, runs), tables::stated(paper, runs)]
        .map(|made| made.expect(WAS_TRIED))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A minimal paper with the additional line `line`.
    fn little(line: &str) -> Result<Paper, String> {
        read(&format!("title = \"Little\"\n[machines]\nonly = {{ cpus = 2 }}\n{line}\n"))
    }

    #[test]
    fn the_example_of_the_documentation_is_right() {
        let page = include_str!("../../../../../docs/simulator/simulate.md");
        let (_, form) = page.split_once("### A paper as a file").expect("its section");
        let (_, file) = form.split_once("```toml\n").expect("an example");
        let (file, _) = file.split_once("```").expect("its end");
        let paper = read(file).expect(file);
        assert_eq!((paper.figures.len(), paper.findings.len()), (1, 1));
    }

    #[test]
    fn a_paper_may_say_little() {
        let paper = little("").expect("right");
        let runs = Runs::default();
        assert_eq!(sections(&paper, &runs).map(|section| section.is_some()), [false, false]);
        assert_eq!((figures(&paper, &runs).len(), paper.title.as_str()), (0, "Little"));
    }

    #[test]
    fn the_text_goes_before_the_table() {
        let paper = shipped();
        let says = |machine, what: &str| {
            let of = what.to_owned().try_into().expect(what);
            paper.stated_value(&paper.machine(machine).expect(machine), &of)
        };
        assert_eq!(says("first", "gsp"), Some(3.3));
        assert_eq!(says("wide", "bus"), Some(43.0));
        assert_eq!(says("best", "bus"), Some(55.0));
        assert_eq!(says("smallest", "bus"), None);
    }

    #[test]
    fn tests_are_read_under_their_former_name_with_a_notice() {
        let finding = "[[findings]]\nclaim = \"C\"\nplace = \"p\"\ntold = \"\"\n";
        let told = |key: &str| {
            let paper = little(&format!("{finding}{key} = [\"gsp(only) > 1\"]")).expect(key);
            assert_eq!(paper.findings[0].confirmed_if, ["gsp(only) > 1"]);
            paper.notices
        };
        assert_eq!(told("confirmed_if"), [""; 0]);
        let notice = "`shown_if` is called `confirmed_if` now; the old name is read until 0.2";
        assert_eq!(told("shown_if"), [notice]);
        assert!(
            include_str!("../../../../../docs/internals/renames.md")
                .contains("| `shown_if` | `confirmed_if` |")
        );
    }

    #[test]
    fn mistakes_in_a_file_are_reported_in_one_line() {
        for (line, expected) in [
            ("other = { cpus = 0 }", "0 CPUs, 2M/2, 128 bytes, random, MESI: cpus = 0"),
            ("other = { base = \"one\" }", "machine \"other\": no machine \"one\"; there is only"),
            ("other = { base = \"other\" }", "machine \"other\": its bases never end"),
            ("other = { cache = \"2G\" }", "machine \"other\": cache = \"2G\": 2G: write 128K"),
            ("other = { ram = 4 }", "machine \"other\": ram = 4: give base, cpus, cache"),
            ("other = { protocol = \"moesi\" }", "protocol = \"moesi\": no such protocol"),
            ("[chains.a]\nbase = \"first\"\nalong = { cpus = [1] }", "chain \"a\": no machine"),
            ("[chains.a]\nbase = \"only\"\nalong = { }", "chain \"a\": along: give one key"),
            (
                "[chains.a]\nbase = \"only\"\nalong = { cpus = [1, 2] }\nnames = [\"one\"]",
                "chain \"a\": names: there are 1; give 2, or none",
            ),
            (
                "[table]\nid = \"t\"\ntitle = \"T\"\nrows = [{ machine = \"x\", gsp = 1, bus = 2, \
                 scales_to = 3, gsp_there = 4 }]",
                "no machine \"x\"",
            ),
            (
                "[[stated]]\nplace = \"p\"\nmachine = \"x\"\nwhat = \"gsp\"\nvalue = 1",
                "no machine \"x\"",
            ),
            (
                "[[stated]]\nplace = \"p\"\nmachine = \"x\"\nwhat = \"power\"\nvalue = 1",
                "line 7: no quantity \"power\"",
            ),
            (
                "[[figures]]\nid = \"f\"\ntitle = \"F\"\nabout = \"\"\nx = \"x\"\ny = \"y\"",
                "figure \"f\": give of, or a chain and parts",
            ),
            (
                "[[findings]]\nclaim = \"C\"\nplace = \"p\"\ntold = \"\"\nconfirmed_if = []",
                "finding \"C\": confirmed_if: say what confirms it",
            ),
            (
                "[[findings]]\nclaim = \"C\"\nplace = \"p\"\ntold = \"{x}\"\n\
                 confirmed_if = [\"1 > 2\"]",
                "finding \"C\": no sum \"x\"; there is none",
            ),
            ("[about_if]\n\"cpus\" = \"No.\"", "about_if: \"cpus\": write KEY=VALUE"),
            ("[[figure]]", "line 4: unknown key \"figure\" (did you mean \"figures\"?)"),
        ] {
            let why = little(line).expect_err(line);
            assert!(why.contains(expected) && why.lines().count() == 1, "{line}: {why}");
        }
    }
}
