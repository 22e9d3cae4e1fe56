//! `ropewalk report` from the outside: every form of the report, and the page in a real browser.

mod made;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::tools::CHROMIUM;
use testkit::{Browser, Temporary, accessibility, layout};

use crate::run;

/// Returns the text of a form of the report of a folder.
#[track_caller]
fn report(folder: &Path, form: &str) -> String {
    let (status, text, errors) =
        run(&["report", folder.to_str().unwrap(), "--format", form, "-o", "-"]);
    assert_eq!((status, &*errors), (0, ""), "{text}");
    text
}

/// Writes the page into its folder.
#[track_caller]
fn page(folder: &Path) -> PathBuf {
    let (status, printed, errors) = run(&["report", folder.to_str().unwrap()]);
    let path = folder.join("report.html");
    assert_eq!((status, &*errors), (0, ""));
    assert_eq!(printed, format!("written: {}\n", path.display()));
    path
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
}

#[test]
fn a_name_that_ends_in_no_form_is_refused() {
    let scratch = Temporary::new();
    made::study(scratch.path(), 6, &made::TESTBEDS);
    let folder = scratch.path().to_str().unwrap();
    for ending in ["pdf", "txt", "json"] {
        let output = scratch.path().join(format!("report.{ending}"));
        let (status, out, error) = run(&["report", folder, "-o", output.to_str().unwrap()]);
        let expected = format!(
            "ropewalk: -o: no report ends in .{ending}: name it .html, .md, .csv, .svg or .png, or \
             say which it is with --format\n"
        );
        assert_eq!((status, &*out, error), (2, "", expected));
        assert!(!output.exists());
        let output = output.to_str().unwrap();
        let (status, _, error) = run(&["report", folder, "-o", output, "--format", "csv"]);
        assert_eq!((status, &*error), (0, ""));
    }
}

#[test]
fn a_study_in_words_and_tables() {
    let scratch = Temporary::new();
    made::study(scratch.path(), 6, &made::TESTBEDS);
    let text = report(scratch.path(), "markdown");
    has(
        &text,
        &[
            "# All servers, Zipf in memory & beyond",
            "zipf, 1 CPU: event-loop reaches the highest throughput, ",
            "times the requests of nginx, the next.",
            "Expected: µServer and WatPipe serve most, Apache least. (To be judged by the reader.)",
            "| At a glance |",
            "| Void runs | 2 of 506 |",
            "## Each against each\n\n### zipf, 1 CPU\n",
            "| nginx | ▼ 0.8",
            "Of the row against the column: ▲ better, ▼ worse.",
            "of 3 pairs of servers 3 differ at their peaks, 0 seem to, none ties.",
            "beyond the peak throughput falls: apache-\\<prefork\\> to ",
            "2 of 506 runs were void and take no part",
            "No run counts of nginx at 32,000 (zipf, 1 CPU).",
            "yaws took no part: not installed. Fix it with `apt-get install yaws`.",
            "Not observed: hardware counters: no PMU in this virtual machine.",
            "The study was resumed 1 time; the machine was not the same: kernel changed.",
            "## Summary: zipf, 1 CPU",
            "## Scaling: zipf",
            "## Response times: zipf, 1 CPU, at 8,000 requests/s",
            "| nginx, class1 |",
            "## Read from the disk: zipf, 1 CPU",
            "## Observed at each point: zipf, 1 CPU",
            "## Observed at the highest throughput",
            "| Server | Where | Offered | Read from disk, MB/s | System calls/request |",
            "| sysctl.net.core.somaxconn | 4096 | 4096 |",
        ],
    );
}

#[test]
fn few_blocks_support_no_difference() {
    let scratch = Temporary::new();
    made::study(scratch.path(), 3, &made::TESTBEDS[..1]);
    let text = report(scratch.path(), "markdown");
    has(
        &text,
        &[
            "but 3 pairs are too few: as many agree by chance once in 4 times",
            "rest on fewer than 6 blocks: ",
            "of 3 pairs of servers 0 differ at their peaks, 3 seem to",
        ],
    );
}

#[test]
fn a_tuning_names_its_best_setting() {
    let scratch = Temporary::new();
    made::tuning(scratch.path());
    let text = report(scratch.path(), "markdown");
    has(&text, &["the best of 24 settings is nginx w", "sendfile = on, workers = ", "## Verdict"]);
    let drawing = report(scratch.path(), "svg");
    let place = |facet: &str| {
        drawing.find(&format!("Tuning of nginx: zipf, 1 CPU, sendfile = {facet}")).unwrap()
    };
    assert!(place("on") < drawing.find('★').unwrap() && place("on") < place("off"), "{drawing}");
}

