//! The tables of a trace, for people and for programs.

use memory_trace::{Counts, Process, Reader, Row, Tables};
use serde_json::{Value, json};

use crate::system_calls;

/// The most characters shown of a process's command.
const NAME_MAX: usize = 40;

/// The tables as text, for people. Table 1 contains programs of one process, Table 2 programs of
/// several, Table 3 all.
pub(super) fn show(reader: &Reader, tables: &Tables) -> String {
    let mut out = head(reader, tables);
    let (one, several): (Vec<&Row>, Vec<&Row>) =
        tables.programs.iter().partition(|row| row.processes == 1);
    table(&mut out, "Table 1: programs of one process", "program", &one, 1);
    table(&mut out, "Table 2: programs of several processes", "program", &several, 1);
    table(&mut out, "Table 3: the whole workload", "programs", &[&tables.all], 2);
    let processes: Vec<&Row> = tables.processes.iter().collect();
    table(&mut out, "Processes", "process", &processes, 1);
    out += &system_calls::table(&tables.calls);
    out.push_str(
        "\nBlocks are physical. Percentages are of all references; in Table 3 access is without \
         writes, as in the\npaper. Shared blocks are those whose data several processes or \
         threads refer to; of a process, those that\nit shares with any other.\n",
    );
    out
}

fn head(reader: &Reader, tables: &Tables) -> String {
    let header = reader.header();
    let counts = &tables.all.counts;
    let references = counts.references();
    let mut out = format!("recorder    {}\n", header.recorder);
    if !header.command.is_empty() {
        out += &format!("command     {}\n", header.command);
    }
    for (name, value) in &header.notes {
        out += &format!("{name:<11} {value}\n");
    }
    let bytes = reader.bytes();
    let each = bytes as f64 / references.max(1) as f64;
    out + &format!(
        "references  {references}: {} fetches, {} loads, {} stores\n\
         events      {} system calls, {} synchronisations\n\
         size        {bytes} bytes, {each:.3} for each reference\n\
         blocks      of {} bytes\n",
        counts.fetches,
        counts.loads,
        counts.stores,
        counts.system_calls,
        counts.synchronisations,
        tables.block_bytes,
    )
}

/// Appends a table. `form` 2 is that of Table 3, whose accesses do not include writes.
fn table(out: &mut String, title: &str, first: &str, rows: &[&Row], form: u32) {
    if rows.is_empty() {
        return;
    }
    let access = if form == 1 { "data" } else { "access" };
    *out += &format!(
        "\n{title}\n{:>9}  {:>9} {:>7} {:>7} {:>7}  {:>8} {:>8} {:>8}  {first}\n",
        "processes",
        "blocks",
        "code %",
        format!("{access} %"),
        "write %",
        "shared",
        "access %",
        "write %",
    );
    for row in rows {
        let counts = &row.counts;
        let data = counts.loads + if form == 1 { counts.stores } else { 0 };
        let shared = counts.shared_loads + if form == 1 { counts.shared_stores } else { 0 };
        let percent = |part| format!("{:.2}", counts.percent(part));
        *out += &format!(
            "{:>9}  {:>9} {:>7} {:>7} {:>7}  {:>8} {:>8} {:>8}  {}\n",
            row.processes,
            counts.blocks,
            percent(counts.fetches),
            percent(data),
            percent(counts.stores),
            counts.shared_blocks,
            percent(shared),
            percent(counts.shared_stores),
            name(row),
        );
    }
}

fn name(row: &Row) -> String {
    let Some(process) = row.process else { return row.name.clone() };
    let mut command: String = row.name.chars().take(NAME_MAX).collect();
    if command.len() < row.name.len() {
        command.push('…');
    }
    format!("{process} {command}")
}

/// The tables as JSON, for programs.
pub(super) fn json(reader: &Reader, tables: &Tables) -> String {
    let header = reader.header();
    let notes = header.notes.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let processes = reader.processes().iter().zip(&tables.processes);
    let value = json!({
        "recorder": header.recorder,
        "command": header.command,
        "notes": notes.collect::<Vec<Value>>(),
        "bytes": reader.bytes(),
        "whole": reader.damage().is_none(),
        "damage": reader.damage().map(ToString::to_string),
        "block_bytes": tables.block_bytes,
        "processes": processes.map(|(process, row)| process_json(process, row)).collect::<Vec<_>>(),
        "programs": tables.programs.iter().map(group_json).collect::<Vec<_>>(),
        "all": group_json(&tables.all),
        "system_calls": system_calls::list(&tables.calls),
    });
    format!("{value:#}\n")
}

fn process_json(process: &Process, row: &Row) -> Value {
    json!({
        "id": process.id,
        "parent": process.parent,
        "command": process.command,
        "regions": process.regions.len(),
        "symbols": process.symbols.len(),
        "counts": counts(&row.counts),
    })
}

fn group_json(row: &Row) -> Value {
    json!({"name": row.name, "processes": row.processes, "counts": counts(&row.counts)})
}

fn counts(counts: &Counts) -> Value {
    json!({
        "blocks": counts.blocks,
        "references": counts.references(),
        "fetches": counts.fetches,
        "loads": counts.loads,
        "stores": counts.stores,
        "code_percent": counts.percent(counts.fetches),
        "data_percent": counts.percent(counts.loads + counts.stores),
        "write_percent": counts.percent(counts.stores),
        "shared_blocks": counts.shared_blocks,
        "shared_written_blocks": counts.shared_written_blocks,
        "shared_loads": counts.shared_loads,
        "shared_stores": counts.shared_stores,
        "shared_access_percent": counts.percent(counts.shared_loads + counts.shared_stores),
        "shared_write_percent": counts.percent(counts.shared_stores),
        "system_calls": counts.system_calls,
        "synchronisations": counts.synchronisations,
    })
}
