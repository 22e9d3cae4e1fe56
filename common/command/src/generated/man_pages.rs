//! Man pages: the options from `clap_mangen`, all else from the texts of the help.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::help_blocks::{Block, blocks};
use crate::programs::{OTHERS, Program, SERVER, VERSION};

/// The page of a program, or of one of its commands.
pub(super) struct Page {
    /// Its name without the section: `ropewalk-log-generate`.
    pub(super) name: String,
    /// The page in roff.
    pub(super) text: String,
}

/// Sections that stand at the end of every page, in this order; others stand before them.
const LAST_SECTIONS: [&str; 3] = ["Exit status", "Files", "Examples"];

/// The pages of a program: its own first, then those of its visible commands.
pub(super) fn pages(command: Command, program: &Program) -> Vec<Page> {
    let mut command = with_rare_options(command).disable_help_subcommand(true);
    command.build();
    let related = match program.name == SERVER.name {
        true => OTHERS.iter().map(|other| other.name.to_owned()).collect(),
        false => vec![SERVER.name.to_owned()],
    };
    let mut pages = Vec::new();
    add_pages(&command, program.name, related, program, &mut pages);
    pages
}

/// `clap_mangen` leaves the description of an option out that the short help hides.
fn with_rare_options(command: Command) -> Command {
    let command = command.mut_args(|option| option.hide_short_help(false));
    command.mut_subcommands(with_rare_options)
}

/// Adds the page of a command and, after it, those of the commands below.
fn add_pages(
    command: &Command,
    name: &str,
    mut related: Vec<String>,
    program: &Program,
    pages: &mut Vec<Page>,
) {
    let visible = command.get_subcommands().filter(|below| !below.is_hide_set());
    let below: Vec<(String, &Command)> =
        visible.map(|below| (name_below(name, below, program), below)).collect();
    related.extend(below.iter().map(|(name, _)| name.clone()));
    pages.push(Page { name: name.to_owned(), text: page(command, name, &below, &related) });
    for (own, command) in &below {
        add_pages(command, own, vec![name.to_owned()], program, pages);
    }
}

/// The name of the page of a command: the words that are typed, joined by hyphens. Commands that
/// the server passes on are typed after its name.
fn name_below(above: &str, command: &Command, program: &Program) -> String {
    let name = command.get_name();
    let is_passed_on =
        above == program.name && program.commands.iter().any(|(passed_on, _)| *passed_on == name);
    format!("{}-{name}", if is_passed_on { SERVER.name } else { above })
}

fn page(command: &Command, name: &str, below: &[(String, &Command)], related: &[String]) -> String {
    let help = command.get_after_long_help().or_else(|| command.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (mut lists, mut paragraphs) = (Vec::new(), Vec::new());
    for block in blocks(&help) {
        match block {
            Block::List(title, lines) => lists.push((title, lines)),
            Block::Paragraph(lines) => paragraphs.push(lines.join("\n")),
        }
    }
    lists.sort_by_key(|(title, _)| LAST_SECTIONS.iter().position(|last| last == title));
    let head = head(command, name, &paragraphs);
    let mut tail = Roff::new();
    add_commands(&mut tail, below);
    lists.iter().for_each(|(title, lines)| add_list(&mut tail, title, lines));
    add_related(&mut tail, related);
    head.render() + &options(command) + &tail.render()
}

/// The sections NAME, SYNOPSIS and DESCRIPTION.
fn head(command: &Command, name: &str, paragraphs: &[String]) -> Roff {
    let mut page = Roff::new();
    let source = format!("Ropewalk {VERSION}");
    // There is no date: equal sources make equal pages.
    page.control("TH", [&name.to_uppercase(), "1", "\"\"", &source, "Ropewalk"]);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let about = about.trim_end_matches('.');
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["SYNOPSIS"]).control("nf", []);
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    usage.lines().for_each(|line| {
        page.text([bold(line.trim())]);
    });
    page.control("fi", []).control("SH", ["DESCRIPTION"]);
    let described = command.get_long_about().or_else(|| command.get_about());
    let described = described.map(ToString::to_string).unwrap_or_default();
    let paragraphs = described.split("\n\n").chain(paragraphs.iter().map(String::as_str));
    for paragraph in paragraphs {
        page.control("PP", []).text([roman(paragraph)]);
    }
    page
}

/// The section OPTIONS, with the options under a heading of the help in a part of it.
fn options(command: &Command) -> String {
    let mut options = Vec::new();
    Man::new(command.clone())
        .render_options_section(&mut options)
        .expect("memory can be written to");
    let options = String::from_utf8(options).expect("a page is made of texts");
    let start = options.find("\n.SH ").map_or(0, |at| at + 1);
    let (before, section) = options.split_at(start);
    format!("{before}{}", section.replace("\n.SH ", "\n.SS "))
}

fn add_commands(page: &mut Roff, below: &[(String, &Command)]) {
    if below.is_empty() {
        return;
    }
    page.control("SH", ["COMMANDS"]);
    for (name, command) in below {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        page.control("TP", []).text(reference(name)).text([roman(about)]);
    }
}

fn add_list(page: &mut Roff, title: &str, lines: &[&str]) {
    page.control("SH", [&*title.to_uppercase()]).control("nf", []);
    for line in lines {
        page.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    page.control("fi", []);
}

fn add_related(page: &mut Roff, related: &[String]) {
    page.control("SH", ["SEE ALSO"]);
    for (name, left) in related.iter().zip((0..related.len()).rev()) {
        let mut line = reference(name);
        line.extend((left > 0).then(|| roman(",")));
        page.text(line);
    }
}

/// The name of another page, as man pages refer to it.
fn reference(name: &str) -> Vec<Inline> {
    vec![bold(name), roman("(1)")]
}
