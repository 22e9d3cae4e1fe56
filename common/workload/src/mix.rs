//! How often each file of a SPECweb99 set is requested: directory, class and file are drawn
//! independently.
//!
//! Shares and rank order are those of the benchmark's published file-set and log generators.

use serde::{Deserialize, Serialize};
use statistics::Generator;

use crate::fileset::{CLASSES, FILES_PER_CLASS, File};
use crate::popularity::{Chooser, normalised, zipf};

/// SPECweb99's shares of the classes.
pub const CLASS_SHARES: [f64; CLASSES] = [0.35, 0.50, 0.14, 0.01];
/// The files of a class, the most popular first; Zipf's law with alpha 1 gives the shares.
pub const RANK_ORDER: [usize; FILES_PER_CLASS] = [4, 3, 5, 2, 6, 1, 7, 8, 0];
/// The number of requests of a deck: each holds exactly the classes' shares.
const DECK: usize = 1000;

/// The probabilities of the files of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mix {
    /// The number of directories; directory 0 is the most popular.
    pub directories: u32,
    /// Zipf's exponent over the directories: 1.0 is SPECweb99's, 0 is uniform.
    pub alpha: f64,
    /// Weights of the classes.
    pub classes: [f64; CLASSES],
    /// Whether classes are dealt from shuffled decks of a thousand that hold their exact shares, as
    /// SPECweb99's clients do it, and not drawn independently.
    pub deck: bool,
}

impl Mix {
    /// SPECweb99's mix, with independent draws.
    #[must_use]
    pub const fn spec99(directories: u32) -> Self {
        Self { directories, alpha: 1.0, classes: CLASS_SHARES, deck: false }
    }

    /// The probability of each class.
    #[must_use]
    pub fn class_shares(&self) -> Vec<f64> {
        normalised(&self.classes)
    }

    /// The probability of each directory.
    #[must_use]
    pub fn directory_shares(&self) -> Vec<f64> {
        normalised(&zipf(self.directories as usize, self.alpha))
    }

    /// The probability of each file of a directory: class 0 file 0, class 0 file 1, …
    #[must_use]
    pub fn shares_in_directory(&self) -> Vec<f64> {
        let files = file_shares();
        self.class_shares().iter().flat_map(|class| files.map(|file| class * file)).collect()
    }
}

/// The probability of each file within its class, by file number.
#[must_use]
pub fn file_shares() -> [f64; FILES_PER_CLASS] {
    let by_rank = normalised(&zipf(FILES_PER_CLASS, 1.0));
    let mut shares = [0.0; FILES_PER_CLASS];
    for (file, share) in RANK_ORDER.into_iter().zip(by_rank) {
        shares[file] = share;
    }
    shares
}

/// Draws files of a mix.
#[derive(Clone, Debug)]
pub struct FileChooser {
    directories: Chooser,
    classes: Classes,
    files: Chooser,
}

#[derive(Clone, Debug)]
enum Classes {
    Drawn(Chooser),
    /// A deck, and how many of its cards have been dealt.
    Dealt(Vec<u8>, usize),
}

impl FileChooser {
    /// A chooser for `mix`.
    ///
    /// # Panics
    /// If there are no directories, or if all class weights are 0.
    #[must_use]
    pub fn new(mix: &Mix) -> Self {
        let classes = if mix.deck {
            let deck = deck(&mix.class_shares());
            Classes::Dealt(deck, DECK) // all dealt: shuffled before the first
        } else {
            Classes::Drawn(Chooser::new(&mix.classes))
        };
        let directories = Chooser::new(&mix.directory_shares());
        Self { directories, classes, files: Chooser::new(&file_shares()) }
    }

    /// The next file.
    pub fn draw(&mut self, generator: &mut Generator) -> File {
        let class = match &mut self.classes {
            Classes::Drawn(chooser) => chooser.draw(generator) as u8,
            Classes::Dealt(deck, dealt) => {
                if *dealt == deck.len() {
                    generator.shuffle(deck);
                    *dealt = 0;
                }
                *dealt += 1;
                deck[*dealt - 1]
            }
        };
        let directory = self.directories.draw(generator) as u32;
        File::Spec { directory, class, number: self.files.draw(generator) as u8 }
    }
}

