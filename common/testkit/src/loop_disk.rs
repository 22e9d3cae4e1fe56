//! A disk for one test: a loop device over a file of zeros.

use std::fs::File;
use std::process::Stdio;

use crate::Temporary;
use crate::stalled_disk::{require, run};
use crate::tools::LOSETUP;

/// A disk for one test: a loop device over a file of zeros. The device is removed when this is
/// dropped.
#[derive(Debug)]
pub struct LoopDisk {
    name: String,
    _scratch: Temporary,
}

impl LoopDisk {
    /// A disk of `len` bytes.
    ///
    /// # Errors
    /// Why this machine or this user cannot have one.
    ///
    /// # Panics
    /// If something fails for another reason than lack of permission.
    pub fn new(len: u64) -> Result<Self, String> {
        require(&[LOSETUP])?;
        let scratch = Temporary::new();
        let image = scratch.path().join("image");
        let made = File::create(&image).and_then(|file| file.set_len(len));
        made.unwrap_or_else(|why| panic!("{}: {why}", image.display()));
        let image = image.to_str().expect("UTF-8");
        let shown = run("losetup", &["-r", "-f", "--show", image], Stdio::null())?;
        let name = shown.trim().strip_prefix("/dev/").expect("a device").to_owned();
        Ok(Self { name, _scratch: scratch })
    }

    /// The kernel's name for the disk: `loop0`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let path = format!("/dev/{}", self.name);
        if let Err(why) = run("losetup", &["-d", &path], Stdio::null()) {
            eprintln!("{why}");
        }
    }
}
