//! Lists of CPUs as the kernel writes them: `0-3,8`.

/// Reads a list like `0-3,8`; the order is kept, and a CPU may occur once only.
///
/// # Errors
/// One line that says what is wrong.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first, text)?, number(last, text)?);
        if last < first {
            return Err(format!("{part:?} in the CPU list {text:?} runs backwards"));
        }
        cpus.extend(first..=last);
    }
    let mut sorted = cpus.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!("CPU {} occurs twice in {text:?}", twice[0])),
        None => Ok(cpus),
    }
}

/// The CPUs, or NUMA nodes, of a list as the kernel prints it, such as `0-3,8`. Parts that are not
/// numbers are left out. What people write is read by [`parse`], which finds their mistakes.
pub fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<usize>().ok()?..=high.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Writes a list in the form that [`parse`] reads back unchanged.
#[must_use]
pub fn show(cpus: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first..).take_while(|(cpu, expected)| *cpu == expected).count();
        parts.push(match run {
            1 => first.to_string(),
            _ => format!("{first}-{}", first + run - 1),
        });
        rest = &rest[run..];
    }
    parts.join(",")
}

/// The highest CPU number: Linux has no more CPUs (`CONFIG_NR_CPUS`). Without a limit
/// `0-9999999999` would be a list that fills the memory.
const CPU_MAX: usize = 8191;

fn number(text: &str, list: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(cpu) if cpu <= CPU_MAX => Ok(cpu),
        Ok(cpu) => Err(format!("CPU {cpu} is not there: Linux has none above {CPU_MAX}")),
        Err(_) => Err(format!("{list:?} is no CPU list: write numbers and ranges like \"0-3,8\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let check = |text: &str, cpus: &[usize], shown: &str| {
            assert_eq!(parse(text).as_deref(), Ok(cpus), "{text}");
            assert_eq!(show(cpus), shown);
        };
        check("0", &[0], "0");
        check("0-3,8", &[0, 1, 2, 3, 8], "0-3,8");
        check("3,1-2", &[3, 1, 2], "3,1-2");
        check("4-4", &[4], "4");
    }

    #[test]
    fn lists_of_the_kernel() {
        let check = |list: &str, cpus: &[usize]| assert_eq!(numbers(list), cpus, "{list:?}");
        check("0-3,8\n", &[0, 1, 2, 3, 8]);
        check("5", &[5]);
        check("3-2", &[]);
        check("", &[]);
        check("\n", &[]);
        check("0,x,1-y,2", &[0, 2]);
    }

    #[test]
    fn refused() {
        let check = |text: &str, part: &str| {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        };
        for text in ["", "a", "1-", "-1", " 1"] {
            check(text, "is no CPU list");
        }
        check("3-1", "runs backwards");
        check("0,0", "CPU 0 occurs twice");
        check("0-2,1", "CPU 1 occurs twice");
        check("0-8192", "CPU 8192 is not there");
        assert_eq!(parse("8191").as_deref(), Ok(&[8191][..]));
    }
}
