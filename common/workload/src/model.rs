//! Models of the sessions of a generated log, and those of the literature by name.

use std::fmt;

use crate::distribution::Distribution;
use crate::mix::Mix;
use crate::session_length::Lengths;

/// The default ceiling of the number of embedded objects of a page.
pub const EMBEDDED_MAX: f64 = 1000.0;

/// A model of clients' behaviour. Lengths of sessions, pages, pauses and files are all independent.
#[derive(Clone, Debug)]
pub struct Model {
    /// The requested files.
    pub files: Files,
    /// The prefix of the files' paths: where the set is mounted. Empty or `/some/path`.
    pub prefix: String,
    /// Requests per session.
    pub lengths: Lengths,
    /// Seconds between a page and the next: the time to read it. Without `pages` every request is a
    /// page.
    pub think: Distribution,
    /// Pages with embedded objects; `None` if every page is one file.
    pub pages: Option<Pages>,
}

/// The requested files.
#[derive(Clone, Debug, PartialEq)]
pub enum Files {
    /// The files of a SPECweb99 set.
    Spec(Mix),
    /// One file of this length in bytes.
    Single(u64),
}

/// A page: one file, a pause while the browser reads it, its embedded objects in one burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// The number of embedded objects, rounded down to whole numbers. Has a ceiling.
    pub embedded: Distribution,
    /// Seconds between the file and its embedded objects.
    pub active_think: Distribution,
}

impl Pages {
    /// Pages with [`EMBEDDED_MAX`] as the ceiling of the objects, unless they have a lower one.
    #[must_use]
    pub fn new(embedded: Distribution, active_think: Distribution) -> Self {
        Self { embedded: embedded.at_most(EMBEDDED_MAX), active_think }
    }
}

/// A model with a name and its source.
#[derive(Clone, Copy, Debug)]
pub struct ModelPreset {
    /// The name as it is typed.
    pub name: &'static str,
    /// A description on one line.
    pub about: &'static str,
    directories: u32,
    lengths: &'static str,
    think: Distribution,
    pages: Option<Pages>,
}

/// Seconds between pages in Pariag's and Genevès' experiments: the mean of [`SURGE_INACTIVE`].
const INACTIVE: Distribution = Distribution::constant(3.0);
/// Seconds before the embedded objects in the same: about the mean of [`SURGE_ACTIVE`].
const ACTIVE: Distribution = Distribution::constant(0.343);
/// SURGE (Barford and Crovella 1998): the inactive off-time.
const SURGE_INACTIVE: Distribution = Distribution::pareto(1.0, 1.5);
/// SURGE: the active off-time.
const SURGE_ACTIVE: Distribution = Distribution::weibull(1.46, 0.382);
/// SURGE: embedded references of a page. In sessions of six no page has room for more than five.
const SURGE_EMBEDDED: Distribution = Distribution::pareto(1.0, 2.43);
const NO_THINK: Distribution = Distribution::constant(0.0);

/// SURGE pages with constant pauses, as far as the papers describe them.
const PAPERS_PAGES: Pages = Pages { embedded: SURGE_EMBEDDED.at_most(5.0), active_think: ACTIVE };

/// All presets.
pub static MODEL_PRESETS: &[ModelPreset] = &[
    ModelPreset {
        name: "radhakrishnan",
        about: "942 directories, sessions of at most 6, pauses of 3.0 and 0.343 s",
        directories: 942,
        lengths: "surge-6",
        think: INACTIVE,
        pages: Some(PAPERS_PAGES),
    },
    ModelPreset {
        name: "geneves",
        about: "680 directories, else the same",
        directories: 680,
        lengths: "surge-6",
        think: INACTIVE,
        pages: Some(PAPERS_PAGES),
    },
    ModelPreset {
        name: "spec99",
        about: "680 directories, SPECweb99's sessions (mean 2.7), no pauses",
        directories: 680,
        lengths: "spec99",
        think: NO_THINK,
        pages: None,
    },
    ModelPreset {
        name: "brecht",
        about: "680 directories, sessions of 1 or of 5 to 15 (mean 7.3), no pauses",
        directories: 680,
        lengths: "brecht-15",
        think: NO_THINK,
        pages: None,
    },
    ModelPreset {
        name: "surge",
        about: "680 directories, SURGE's pages and its pauses with their heavy tail",
        directories: 680,
        lengths: "geometric:0.2",
        think: SURGE_INACTIVE.at_most(600.0),
        pages: Some(Pages { embedded: SURGE_EMBEDDED.at_most(100.0), active_think: SURGE_ACTIVE }),
    },
];

impl ModelPreset {
    /// The preset with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        MODEL_PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> Model {
        Model {
            files: Files::Spec(Mix::spec99(self.directories)),
            prefix: String::new(),
            lengths: self.lengths.parse().expect("every row of the table: a test reads them all"),
            think: self.think,
            pages: self.pages,
        }
    }
}

/// The arguments of `ropewalk log generate` for this model.
impl fmt::Display for Model {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.files {
            Files::Spec(mix) => {
                write!(out, "--directories {} --alpha {}", mix.directories, mix.alpha)?;
                let [a, b, c, d] = mix.classes;
                write!(out, " --classes {a},{b},{c},{d}")?;
                out.write_str(if mix.deck { " --deck" } else { "" })?;
            }
            Files::Single(bytes) => write!(out, "--single {bytes}")?,
        }
        write!(out, " --lengths {} --think {}", self.lengths, self.think)?;
        match &self.pages {
            Some(Pages { embedded, active_think }) => {
                write!(out, " --pages {embedded} --active-think {active_think}")?;
            }
            None => out.write_str(" --pages none")?,
        }
        if self.prefix.is_empty() { Ok(()) } else { write!(out, " --prefix {}", self.prefix) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_model() {
        for preset in MODEL_PRESETS {
            let found = ModelPreset::find(preset.name).expect("itself");
            let model = found.model();
            assert!(matches!(model.files, Files::Spec(mix) if mix.directories == 680
                || mix.directories == 942 && preset.name == "radhakrishnan"));
            assert!(model.pages.is_none_or(|pages| pages.embedded.ceiling().is_finite()));
        }
        assert!(ModelPreset::find("nothing").is_none());
    }

    #[test]
    fn a_model_is_printed_as_it_is_typed() {
        let model = ModelPreset::find("radhakrishnan").expect("a preset").model();
        assert_eq!(
            model.to_string(),
            "--directories 942 --alpha 1 --classes 0.35,0.5,0.14,0.01 --lengths surge-6 \
             --think constant:3 --pages pareto:1,2.43,max=5 --active-think constant:0.343"
        );
        let single = Model { files: Files::Single(51_200), pages: None, ..model };
        assert_eq!(
            Model { prefix: "/x".into(), ..single }.to_string(),
            "--single 51200 --lengths surge-6 --think constant:3 --pages none --prefix /x"
        );
    }
}
