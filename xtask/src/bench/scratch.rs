//! A folder for the temporary files of a benchmark.

use os::guard::Guard;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder that is removed when it is dropped, and when this process is killed.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _guard: Guard,
}

impl Scratch {
    /// A fresh folder for temporary files, with a folder `root` in it that servers serve.
    pub(crate) fn create() -> Result<Self, String> {
        let name = format!("ropewalk-bench-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let guard =
            Guard::new("sleep 2; rm -rf \"$1\"", [&path]).map_err(|why| format!("sh: {why}"))?;
        let scratch = Self { path, _guard: guard };
        let explain = |why| format!("{}: {why}", scratch.path.display());
        fs::create_dir_all(scratch.root()).map_err(explain)?;
        Ok(scratch)
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder that servers serve.
    pub(crate) fn root(&self) -> PathBuf {
        self.path.join("root")
    }

    /// Writes a file that is not served.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, String> {
        let path = self.path.join(name);
        fs::write(&path, content).map_err(|why| format!("{}: {why}", path.display()))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The folder is among the system's temporary files: remains do no harm.
        let _ = fs::remove_dir_all(&self.path);
    }
}
