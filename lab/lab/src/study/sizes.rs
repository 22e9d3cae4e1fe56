//! The sizes of an experiment: `[sizes.NAME]` holds what differs from the file itself, and lists in
//! it replace those above.

use command::near::hint_and_names;
use toml_reader::Mistake;

use super::claims;
use crate::server_spec::ServerSpec;

/// An experiment's table in one of its sizes.
///
/// # Errors
/// When it has no such size.
pub(crate) fn sized(mut table: toml::Table, size: Option<&str>) -> Result<toml::Table, String> {
    let sizes = table.remove("sizes");
    if let Some(size) = size {
        let of_size = sizes.as_ref().and_then(|sizes| sizes.get(size)?.as_table());
        let changes = of_size.ok_or_else(|| unknown(size, sizes.as_ref()))?;
        let has_floor = is_floor_there(&table);
        let before = table.clone();
        merge(&mut table, changes);
        // Sizes of the cache by itself replace no names.
        if !changes.contains_key("claims") && !table.contains_key("cache") {
            claims::fit(&mut table, &before);
        }
        // A floor that was never there is a mistake, and stays, to be reported as one.
        if has_floor && !is_floor_there(&table) && !changes.contains_key("floor") {
            table.remove("floor");
        }
    }
    Ok(table)
}

/// The text of an experiment, and the size of it that is read.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'t> {
    pub(crate) text: &'t str,
    pub(crate) size: Option<&'t str>,
}

impl Origin<'_> {
    /// `line 3: `: where a mistake stands, which is in the size if that has the value at all.
    pub(crate) fn line_prefix(&self, mistake: &Mistake) -> String {
        let of_size = self.size.map(|size| ["sizes", size]);
        let places: Vec<&[&str]> = of_size.iter().map(|place| &place[..]).collect();
        mistake.line_prefix(self.text, &places)
    }

    /// The mistake after its line.
    pub(crate) fn explain(&self, mistake: &Mistake) -> String {
        self.line_prefix(mistake) + &mistake.to_string()
    }
}

/// Whether the floor is one of the servers, which a size may replace by others.
fn is_floor_there(table: &toml::Table) -> bool {
    let Some(floor) = table.get("floor").and_then(toml::Value::as_str) else { return false };
    let servers = table.get("servers").and_then(toml::Value::as_array).into_iter().flatten();
    let mut specs = servers.filter_map(|server| server.as_str()?.parse::<ServerSpec>().ok());
    specs.any(|spec| spec.name() == Some(floor))
}

/// Replaces what `changes` name by them, table by table.
fn merge(table: &mut toml::Table, changes: &toml::Table) {
    for (key, change) in changes {
        match (table.get_mut(key), change) {
            // How much is offered is given in one of several ways: another way replaces it whole.
            (Some(toml::Value::Table(below)), toml::Value::Table(change)) if key != "offered" => {
                merge(below, change);
            }
            _ => drop(table.insert(key.clone(), change.clone())),
        }
    }
}

fn unknown(size: &str, sizes: Option<&toml::Value>) -> String {
    let Some(sizes) = sizes.and_then(toml::Value::as_table).filter(|sizes| !sizes.is_empty())
    else {
        return format!("no size {size}; it has none");
    };
    let (near, names) = hint_and_names(size, sizes.keys().map(String::as_str));
    format!("no size {size}{near}; it has {names}")
}