/// A deck with the classes' shares, by the method of largest remainders where they do not divide.
fn deck(shares: &[f64]) -> Vec<u8> {
    let exact: Vec<f64> = shares.iter().map(|share| share * DECK as f64).collect();
    // A share that is whole except for rounding counts as whole.
    let mut cards: Vec<usize> = exact.iter().map(|cards| (cards + 1e-9) as usize).collect();
    let mut by_remainder: Vec<usize> = (0..shares.len()).collect();
    by_remainder.sort_by(|&one, &other| exact[other].fract().total_cmp(&exact[one].fract()));
    for class in by_remainder.into_iter().cycle() {
        if cards.iter().sum::<usize>() >= DECK {
            break;
        }
        cards[class] += 1;
    }
    let cards = cards.into_iter().enumerate();
    cards.flat_map(|(class, count)| std::iter::repeat_n(class as u8, count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::chi_square_test;

    /// Counts per class, per file of a class, and per directory.
    fn counts(mix: &Mix, draws: usize) -> [Vec<u64>; 3] {
        let (mut chooser, mut generator) = (FileChooser::new(mix), Generator::new(2));
        let mut counts = [vec![0; 4], vec![0; 9], vec![0; mix.directories as usize]];
        for _ in 0..draws {
            let File::Spec { directory, class, number } = chooser.draw(&mut generator) else {
                panic!("not of the set");
            };
            counts[0][usize::from(class)] += 1;
            counts[1][usize::from(number)] += 1;
            counts[2][directory as usize] += 1;
        }
        counts
    }

    fn p_values(drawn: &Mix, claimed: &Mix) -> [f64; 3] {
        let shares = [claimed.class_shares(), file_shares().to_vec(), claimed.directory_shares()];
        let mut counts = counts(drawn, 1_000_000);
        counts[2].resize(claimed.directories as usize, 0);
        [0, 1, 2].map(|i| chi_square_test(&counts[i], &shares[i]).expect("cells").p_value)
    }

    #[test]
    fn the_published_shares_of_files() {
        let shares = file_shares().map(|share| (share * 1e4).round() / 1e4);
        assert_eq!(
            shares,
            [0.0393, 0.0589, 0.0884, 0.1767, 0.3535, 0.1178, 0.0707, 0.0505, 0.0442]
        );
    }

    #[test]
    fn the_published_mean_of_bytes() {
        let shares = Mix::spec99(1).shares_in_directory();
        let bytes = |index: usize| {
            let (class, number) = ((index / 9) as u8, (index % 9) as u8);
            File::Spec { directory: 0, class, number }.bytes() as f64
        };
        let mean: f64 = shares.iter().enumerate().map(|(i, share)| share * bytes(i)).sum();
        assert_eq!(mean.round(), 14_727.0);
    }

    #[test]
    fn draws_fit_the_mix() {
        let mix = Mix::spec99(680);
        for mix in [&mix, &Mix { alpha: 0.7, ..mix.clone() }, &Mix { deck: true, ..mix.clone() }] {
            let p = p_values(mix, mix);
            assert!(p.iter().all(|&p| p > 0.001), "{mix:?}: {p:?}");
        }
    }

    #[test]
    fn a_wrong_mix_is_told_apart() {
        let mix = Mix::spec99(680);
        let classes = [0.35, 0.495, 0.14, 0.015];
        assert!(p_values(&Mix { classes, ..mix.clone() }, &mix)[0] < 0.001);
        assert!(p_values(&Mix { alpha: 0.98, ..mix.clone() }, &mix)[2] < 0.001);
        assert!(p_values(&Mix { directories: 660, ..mix.clone() }, &mix)[2] < 0.001);
    }

    #[test]
    fn a_deck_holds_exact_shares() {
        let mix = Mix { deck: true, ..Mix::spec99(10) };
        assert_eq!(counts(&mix, 3000)[0], [1050, 1500, 420, 30]);
        let thirds = Mix { classes: [1.0, 1.0, 1.0, 0.0], ..mix };
        let counts = &counts(&thirds, 1000)[0];
        assert!(counts[..3].iter().all(|&n| n == 333 || n == 334) && counts[3] == 0, "{counts:?}");
    }

    /// The files of a class are the same within each, and independent of the directory.
    #[test]
    fn the_draws_are_independent() {
        let (mut chooser, mut generator) = (FileChooser::new(&Mix::spec99(5)), Generator::new(8));
        let mut cells = vec![0_u64; 5 * 36];
        for _ in 0..1_000_000 {
            if let File::Spec { directory, class, number } = chooser.draw(&mut generator) {
                let in_directory = usize::from(class) * 9 + usize::from(number);
                cells[directory as usize * 36 + in_directory] += 1;
            }
        }
        let mix = Mix::spec99(5);
        let files = mix.shares_in_directory();
        let shares: Vec<f64> = mix
            .directory_shares()
            .iter()
            .flat_map(|directory| files.iter().map(move |file| directory * file))
            .collect();
        let found = chi_square_test(&cells, &shares).expect("cells");
        assert!(found.p_value > 0.001, "{found:?}");
    }
}
