//! What the source of a study of the cache found, as data: stores, with which other one they are
//! compared, and how many times as long they take. What was measured judges it in the report.

use serde::Deserialize;

use super::cell::{Part, Store};
use crate::study::check_bounds;

/// A finding of the source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The finding in words.
    pub text: String,
    /// The part of the study in which they are compared.
    pub part: Part,
    /// The stores of which it is.
    pub stores: Vec<Store>,
    /// The store with which each of them is compared, under the same conditions.
    pub than: Store,
    /// What is compared.
    pub measure: ClaimMeasure,
    /// The least ratio.
    pub at_least: Option<f64>,
    /// The largest ratio.
    pub at_most: Option<f64>,
}

/// A time that a claim compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimMeasure {
    /// The processor time of a request.
    Cpu,
    /// The median of a get.
    Get,
    /// The median of a set.
    Set,
    /// The median of a set that evicts.
    Eviction,
}

impl Claim {
    pub(super) fn check(&self) -> Result<(), String> {
        let stores = self.part.stores();
        if let Some(store) = self.stores.iter().chain([&self.than]).find(|it| !stores.contains(it))
        {
            return Err(format!("{store} is no store of the part {}", self.part.title()));
        }
        match (self.at_least, self.at_most) {
            _ if self.stores.is_empty() => Err("stores: name at least one".into()),
            _ if self.stores.contains(&self.than) => {
                Err(format!("than: {} would be compared with itself", self.than))
            }
            (None, None) => Err("say at_least or at_most".into()),
            (least, most) => check_bounds(least, most),
        }
    }
}
