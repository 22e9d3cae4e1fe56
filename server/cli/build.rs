//! Has the linker lay side by side what a server needs in order to start and to serve, so that
//! pages of the lab and of the simulator are not read, and do not stay resident, beside it.

use std::env;
use std::path::Path;

/// Written by `cargo xtask startup-order`. A name in it that no longer exists does no harm.
const SCRIPT: &str = "startup.ld";

/// Linkers that do not read such a script: without it the program does the same, in more memory.
const WITHOUT_SCRIPTS: [&str; 3] = ["mold", "wild", "gold"];

fn main() {
    println!("cargo::rerun-if-changed={SCRIPT}");
    // Matching thousands of names takes the linker ten seconds, and nobody looks at the memory of a
    // program that is not optimised.
    let is_optimised = env::var("OPT_LEVEL").is_ok_and(|level| level != "0");
    if !is_optimised || is_linked_without_scripts() {
        return;
    }
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the folder");
    let script = Path::new(&manifest).join(SCRIPT);
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
}

/// Whether somebody has chosen such a linker, by flags or in cargo's configuration.
fn is_linked_without_scripts() -> bool {
    let chosen = ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_LINKER"].map(env::var);
    let chosen: Vec<String> = chosen.into_iter().filter_map(Result::ok).collect();
    chosen.iter().any(|words| WITHOUT_SCRIPTS.iter().any(|linker| words.contains(linker)))
}