#[test]
fn a_comparison_begins_with_its_verdict() {
    let scratch = Temporary::new();
    made::comparison(scratch.path(), 8);
    let text = report(scratch.path(), "markdown");
    let verdict = text.find("## Verdict").expect("there is one");
    assert!(verdict < text.find("## What").unwrap(), "{text}");
    has(
        &text,
        &[
            "both event-loop and nginx keep up. event-loop is better in CPU time per request (0.7",
            "Ratios are event-loop to nginx, the median of those of the pairs.",
            "| CPU time per request | 0.7",
        ],
    );
    // The rate that both were given is no peak of either.
    for form in ["html", "markdown", "svg"] {
        let text = report(scratch.path(), form).to_lowercase();
        assert!(!text.contains("highest throughput"), "{form}");
    }
}

#[test]
fn a_search_is_a_bracket_and_several_are_a_sample() {
    let scratch = Temporary::new();
    made::searched(&scratch.path().join("one"), 1);
    made::searched(&scratch.path().join("six"), 6);
    let text = report(&scratch.path().join("one"), "markdown");
    has(&text, &["event-loop has the highest maximum achievable throughput, ", "## Searches"]);
    has(&text, &["from the brackets of single searches.", "△ 1."]);
    let text = report(&scratch.path().join("six"), "markdown");
    has(&text, &["(MAT)", "; 6 pairs each.", "▲ 1.", "It serves 1."]);
    has(&text, &["## Response times: zipf, 1 CPU, each close to the highest rate it held"]);
}

#[test]
fn equally_busy_servers_are_compared_at_their_own_rates() {
    let scratch = Temporary::new();
    made::utilisations(scratch.path(), &made::SERVERS);
    let text = report(scratch.path(), "markdown");
    let head = "## Response times: zipf, 1 CPU, each at its own rate, 50 % CPU";
    has(&text, &[head, "| nginx at 14,400 |"]);
    let half = text.split(head).nth(1).unwrap().split("\n## ").next().unwrap();
    has(half, &["| nginx at 9,000 |"]);
    assert!(
        !half.contains(made::SERVERS[1].name),
        "no rate was found at which it is so busy: {half}"
    );
    let drawing = report(scratch.path(), "svg");
    has(&drawing, &["Response times of class0: zipf, 1 CPU, each at its own rate"]);
    assert!(!drawing.contains("Response times of class2"), "there is no such class");
    let alone = Temporary::new();
    made::utilisations(alone.path(), &made::SERVERS[..1]);
    let text = report(alone.path(), "markdown");
    has(&text, &["own rate, 50 % CPU", "own rate, 80 % CPU", "Response times of class0"]);
}

#[test]
fn lines_for_programs() {
    let scratch = Temporary::new();
    made::comparison(scratch.path(), 2);
    let runs = report(scratch.path(), "csv");
    let heads = "number,server,setting,workload,testbed,load,offered,block,attempt,purpose,void,";
    assert!(runs.starts_with(heads), "{runs}");
    assert_eq!(runs.lines().count(), 5);
    let points = report(scratch.path(), "csv-points");
    assert_eq!(points.lines().count(), 3);
    let fields: Vec<usize> = points.lines().map(|line| line.split(',').count()).collect();
    assert!(fields.iter().all(|count| *count == fields[0]), "{points}");
}

#[test]
fn a_picture_is_made_by_the_browser() {
    if !testkit::has(&CHROMIUM) {
        return;
    }
    // Each kind's page is looked at below; here it is the size that matters.
    for (kind, make) in KINDS {
        let scratch = Temporary::new();
        make(scratch.path());
        let png = scratch.path().join("all.png");
        let folder = scratch.path().to_str().unwrap();
        let (status, _, errors) = run(&["report", folder, "-o", png.to_str().unwrap()]);
        assert_eq!((status, &*errors), (0, ""));
        let drawn = size_of_drawing(&report(scratch.path(), "svg"));
        assert_eq!(size_of_png(&fs::read(&png).unwrap()), drawn.map(|size| 2 * size), "{kind}");
        let partial = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains("partial");
        assert!(!fs::read_dir(scratch.path()).unwrap().any(|entry| partial(entry.unwrap())));
    }
}

/// The width and the height of a drawing.
fn size_of_drawing(svg: &str) -> [u32; 2] {
    ["width", "height"].map(|side| {
        let value = svg.split(&format!(" {side}=\"")).nth(1).unwrap().split('"').next().unwrap();
        value.parse::<f64>().unwrap().ceil() as u32
    })
}

