//! Has the linker lay side by side what a server needs in order to start and to serve, so that
//! pages of the lab and of the simulator are not read, and do not stay resident, beside it.

use std::env;
use std::path::Path;

/// Written by `cargo xtask startup-order`. A name in it that no longer exists does no harm.
const SCRIPT: &str = "startup.ld";

fn main() {
    println!("cargo::rerun-if-changed={SCRIPT}");
    let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the folder");
    let script = Path::new(&manifest).join(SCRIPT);
    println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
}
