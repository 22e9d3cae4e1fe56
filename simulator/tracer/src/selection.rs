//! The selection of recorded processes that go into the trace, for recipes that make one: servers
//! have supervisors and helpers that do not belong to a workload.

use crate::image::{End, Image};
use serde::Deserialize;

/// A description of processes to be kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keep {
    /// The beginning of their command.
    pub(crate) command: String,
    /// Only processes that were forked and have not executed another program, or only the others.
    #[serde(default)]
    pub(crate) forked: bool,
    /// The maximum number of processes, those with the most references first.
    pub(crate) at_most: usize,
}

/// For each image whether it is kept: all, if `keep` is empty.
pub(crate) fn kept(images: &[Image], keep: &[Keep]) -> Result<Vec<bool>, String> {
    let mut kept = vec![keep.is_empty(); images.len()];
    for wanted in keep {
        let mut found = Vec::new();
        for (index, image) in images.iter().enumerate() {
            if wanted.means(image) && !kept[index] {
                found.push((image.references()?, index));
            }
        }
        // Sorted by references, most first; equal ones by when they began.
        found.sort_by_key(|(count, index)| (std::cmp::Reverse(*count), *index));
        if found.is_empty() {
            return Err(format!("the recipe keeps {}, which has not run", wanted.command));
        }
        for (_, index) in found.into_iter().take(wanted.at_most) {
            kept[index] = true;
        }
    }
    Ok(kept)
}

impl Keep {
    fn means(&self, image: &Image) -> bool {
        let forked = image.forked && image.end != End::Exec;
        image.command.starts_with(&self.command) && forked == self.forked
    }
}

/// A note about the images that are not kept; none if all are.
pub(crate) fn left_out(images: &[Image], kept: &[bool]) -> Result<Option<String>, String> {
    let mut counts = Vec::new();
    for (image, _) in images.iter().zip(kept).filter(|(_, kept)| !**kept) {
        counts.push(image.references()?);
    }
    let (processes, references) = (counts.len(), counts.iter().sum::<u64>());
    Ok((processes > 0).then(|| {
        format!("{processes} processes with {references} references are left out by the recipe")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::images;
    use testkit::Temporary;

    #[test]
    fn the_busiest_of_those_that_are_meant_are_kept() {
        let folder = Temporary::new();
        let fetches = |count| [17_u8, 0, 1, 0, 0, 0, 0, 0].repeat(count);
        for (stem, parent, count) in
            [("1-0", "-", 9), ("2-0", "1-0", 3), ("3-0", "1-0", 5), ("4-0", "1-0", 4)]
        {
            let pid = &stem[..1];
            let log = format!("process {pid} 1 {parent} {pid}\ncommand httpd -f\nend 0\n");
            folder.file(&format!("{stem}.log"), log);
            folder.file(&format!("{stem}.0"), fetches(count));
        }
        let images = images(folder.path()).expect("they can be read");
        let keep = |forked, at_most| Keep { command: "httpd".into(), forked, at_most };
        let kept = |keep: &[Keep]| kept(&images, keep).expect("there are some");
        assert_eq!(kept(&[]), [true; 4]);
        assert_eq!(kept(&[keep(true, 2)]), [false, false, true, true]);
        assert_eq!(kept(&[keep(false, 7)]), [true, false, false, false]);
        let said = left_out(&images, &[true, false, true, true]).expect("they can be read");
        assert_eq!(said.expect("one"), "1 processes with 3 references are left out by the recipe");
        let none = Keep { command: "nginx".into(), forked: false, at_most: 1 };
        assert!(super::kept(&images, &[none]).is_err());
    }
}
