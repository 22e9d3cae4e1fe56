//! Values of a machine, as they are typed: `kernel.code_skew=1.6` sets a value as a machine file
//! would, `kernel.code_skew=1,1.6,2` makes three machines. The crate `coherence` defines the keys.

use std::str::FromStr;

use coherence::protocol::PROTOCOLS;
use coherence::{Machine, MachineError};
use command::near::did_you_mean;
use toml::{Table, Value};

/// A key with the tables that contain it, and its one or more values.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    keys: Vec<String>,
    choices: Vec<Choice>,
}

/// A value, and `KEY=VALUE` as it would be typed alone.
#[derive(Debug, Clone, PartialEq)]
struct Choice {
    typed: String,
    value: Value,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("{text}: write KEY=VALUE, as in kernel.code_skew=1.6, or KEY=VALUE,VALUE");
        let (key, values) = text.split_once('=').ok_or_else(wrong)?;
        let keys: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
        let values = parts(values);
        if keys.iter().chain(&values).any(String::is_empty) {
            return Err(wrong());
        }
        let choices: Vec<Choice> = values.iter().map(|value| Choice::new(key, value)).collect();
        for (at, one) in choices.iter().enumerate() {
            if choices[..at].iter().any(|other| other.value == one.value) {
                return Err(format!("{text}: {} is there twice", values[at]));
            }
        }
        Ok(Self { keys, choices })
    }
}

impl Choice {
    fn new(key: &str, text: &str) -> Self {
        // A value that is neither a number nor a truth value is a name, with or without quotes.
        let parsed = Value::from_str(text).ok();
        let value = parsed.unwrap_or_else(|| Value::String(text.to_owned()));
        Self { typed: format!("{}={text}", key.trim()), value }
    }
}

/// Splits a text at commas, but not at commas in quotes or in the brackets of an array.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut quote, mut depth) = (vec![String::new()], None, 0_u32);
    for one in text.chars() {
        match (quote, one) {
            (Some(open), _) if one == open => quote = None,
            (None, '"' | '\'') => quote = Some(one),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("it begins with one").push(one);
    }
    parts.iter().map(|part| part.trim().to_owned()).collect()
}

impl Setting {
    /// The key as it is typed: `bus.write_cycles`.
    pub(super) fn key(&self) -> String {
        self.keys.join(".")
    }

    /// The number of machines that result from one base.
    pub(super) fn count(&self) -> usize {
        self.choices.len()
    }
}

/// Checks the machines that the lists make from a base.
type Check<'c> = &'c dyn Fn(&Machine) -> Result<(), MachineError>;

/// Builds a machine for every combination of values, of which the last setting varies fastest, or
/// returns one line that says why a combination is invalid. A machine has to be valid only when all
/// of its values are set, including the values of the lists, which `check` sets.
pub(super) fn machines(
    base: &Machine,
    settings: &[Setting],
    check: Check<'_>,
) -> Result<Vec<Machine>, String> {
    if settings.is_empty() {
        return Ok(vec![base.clone()]);
    }
    let whole = base.to_toml().parse::<Table>().expect("a machine's own file is TOML");
    let mut combinations: Vec<Vec<(&Setting, &Choice)>> = vec![Vec::new()];
    for setting in settings {
        let with = |before: &Vec<_>| {
            let before = before.clone();
            let each = move |choice| before.iter().copied().chain([(setting, choice)]).collect();
            setting.choices.iter().map(each).collect::<Vec<_>>()
        };
        combinations = combinations.iter().flat_map(with).collect();
    }
    combinations.iter().map(|all| machine(&whole, all, check)).collect()
}

