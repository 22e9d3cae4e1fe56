//! The served files, made anew for each run from a fixed seed.

use super::row::{Row, Subject};
use super::scratch::Scratch;
use statistics::Generator;
use std::fs;
use std::path::{Path, PathBuf};

/// The number of files in the row of many files.
const FILES: usize = 20_000;

/// The number of requests drawn before they repeat.
const DRAWS: usize = 2 * FILES;

/// The number of files in one folder.
const FILES_PER_FOLDER: usize = 100;

/// Sizes of the many files are uniform in this range: 4 KiB on average.
const FILE_BYTES_MIN: usize = 1 << 10;
const FILE_BYTES_MAX: usize = 7 << 10;

/// The size of the file that idle connections have requested.
const IDLE_BYTES: usize = 1 << 10;

/// The files, in a folder of their own.
#[derive(Debug)]
pub(crate) struct Corpus(Scratch);

impl Corpus {
    /// Makes the files for `rows`.
    pub(crate) fn create(rows: &[&Row]) -> Result<Self, String> {
        let corpus = Self(Scratch::create()?);
        corpus.fill(rows).map_err(|why| format!("{}: {why}", corpus.0.path().display()))?;
        Ok(corpus)
    }

    /// The folder that servers serve.
    pub(crate) fn root(&self) -> PathBuf {
        self.0.root()
    }

    /// The folder for everything else.
    pub(crate) fn scratch(&self) -> &Scratch {
        &self.0
    }

    /// The requested paths, in the order of their numbers.
    pub(crate) fn paths(subject: Subject) -> Vec<String> {
        match subject {
            Subject::OneFile(bytes) => vec![format!("/{bytes}.html")],
            Subject::Idle => vec![format!("/{IDLE_BYTES}.html")],
            Subject::ManyFiles => (0..FILES).map(many_path).collect(),
        }
    }

    /// The content of a file.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        fs::read(self.root().join(path.trim_start_matches('/'))).map_err(|why| why.to_string())
    }

    /// A wrk script that requests files drawn from the many, the same ones in every window. They
    /// are drawn, not dealt: going through all in turn would empty every cache that is a little too
    /// small.
    pub(crate) fn script(&self) -> Result<PathBuf, String> {
        let mut generator = Generator::new(2);
        let paths: Vec<String> = (0..DRAWS).map(|_| many_path(generator.below(FILES))).collect();
        let list = self.0.write("many.order", paths.join("\n").as_bytes())?;
        let script = format!(
            "local requests, at = {{}}, 0\n\
             function init(args)\n  \
               for path in io.lines({:?}) do\n    \
                 requests[#requests + 1] = wrk.format('GET', path)\n  \
               end\n\
             end\n\
             function request()\n  \
               at = at % #requests + 1\n  \
               return requests[at]\n\
             end\n",
            list.display().to_string()
        );
        self.0.write("many.lua", script.as_bytes())
    }

    fn fill(&self, rows: &[&Row]) -> std::io::Result<()> {
        let root = self.root();
        let mut generator = Generator::new(1);
        for row in rows {
            match row.subject {
                Subject::OneFile(bytes) => write(&root, bytes, &mut generator)?,
                Subject::Idle => write(&root, IDLE_BYTES, &mut generator)?,
                Subject::ManyFiles => write_many(&root, &mut generator)?,
            }
        }
        Ok(())
    }
}

fn write(root: &Path, bytes: usize, generator: &mut Generator) -> std::io::Result<()> {
    fs::write(root.join(format!("{bytes}.html")), text(generator, bytes))
}

fn write_many(root: &Path, generator: &mut Generator) -> std::io::Result<()> {
    for number in 0..FILES {
        let path = root.join(many_path(number).trim_start_matches('/'));
        if let (0, Some(folder)) = (number % FILES_PER_FOLDER, path.parent()) {
            fs::create_dir_all(folder)?;
        }
        let bytes = FILE_BYTES_MIN + generator.below(FILE_BYTES_MAX - FILE_BYTES_MIN + 1);
        fs::write(path, text(generator, bytes))?;
    }
    Ok(())
}

fn many_path(number: usize) -> String {
    format!("/many/{:03}/{number:05}.txt", number / FILES_PER_FOLDER)
}

/// `len` printable bytes. Files must differ, or a server that mixes two up would not be caught.
fn text(generator: &mut Generator, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        let word = generator.next_u64().to_le_bytes();
        bytes.extend(word.map(|byte| b'a' + byte % 26));
    }
    bytes.truncate(len);
    bytes
}