/// The width and the height that a PNG begins with.
fn size_of_png(bytes: &[u8]) -> [u32; 2] {
    assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n"));
    [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
}

#[test]
fn what_is_wrong_is_reported_in_a_line() {
    let scratch = Temporary::new();
    let folder = scratch.path().to_str().unwrap();
    let (status, _, errors) = run(&["report", folder]);
    assert_eq!((status, errors.lines().count()), (2, 1), "{errors}");
    let wanted = "name the directory of a study, a tuning or a comparison";
    assert_eq!(errors, format!("ropewalk: {folder}: there are no records in it: {wanted}\n"));
    made::comparison(&scratch.path().join("nginx"), 1);
    let (near, typed) = (scratch.path().join("nginx"), format!("{folder}/ngnix"));
    let (status, _, errors) = run(&["report", &typed]);
    let why = format!("there is no such directory (did you mean {near:?}?)");
    assert_eq!((status, errors), (2, format!("ropewalk: {typed}: {why}: {wanted}\n")));
    let (status, _, errors) = run(&["report", folder, "--format", "png", "-o", "-"]);
    assert_eq!((status, &*errors), (2, "ropewalk: -o -: a PNG needs a file\n"));
}

/// A script that returns the middle of a chart's plotting area in the window.
const MIDDLE: &str = "(() => {
    const over = document.querySelector('.u-over');
    over.scrollIntoView({ block: 'center' });
    const box = over.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
})()";
/// A script that returns the place of the legend's first curve.
const LEGEND: &str = "(() => {
    const row = document.querySelectorAll('.u-legend .u-series')[1].querySelector('th');
    row.scrollIntoView({ block: 'center' });
    const box = row.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
})()";
const VALUE: &str = "document.querySelectorAll('.u-legend .u-series')[1].innerText";
const FIRST_SHOWN: &str = "[...window.ropewalkReport.built.values()][0].series[1].show";
/// A script that returns the pixels of the first chart, so that two of its states can be compared.
const PIXELS: &str = "document.querySelector('canvas').toDataURL()";

#[test]
fn the_page_in_a_browser() {
    let scratch = Temporary::new();
    made::study(scratch.path(), 6, &made::TESTBEDS);
    let path = page(scratch.path());
    let Some(mut browser) = Browser::start() else { return };
    for (width, scheme) in [(1400_u32, "light"), (390, "light"), (1400, "dark")] {
        browser.shape(width, 900, scheme);
        browser.open(&path);
        assert_eq!(
            browser.evaluate("document.querySelectorAll('.live .u-wrap canvas').length"),
            json!(25)
        );
        // Each entry of a legend is drawn like its curve, dashes included.
        let drawn = "document.querySelectorAll('.u-legend .swatch').length
            === document.querySelectorAll('.u-legend .u-series').length
                - document.querySelectorAll('.live .u-wrap canvas').length";
        assert_eq!(browser.evaluate(drawn), json!(true));
        assert_eq!(browser.evaluate("matchMedia('print').matches"), json!(false));
        // Nothing is wider than the window, so that the page need not be scrolled sideways.
        let wide = browser.evaluate("document.documentElement.scrollWidth");
        assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide} at {width}");
        check_interaction(&mut browser);
        accessibility::check(&mut browser);
        let own = format!("file://{}", path.display());
        assert_eq!(browser.requests(), [own]);
        assert_eq!(browser.complaints(), Vec::<&serde_json::Value>::new());
    }
    // Markup in names from outside is shown as text.
    assert_eq!(
        browser.evaluate("document.querySelectorAll('prefork, xeon, main b').length"),
        json!(0)
    );
    check_printing(&mut browser);
}

/// A maker of records in a folder.
type Make = fn(&Path);

/// Every kind of page.
const KINDS: [(&str, Make); 9] = [
    ("study", |path| made::study(path, 1, &made::TESTBEDS[..2])),
    ("crowd", made::crowd),
    ("together", made::together),
    ("searches", |path| made::searched(path, 2)),
    ("utilisations", |path| made::utilisations(path, &made::SERVERS)),
    ("tuning", made::tuning),
    ("one knob", made::one_knob),
    ("words", made::words),
    ("comparison", |path| made::comparison(path, 2)),
];

/// Every kind of page, in wide and narrow windows, light and dark, and on paper.
#[test]
fn labels_have_room_and_legends_are_like_their_curves() {
    let Some(mut browser) = Browser::start() else { return };
    for (kind, make) in KINDS {
        let scratch = Temporary::new();
        make(scratch.path());
        println!("{kind}");
        layout::check_page(&mut browser, &page(scratch.path()));
        check_pointing(&mut browser);
        assert_eq!(browser.complaints(), Vec::<&serde_json::Value>::new(), "{kind}");
    }
}