fn machine(
    whole: &Table,
    settings: &[(&Setting, &Choice)],
    check: Check<'_>,
) -> Result<Machine, String> {
    let mut changed = whole.clone();
    for (setting, choice) in settings {
        set_value(&mut changed, &setting.keys, &choice.value)
            .map_err(|why| format!("--set {}: {why}", choice.typed))?;
        forget_basis(&mut changed, &setting.keys);
    }
    read(&changed, check).map_err(|why| {
        // If one setting alone gives the same error, the message names that one.
        let culprit = |(setting, choice): &&(&Setting, &Choice)| {
            let mut changed = whole.clone();
            let put = set_value(&mut changed, &setting.keys, &choice.value);
            put.is_ok() && read(&changed, check).as_ref() == Err(&why)
        };
        let typed = |(_, choice): &(&Setting, &Choice)| format!("--set {}", choice.typed);
        let named = settings.iter().find(culprit).map(typed);
        let all = || settings.iter().map(typed).collect::<Vec<_>>().join(" ");
        format!("{}: {why}{}", named.unwrap_or_else(all), near_protocol(&why))
    })
}

/// A hint at the protocol that may have been meant by one that does not exist.
fn near_protocol(why: &MachineError) -> String {
    match why {
        MachineError::Value { key, value, .. } if key == "protocol" => {
            did_you_mean(value.trim_matches('"'), PROTOCOLS.map(|protocol| protocol.name))
        }
        _ => String::new(),
    }
}

/// Removes the origin of a file's value, which does not apply to the value typed in its place.
fn forget_basis(whole: &mut Table, keys: &[String]) {
    let [table, key] = keys else { return };
    let said = whole.get_mut("basis").and_then(|all| all.get_mut(table));
    if let Some(said) = said.and_then(Value::as_table_mut) {
        said.remove(key);
    }
}

fn set_value(whole: &mut Table, keys: &[String], value: &Value) -> Result<(), String> {
    let (last, tables) = keys.split_last().expect("a text has a first part");
    let optional = tables.first().is_some_and(|t| Machine::OPTIONAL_TABLES.contains(&&**t));
    let mut table = whole;
    for key in tables {
        if optional && !table.contains_key(key) {
            table.insert(key.clone(), Value::Table(Table::new()));
        }
        if !table.get(key).is_some_and(Value::is_table) {
            let tables = table.iter().filter(|(_, value)| value.is_table()).map(|(name, _)| name);
            let near = did_you_mean(key, tables.map(String::as_str));
            return Err(format!("a machine has no such table{near}; see --print-machine"));
        }
        table = table.get_mut(key).and_then(Value::as_table_mut).expect("it is a table");
    }
    if optional && !table.contains_key(last) {
        // Whether the key exists is checked when the whole table is set.
        table.insert(last.clone(), value.clone());
        return Ok(());
    }
    if table.get(last).is_none_or(Value::is_table) {
        let values = table.iter().filter(|(_, value)| !value.is_table()).map(|(name, _)| name);
        let near = did_you_mean(last, values.map(String::as_str));
        return Err(format!("a machine has no such value{near}; see --print-machine"));
    }
    let place = table.get_mut(last).expect("it is a value");
    *place = match (&*place, value) {
        // A whole number may be typed where a decimal number is expected.
        (Value::Float(_), Value::Integer(whole)) => Value::Float(*whole as f64),
        _ => value.clone(),
    };
    Ok(())
}

/// Reads a machine from the table. The error has no line, because the text belongs to no file of
/// the operator's.
fn read(table: &Table, check: Check<'_>) -> Result<Machine, MachineError> {
    let machine: Machine = toml_reader::read_value(table.clone())
        .map_err(|mistake| MachineError::Text(mistake.to_string()))?;
    check(&machine)?;
    Ok(machine)
}

