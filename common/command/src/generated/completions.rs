//! Scripts for shells, from `clap_complete`.

use clap::Command;
use clap_complete::{generate, shells};

use super::Shell;
use crate::programs::{OTHERS, Program, SERVER};

/// The script by which a shell completes the command line of a program.
pub(super) fn script(shell: Shell, command: &Command, program: &Program) -> String {
    let mut command = offered(command, program);
    let mut script = Vec::new();
    match shell {
        Shell::Bash => return bash(&mut command, program),
        Shell::Zsh => generate(shells::Zsh, &mut command, program.name, &mut script),
        Shell::Fish => generate(shells::Fish, &mut command, program.name, &mut script),
    }
    text(script)
}

/// What a shell shall offer: `command` without what is hidden, which the generators would show; for
/// the server with the names of the commands that it passes on.
fn offered(command: &Command, program: &Program) -> Command {
    let own = command.get_subcommands().filter(|own| !own.is_hide_set()).cloned();
    let offered = Command::new(program.name).version(crate::programs::VERSION).subcommands(own);
    match program.name == SERVER.name {
        true => offered.subcommands(
            OTHERS
                .iter()
                .flat_map(|other| other.commands)
                .map(|(name, about)| Command::new(*name).about(*about)),
        ),
        false => offered,
    }
}

/// The script for Bash. `clap_complete` 4.6 makes a function that finds no command of a program
/// with a hyphen in its name, so the name has another character until it is registered.
fn bash(command: &mut Command, program: &Program) -> String {
    let name = identifier(program);
    let mut script = Vec::new();
    generate(shells::Bash, command, &name, &mut script);
    let script =
        text(script).replace(&format!("default {name}\n"), &format!("default {}\n", program.name));
    if program.name != SERVER.name {
        return script;
    }
    let arms: String = OTHERS.iter().map(|other| arm(other)).collect();
    let registered = script.replace("complete -F _ropewalk ", "complete -F _ropewalk_passed_on ");
    format!("{registered}\n{}", PASSED_ON.replace("ARMS", &arms))
}

/// A case of [`PASSED_ON`].
fn arm(other: &Program) -> String {
    let commands: Vec<&str> = other.commands.iter().map(|(name, _)| *name).collect();
    format!(
        "        {})\n            program={} function=_{} ;;\n",
        commands.join("|"),
        other.name,
        identifier(other)
    )
}

/// A program's name as a shell's functions may have it.
fn identifier(program: &Program) -> String {
    program.name.replace('-', "_")
}

fn text(script: Vec<u8>) -> String {
    String::from_utf8(script).expect("a script is made of texts")
}

/// Completes what follows a command of another program by that program's script, if there is one.
const PASSED_ON: &str = r#"_ropewalk_passed_on() {
    local program function load
    case "${COMP_WORDS[1]}" in
ARMS    esac
    if [[ -n $program && $COMP_CWORD -gt 1 ]]; then
        # bash-completion reads scripts when they are first needed; which function does, depends on
        # its version.
        for load in _comp_load __load_completion; do
            declare -F "$function" >/dev/null && break
            declare -F "$load" >/dev/null && "$load" "$program"
        done
        if declare -F "$function" >/dev/null; then
            COMP_WORDS[0]=$program
            "$function" "$program" "$2" "$3"
            return
        fi
    fi
    _ropewalk "$@"
}
"#;