/// Checks that each part that can be pointed at is told, in its figure.
fn check_pointing(browser: &mut Browser) {
    let untold = "[...document.querySelectorAll('figure .cell')].filter((cell) => {
        cell.dispatchEvent(new Event('pointerenter'));
        const told = cell.closest('figure').querySelector('.pointed');
        return told?.textContent !== cell.dataset.about;
    }).length";
    assert_eq!(browser.evaluate(untold), json!(0));
}

/// In a narrow window the names of a matrix stay in sight while the rest is scrolled.
#[test]
fn the_names_of_a_matrix_stay_in_sight() {
    let Some(mut browser) = Browser::start() else { return };
    let scratch = Temporary::new();
    made::crowd(scratch.path());
    let path = page(scratch.path());
    browser.shape(390, 900, "light");
    browser.open(&path);
    let left = "(() => {
        const scroll = document.querySelector('.pairs .scroll');
        scroll.scrollLeft = 1000;
        const name = scroll.querySelector('tbody th').getBoundingClientRect();
        const left = name.left - scroll.getBoundingClientRect().left;
        return [scroll.scrollLeft, left, name.width, name.height];
    })()";
    let found = browser.evaluate(left);
    let [scrolled, name, width, height] = [0, 1, 2, 3].map(|n| found[n].as_f64().unwrap());
    assert!(scrolled > 300.0 && name.abs() < 1.0, "{found}");
    // A name has a few lines, and not a line for each letter.
    assert!((90.0..200.0).contains(&width) && height < 150.0, "{found}");
}

/// Checks that pointing shows values, and that the legend hides curves.
fn check_interaction(browser: &mut Browser) {
    browser.point_at(MIDDLE, false);
    let pointed = browser.evaluate(VALUE);
    let digits = |text: &serde_json::Value| {
        text.as_str().unwrap().chars().filter(char::is_ascii_digit).count()
    };
    assert!(digits(&pointed) > 3, "{pointed}");
    let before = browser.evaluate(PIXELS);
    assert_eq!(browser.evaluate(FIRST_SHOWN), json!(true));
    browser.point_at(LEGEND, true);
    let hit = browser.evaluate(&format!(
        "(() => {{ const [x, y] = {LEGEND}; return document.elementFromPoint(x, y).outerHTML; }})()"
    ));
    assert_eq!(browser.evaluate(FIRST_SHOWN), json!(false), "{hit}");
    assert_ne!(browser.evaluate(PIXELS), before);
    let key = "document.querySelectorAll('.u-legend .u-series')[1]
        .dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }))";
    browser.evaluate(key);
    assert_eq!(browser.evaluate(FIRST_SHOWN), json!(true));
}

/// Checks that on paper there are drawings, and all folded parts.
fn check_printing(browser: &mut Browser) {
    browser.call("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    let shown =
        |selector: &str| format!("getComputedStyle(document.querySelector('{selector}')).display");
    assert_eq!(browser.evaluate(&shown(".live")), json!("none"));
    assert_eq!(browser.evaluate(&shown(".still")), json!("block"));
    let folded = "document.querySelector('figure details table').getBoundingClientRect().height";
    assert!(browser.evaluate(folded).as_f64().unwrap() > 20.0);
    // What was folded is unfolded for the printer, and only for it.
    let unfolded = "document.querySelectorAll('details[open]').length";
    let before = browser.evaluate(unfolded);
    browser.evaluate("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('details:not([open])').length"),
        json!(0)
    );
    browser.evaluate("dispatchEvent(new Event('afterprint'))");
    assert_eq!(browser.evaluate(unfolded), before);
}

#[test]
fn a_heat_map_in_a_browser() {
    let scratch = Temporary::new();
    made::tuning(scratch.path());
    let path = page(scratch.path());
    let Some(mut browser) = Browser::start() else { return };
    browser.shape(1000, 900, "light");
    browser.open(&path);
    let cell = "(() => {
        const cell = document.querySelector('.cell rect');
        cell.scrollIntoView({ block: 'center' });
        const box = cell.getBoundingClientRect();
        return [box.left + 4, box.top + 4];
    })()";
    browser.point_at(cell, false);
    let told = browser.evaluate("document.querySelector('.pointed').innerText");
    assert!(told.as_str().unwrap().contains("good replies/s"), "{told}");
    accessibility::check(&mut browser);
    assert_eq!(browser.complaints(), Vec::<&serde_json::Value>::new());
}
