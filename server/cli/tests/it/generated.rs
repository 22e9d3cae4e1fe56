//! Completions and man pages of the three programs, as shells and `man` read them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::tools::{BASH, FISH, MAN, ZSH};
use testkit::{Temporary, built, finished, has, succeeded};

const PROGRAMS: [&str; 3] = ["ropewalk", "ropewalk-lab", "ropewalk-sim"];

/// The script of a program for a shell, in a file.
fn script(folder: &Temporary, program: &str, shell: &str) -> PathBuf {
    let (status, script, error) =
        finished(Command::new(built(program)).args(["completions", shell]));
    assert_eq!((status, error.as_str()), (0, ""), "{program} {shell}");
    let path = folder.path().join(format!("{program}.{shell}"));
    fs::write(&path, script).unwrap();
    path
}

/// The words that Bash offers for the last of `words`, once it has read the scripts.
fn offered_by_bash(scripts: &[&Path], words: &[&str]) -> Vec<String> {
    const COMPLETE: &str = r#"
        for script in $SCRIPTS; do source "$script"; done
        [[ $(complete -p "$1") =~ -F\ ([^ ]+) ]] || exit 1
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        "${BASH_REMATCH[1]}" "$1" "${@: -1}" "${@: -2:1}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let scripts: Vec<String> = scripts.iter().map(|path| path.display().to_string()).collect();
    let mut bash = Command::new("bash");
    bash.args(["--noprofile", "--norc", "-c", COMPLETE, "bash"]).args(words);
    let (is_right, offered, error) = succeeded(bash.env("SCRIPTS", scripts.join(" ")));
    assert!(is_right && error.is_empty(), "{words:?}: {error}");
    offered.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_options() {
    if !has(&BASH) {
        return;
    }
    let folder = Temporary::new();
    let [server, lab, simulator] = PROGRAMS.map(|program| script(&folder, program, "bash"));
    let check = |scripts: &[&PathBuf], words: &[&str], expected: &[&str]| {
        let scripts: Vec<&Path> = scripts.iter().map(|path| path.as_path()).collect();
        let offered = offered_by_bash(&scripts, words);
        for word in expected {
            assert!(offered.iter().any(|it| it == word), "{words:?}: {word}: {offered:?}");
        }
        offered
    };
    check(&[&server], &["ropewalk", "serve", "--li"], &["--listen"]);
    check(&[&server], &["ropewalk", "serve", "--engine", "fi"], &["fibers"]);
    check(&[&lab], &["ropewalk-lab", "load", "--ra"], &["--rate"]);
    check(&[&lab], &["ropewalk-lab", "log", "gen"], &["generate"]);
    check(&[&simulator], &["ropewalk-sim", "simulate", "--proto"], &["--protocol"]);
    check(&[&simulator], &["ropewalk-sim", "trace", "record", "--recorder", "q"], &["qemu"]);
    let all = check(&[&server], &["ropewalk", ""], &["serve", "check", "load", "simulate"]);
    assert!(!all.iter().any(|it| ["worker", "man"].contains(&it.as_str())), "{all:?}");
    // What follows a command of another program is that program's.
    let loaded = [&server, &lab, &simulator];
    check(&loaded, &["ropewalk", "load", "--ra"], &["--rate"]);
    check(&loaded, &["ropewalk", "trace", "in"], &["info"]);
    check(&loaded, &["ropewalk", "lo"], &["load", "log"]);
}

#[test]
fn zsh_reads_the_scripts() {
    if !has(&ZSH) {
        return;
    }
    let folder = Temporary::new();
    for program in PROGRAMS {
        let path = script(&folder, program, "zsh");
        const READ: &str =
            r#"autoload -U compinit; compinit -D -u; source "$1"; print "$_comps[$2]""#;
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-c", READ, "zsh"]).arg(path).arg(program);
        let expected = (0, format!("_{program}\n"), String::new());
        assert_eq!(finished(&mut zsh), expected);
    }
}

#[test]
fn fish_completes_commands_and_options() {
    if !has(&FISH) {
        return;
    }
    let folder = Temporary::new();
    for (program, line, expected) in [
        ("ropewalk", "ropewalk serve --li", "--listen"),
        ("ropewalk", "ropewalk mem", "membench"),
        ("ropewalk-lab", "ropewalk-lab load --req", "--request-rate"),
        ("ropewalk-sim", "ropewalk-sim trace imp", "import"),
    ] {
        let path = script(&folder, program, "fish");
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", "source $argv[1]; complete -C $argv[2]"]);
        let (status, offered, error) =
            finished(fish.arg(path).arg(line).env("HOME", folder.path()));
        assert_eq!((status, error.as_str()), (0, ""), "{line}");
        let mut words = offered.lines().filter_map(|line| line.split('\t').next());
        assert!(words.any(|word| word == expected), "{line}: {offered}");
    }
}

/// The names of the pages of a program, in the order of the alphabet, in a folder that was made.
fn pages(folder: &Path, program: &str) -> Vec<String> {
    let mut man = Command::new(built(program));
    assert_eq!(finished(man.arg("man").arg(folder)), (0, String::new(), String::new()));
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_visible_command_has_a_man_page() {
    let folder = Temporary::new();
    let of = |program: &str| pages(&folder.path().join(program).join("man1"), program);
    let own = ["-check", "-completions", "-ctl", "-doctor", "-engines", "-serve", ""];
    let requests = ["-ctl-change", "-ctl-drain", "-ctl-reload", "-ctl-status", "-ctl-upgrade"];
    let own = own[..2].iter().chain(&requests).chain(&own[2..]);
    let own: Vec<String> = own.map(|command| format!("ropewalk{command}.1")).collect();
    assert_eq!(of("ropewalk"), own);
    let lab = of("ropewalk-lab");
    for page in ["ropewalk-lab.1", "ropewalk-lab-doctor.1", "ropewalk-log-generate.1"] {
        assert!(lab.iter().any(|it| it == page), "{page}: {lab:?}");
    }
    let all = [own, lab, of("ropewalk-sim")].concat();
    let mut names = all.clone();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all.len(), "packages may not have the same file: {all:?}");
}

#[test]
fn man_pages_are_shown_without_a_warning() {
    if !has(&MAN) {
        return;
    }
    let folder = Temporary::new();
    for program in PROGRAMS {
        let folder = folder.path().join(program);
        for page in pages(&folder, program) {
            let mut man = Command::new("man");
            man.args(["--warnings", "--local-file"]).arg(folder.join(&page)).env("MANWIDTH", "80");
            let (status, text, error) = finished(man.env("LC_ALL", "C.UTF-8"));
            assert_eq!((status, error.as_str()), (0, ""), "{page}");
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"] {
                assert!(text.lines().any(|line| line == section), "{page}: {section}: {text}");
            }
        }
    }
}

#[test]
fn a_man_page_has_all_that_the_help_has() {
    let folder = Temporary::new();
    pages(folder.path(), "ropewalk-lab");
    let page = fs::read_to_string(folder.path().join("ropewalk-load.1")).unwrap();
    for part in [
        "\n.TH ROPEWALK-LOAD 1 \"\" \"Ropewalk ",
        "\n.SH OPTIONS\n",
        "\n.SS \"WHAT IS CHECKED\"\n",
        "\n.SH \"EXIT STATUS\"\n",
        "\n.SH EXAMPLES\n",
        "\nropewalk load http://127.0.0.1:8080/ ",
        "\n\\fBropewalk\\-load\\-merge\\fR(1)\n",
    ] {
        assert!(page.contains(part), "{part:?}: {page}");
    }
    // Each option has its description.
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == ".TP" {
            let (option, about) = (lines.next().unwrap(), lines.next().unwrap());
            assert!(!about.is_empty() && !about.starts_with('.'), "{option}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_made_is_one_line() {
    let (status, out, error) = crate::run(&["man", "Cargo.toml/man1"]);
    assert_eq!((status, out.as_str()), (1, ""));
    assert_eq!(error, "ropewalk: Cargo.toml/man1: Not a directory (os error 20)\n");
}