/// Reads a machine's file.
///
/// # Errors
/// In a line: the text does not describe a machine, or describes an impossible one.
pub(super) fn read_machine(text: &str) -> Result<Machine, String> {
    let machine: Machine = toml_reader::read(text)?;
    machine.check().map_err(|why| format!("{why}{}", near_protocol(&why)))?;
    Ok(machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(texts: &[&str]) -> Result<Vec<Machine>, String> {
        let settings: Result<Vec<Setting>, _> = texts.iter().map(|text| text.parse()).collect();
        machines(&Machine::default(), &settings?, &Machine::check)
    }

    fn set(text: &str) -> Result<Machine, String> {
        let mut machines = all(&[text])?;
        assert_eq!(machines.len(), 1, "{text}");
        Ok(machines.remove(0))
    }

    #[test]
    fn each_kind_of_value_can_be_set() {
        let machine = set("kernel.code_skew=2").expect("a whole number for a number");
        assert_eq!(machine.kernel.code_skew.to_bits(), 2f64.to_bits());
        assert_eq!(set("cpus=3").map(|one| one.cpus), Ok(3));
        assert_eq!(set("kernel.enabled=false").map(|one| one.kernel.enabled), Ok(false));
        let split = set("bus.memory_latency = split").expect("a name without quotes");
        assert_eq!(split.bus.memory_latency, coherence::MemoryLatency::Split);
        assert_eq!(set("bus.memory_latency=\"split\""), Ok(split));
    }

    #[test]
    fn every_combination_is_a_machine_and_the_last_setting_varies_fastest() {
        let typed = ["cpu.write_buffer=4, 8", "placement=random,\"in-order\"", "cpus=2"];
        let machines = all(&typed).expect("all are right");
        let shown: Vec<String> = machines
            .iter()
            .map(|one| format!("{} {:?} {}", one.cpu.write_buffer, one.placement, one.cpus))
            .collect();
        assert_eq!(shown, ["4 Random 2", "4 InOrder 2", "8 Random 2", "8 InOrder 2"]);
        assert_eq!(all(&[]), Ok(vec![Machine::default()]));
    }

    #[test]
    fn every_value_that_a_machine_prints_can_be_listed() {
        let printed = Machine::default().to_toml().parse::<Table>().expect("it is TOML");
        let mut seen = 0;
        for (table, value) in &printed {
            let own = Table::from_iter([(table.clone(), value.clone())]);
            let (before, values) = match value.as_table() {
                Some(inner) => (format!("{table}."), inner),
                None => (String::new(), &own),
            };
            for (key, value) in values {
                // The current value, which is valid, is set in a list of one and then of two.
                let typed = format!("{before}{key}={value}");
                assert_eq!(all(&[&typed]), Ok(vec![Machine::default()]), "{typed}");
                seen += 1;
            }
        }
        assert!(seen > 35, "{seen}");
    }

    #[test]
    fn a_table_that_is_not_there_can_be_set_whole() {
        let typed = ["llc.cpus_per_group=2", "llc.size_kib=3072,6144", "llc.ways=24"];
        let machines = all(&[&typed[..], &["llc.hit_cycles=15"]].concat()).expect("all of it");
        let sizes: Vec<_> = machines.iter().map(|one| one.llc.map(|llc| llc.size_kib)).collect();
        assert_eq!(sizes, [Some(3072), Some(6144)]);
        let why = all(&typed).expect_err("a value is missing");
        assert!(why.contains("the key \"hit_cycles\" is missing"), "{why}");
        let nodes = ["numa.nodes=2,4", "numa.remote_extra_cycles=60"];
        assert_eq!(all(&nodes).map(|machines| machines.len()), Ok(2));
        assert!(
            set("numa.node=2").is_err_and(|why| {
                why.contains("unknown key \"node\" (did you mean \"nodes\"?)")
            })
        );
    }

    #[test]
    fn values_that_are_right_only_together_can_be_set_together() {
        let machine = all(&["cache.ways=3", "cache.size_kib=1536"]).expect("512 KiB a way");
        assert_eq!(machine[0].cache.ways, 3);
        let why = all(&["cache.ways=2,3", "cpu.write_buffer=4"]).expect_err("2048 KiB by 3");
        assert!(why.starts_with("--set cache.ways=3: cache.size_kib = 2048: 3 ways"), "{why}");
        let why = all(&["cache.ways=3", "cache.size_kib=1025"]).expect_err("neither");
        assert!(why.starts_with("--set cache.ways=3 --set cache.size_kib=1025: "), "{why}");
    }

    #[test]
    fn values_are_checked_with_those_of_the_lists() {
        let typed =
            ["llc.cpus_per_group=2", "llc.size_kib=1024", "llc.ways=16", "llc.hit_cycles=9"];
        assert!(all(&typed).is_err_and(|why| why.contains(": llc.size_kib = 1024: smaller than ")));
        let settings = typed.map(|text| text.parse::<Setting>().expect(text));
        let check = |machine: &Machine| {
            let mut machine = machine.clone();
            machine.cache.size_kib = 512;
            machine.check()
        };
        let of_lists = machines(&Machine::default(), &settings, &check).expect("512 KiB fit");
        assert_eq!(of_lists[0].llc.map(|llc| llc.size_kib), Some(1024));
    }

    #[test]
    fn mistakes_in_a_file_are_told_with_what_may_have_been_meant() {
        let check = |text: &str, expected: &str| {
            assert_eq!(read_machine(text).expect_err(text), expected);
        };
        check("\ncups = 2", "line 2: unknown key \"cups\" (did you mean \"cpus\"?)");
        let known = "give one of mesi, amsd, pscr, dragon (did you mean \"mesi\"?)";
        check("protocol = \"mesy\"", &format!("protocol = \"mesy\": {known}"));
        let words = "line 2: memory_latency must be one of holds-bus, split, not \"splitt\" (did \
                     you mean \"split\"?)";
        check("[bus]\nmemory_latency = \"splitt\"", words);
    }

    #[test]
    fn a_typed_value_does_not_have_the_origin_of_the_files_value() {
        let file = "[basis.kernel]\nrun_mean = \"measured\"\ncode_skew = \"fitted\"\n";
        let base = read_machine(file).expect("it is right");
        let typed = ["kernel.run_mean=7".parse::<Setting>().expect("a setting")];
        let machine = machines(&base, &typed, &Machine::check).expect("it is right").remove(0);
        let left: Vec<&String> = machine.basis["kernel"].keys().collect();
        assert_eq!(left, ["code_skew"]);
    }

    #[test]
    fn commas_in_quotes_and_arrays_separate_nothing() {
        let apart = |text: &str| parts(text);
        assert_eq!(apart("1, 2,3"), ["1", "2", "3"]);
        assert_eq!(apart("\"a,b\",'c,d'"), ["\"a,b\"", "'c,d'"]);
        assert_eq!(apart("[1,2],[3,[4,5]]"), ["[1,2]", "[3,[4,5]]"]);
        let array = "x=[1,2]".parse::<Setting>().expect("an array is a value");
        assert_eq!(array.choices[0].value, "[1,2]".parse::<Value>().expect("TOML"));
    }

    #[test]
    fn mistakes_are_one_line_that_has_what_was_typed() {
        for wrong in ["", "code_skew", "=1", "kernel.=1", "kernel.code_skew=", "cpus=1,", "cpus=,2"]
        {
            assert!(set(wrong).is_err_and(|why| why.contains("write KEY=VALUE")), "{wrong}");
        }
        assert_eq!(set("cpus=4,8,4"), Err("cpus=4,8,4: 4 is there twice".into()));
        for (wrong, what) in [
            ("kernel.skw=1", "no such value; see"),
            ("bus.memory_latencyy=1", "no such value (did you mean \"memory_latency\"?); see"),
            ("bsu.write_cycles=1", "no such table (did you mean \"bus\"?); see"),
            ("kernels.skew=1", "no such table"),
            ("kernel=1", "no such value"),
            ("llc=1", "no such value"),
            ("llc.ways=2", "the key \"cpus_per_group\" is missing"),
            ("kernel.code_skew=9", "give 0 to 4"),
            ("kernel.code_skew=high", "invalid type"),
            ("kernel.code_skew=[1,2]", "invalid type"),
            ("scheduler.policy=fair", "policy must be one of random, affinity, not \"fair\""),
            ("bus.memory_latency=splitt", "not \"splitt\" (did you mean \"split\"?)"),
        ] {
            let why = set(wrong).expect_err(wrong);
            assert!(why.starts_with(&format!("--set {wrong}: ")), "{why}");
            assert!(why.contains(what) && !why.contains('\n'), "{why}");
        }
    }
}
