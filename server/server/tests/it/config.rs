//! Configuration: a text is read, and settings or one exact line come out.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use server::config::{AccessForm, Arguments, Config, ConfigFault};
use site::host::Dotfiles;
use testkit::Temporary;

/// Loads `text` as `ropewalk.toml`, with a host unless it has one, and further arguments.
pub(crate) fn load(text: &str, change: impl FnOnce(&mut Arguments)) -> Result<Config, String> {
    let directory = Temporary::new();
    let has_host = ["host", "[host]"].iter().any(|start| text.starts_with(start));
    let text = match has_host || text.contains("[[host]]") {
        true => text.into(),
        false => format!("{text}\n[[host]]\nroot = \".\"\n"),
    };
    let path = directory.file("ropewalk.toml", text);
    directory.file("page.html", "");
    directory.file("packed.html.gz", "");
    let mut arguments = Arguments { config: Some(path), ..Arguments::default() };
    change(&mut arguments);
    let prefix = format!("{}/", directory.path().display());
    Config::load(&arguments).map_err(|why| why.to_string().replace(&prefix, ""))
}

/// Checks that each text is refused with its line.
fn check_wrong(table: &[(&str, &str)]) {
    for (text, expected) in table {
        let error = load(text, |_| ()).expect_err(text);
        assert_eq!(error, format!("ropewalk.toml:{expected}"), "{text}");
    }
}

#[test]
fn unknown_keys() {
    check_wrong(&[
        ("lissten = [\"8080\"]", "1:1: unknown key \"lissten\" (did you mean \"listen\"?)"),
        ("\n\n  [cach]\n", "3:4: unknown key \"cach\" (did you mean \"cache\"?)"),
        ("[cache]\npolcy = 1", "2:1: unknown key \"polcy\" (did you mean \"policy\"?)"),
        (
            "[timeouts]\nxyz = 1",
            "2:1: unknown key \"xyz\": [timeouts] has head_ms, head_bytes_per_s_min, idle_ms, \
             write_ms, linger_ms, drain_ms",
        ),
        ("head_ms = 1", "1:1: unknown key \"head_ms\" (did you mean \"timeouts.head_ms\"?)"),
        ("timeouts.heads_ms=1", "1:10: unknown key \"heads_ms\" (did you mean \"head_ms\"?)"),
        (
            "[[host]]\nroot = \".\"\nlisting_ = true",
            "3:1: unknown key \"listing_\" (did you mean \"listing\"?)",
        ),
        (
            "[[host]]\nroot = \".\"\n[[host.redirect]]\nform = \"/a\"\nfrom = \"\"\nto = \"\"",
            "4:1: unknown key \"form\" (did you mean \"from\"?)",
        ),
    ]);
}

/// What other servers have, or have elsewhere.
#[test]
fn keys_that_beginners_try() {
    check_wrong(&[
        ("root = \"site\"", "1:1: unknown key \"root\": it belongs under [[host]]"),
        ("listing = true", "1:1: unknown key \"listing\": it belongs under [[host]]"),
        ("port = 8081", "1:1: unknown key \"port\": write listen = [\"8081\"] at the top"),
        ("port = \"8081\"", "1:1: unknown key \"port\": write listen = [\"8081\"] at the top"),
        (
            "[[host]]\nroot = \".\"\nport = 81",
            "3:1: unknown key \"port\": write listen = [\"81\"] at the top",
        ),
        (
            "[tls]\ncert = \"a.pem\"",
            "1:2: unknown key \"tls\": there is no TLS here, put a proxy in front",
        ),
        (
            "[server]\nport = 80",
            "1:2: unknown key \"server\": put `listen` at the top, and `root` under [[host]]",
        ),
    ]);
}

#[test]
fn the_first_of_several_faults_is_reported() {
    check_wrong(&[(
        "log.access = 1\ncache.policy = 2",
        "1:14: log.access must be \"off\", \"combined\" or \"json\", not 1",
    )]);
}

#[test]
fn wrong_forms() {
    check_wrong(&[
        (
            "listen = \"127.0.0.1:8080\"",
            "1:10: listen must be a list, not \"127.0.0.1:8080\": write [\"127.0.0.1:8080\"]",
        ),
        ("listen = 8080", "1:10: listen must be a list, not 8080: write [\"8080\"]"),
        ("listen = [8080]", "1:11: listen must be a string, not 8080: write \"8080\""),
        ("listen = true", "1:10: listen must be a list, not true"),
        ("listen = []", "1:10: no address is listed here: name one, such as 8080"),
        (
            "listen = [\"8080\", \"127.0.0.1:8080\"]",
            "1:19: 127.0.0.1:8080 is listed twice: keep one",
        ),
        (
            "listen = [\"here:80\"]",
            "1:11: \"here:80\" is no address: write 8080, :8080, localhost:8080, 127.0.0.1:8080 or [::1]:8080",
        ),
        ("cache = 7", "1:9: \"cache\" is a section: write [cache]"),
        ("host = 7", "1:8: host must be a list, not 7: write [[host]] with root"),
        ("[host]\nroot = \".\"", "1:1: host must be a list, not a table: write [[host]] with root"),
        (
            "[partitions]\npin = \"yes\"",
            "2:7: partitions.pin must be \"auto\", \"always\" or \"never\", not \"yes\"",
        ),
        (
            "[log]\naccess = \"jsn\"",
            "2:10: log.access must be \"off\", \"combined\" or \"json\", not \"jsn\" (did you mean \"json\"?)",
        ),
        (
            "[cache]\npolicy = \"fifo\"",
            "2:10: cache.policy must be \"s3-fifo\", \"lru\" or \"clock\", not \"fifo\"",
        ),
    ]);
}

#[test]
fn wrong_numbers() {
    check_wrong(&[
        (
            "[timeouts]\nidle_ms = \"60 s\"",
            "2:11: timeouts.idle_ms must be a number from 1 to 86400000, not \"60 s\"",
        ),
        (
            "[timeouts]\nidle_ms = -1",
            "2:11: timeouts.idle_ms must be a number from 1 to 86400000, not -1",
        ),
        (
            "[timeouts]\nidle_ms = 1.5",
            "2:11: timeouts.idle_ms must be a number from 1 to 86400000, not 1.5",
        ),
        (
            "[cache]\nrevalidate_ms = \"nevr\"",
            "2:17: cache.revalidate_ms must be a number from 0 to 86400000, or \"never\", not \"nevr\"",
        ),
        (
            "[cache]\nsmall_body_bytes_max = \"64 KB\"",
            "2:24: cache.small_body_bytes_max must be a size from 0 to 16 MiB (65536 or \"64 KiB\"), not \"64 KB\"",
        ),
        (
            "[limits]\nhead_bytes_max = 99999999999999999999",
            "2:18: limits.head_bytes_max must be a size from 256 to 1 MiB (65536 or \"64 KiB\"), not 99999999999999999999",
        ),
        (
            "[limits]\nhead_bytes_max = 1024\nrequest_line_bytes_max = 2048",
            "3:26: limits.request_line_bytes_max is above head_bytes_max (1024)",
        ),
    ]);
}

#[test]
fn wrong_partitions() {
    check_wrong(&[
        (
            "[partitions]\ncpus = [\"0-x\"]",
            "2:9: \"0-x\" is no CPU list: write numbers and ranges like \"0-3,8\"",
        ),
        ("[partitions]\ncpus = [\"0-1\", \"1\"]", "2:8: CPU 1 is in two partitions: keep one"),
    ]);
}

#[test]
fn wrong_hosts() {
    check_wrong(&[
        ("[[host]]\nnames = [\"a\"]", "1:1: \"root\" is missing here"),
        (
            "[[host]]\nroot = \"nowhere\"",
            "2:8: \"nowhere\" does not exist: name the directory to serve",
        ),
        (
            "[[host]]\nroot = \"ropewalk.toml\"",
            "2:8: \"ropewalk.toml\" is not a directory: name the directory that holds it \
             (a configuration is read with --config)",
        ),
        ("[[host]]\nroot = \"\"", "2:8: root must be a directory, not \"\""),
        (
            "[[host]]\nroot = \".\"\nindex = \"index.html\"",
            "3:9: index must be a list, not \"index.html\": write [\"index.html\"]",
        ),
        (
            "[[host]]\nroot = \".\"\ncache_control = \"max-age=60\"",
            "3:17: cache_control must be a list, not \"max-age=60\": write \
             [[host.cache_control]] with path and value",
        ),
        (
            "[[host]]\nroot = \".\"\n[host.redirect]\n\"/a\" = \"/b\"",
            "3:1: redirect must be a list, not a table: write [[host.redirect]] with from and to",
        ),
        (
            "[[host]]\nroot = \".\"\nheader = [\"X: y\"]",
            "3:11: header must be a list of tables, not \"X: y\": write [[host.header]] with \
             path, name and value",
        ),
        (
            "[[host]]\nroot = \".\"\nerror_pages = { 200 = \"/x\" }",
            "3:23: error_pages: \"200\" is no status from 400 to 599",
        ),
        (
            "[[host]]\nroot = \".\"\n[[host.redirect]]\nfrom = \"/a\"\nto = \"/b\"\nstatus = 304",
            "6:10: status must be 301, 302, 303, 307 or 308, not 304",
        ),
        (
            "[[host]]\nroot = \".\"\n[[host.header]]\npath = \"**\"\nname = \"X\"",
            "3:1: \"value\" is missing here",
        ),
    ]);
}

/// Each value is refused at its place.
#[test]
fn values_that_no_host_can_have() {
    let host = |rest: &str| format!("[[host]]\nroot = \".\"\n{rest}");
    let check = |rest: &str, expected: &str| {
        let error = load(&host(rest), |_| ()).expect_err(rest);
        let error = error.strip_prefix("ropewalk.toml:").expect(&error);
        assert!(error.starts_with(expected), "{rest}: {error}");
        assert!(!error.contains('\n'), "{error}");
    };
    check("names = [\"a.b\", \"exa mple.com:80\"]", "3:17: \"exa mple.com:80\" is no host name");
    check("names = [\"http://a\"]", "3:10: \"http://a\" is no host name");
    check("index = [\"../x\"]", "3:10: \"../x\" is no file in a directory");
    check("index = [\"a\", \"\"]", "3:15: \"\" is no file in a directory");
    check("spa_fallback = \"x\"", "3:16: \"x\" is not a page below the root");
    check("spa_fallback = \"/no.html\"", "3:16: there is no page \"/no.html\"");
    check("spa_fallback = \"/.env\"", "3:16: \"/.env\" is hidden");
    check("error_pages = { 404 = \"/no.html\" }", "3:23: there is no page \"/no.html\"");
    let redirect = |from: &str, page: &str| {
        let rule = format!("[[host.redirect]]\nfrom = \"{from}\"\nto = \"/\"\nstatus = 301");
        format!("{page}\n{rule}")
    };
    check(
        &redirect("/page.html", "spa_fallback = \"/page.html\""),
        "3:16: \"/page.html\" is redirected by a rule of this host, and so never sent",
    );
    check(
        &redirect("*.html", "error_pages = { 404 = \"/page.html\" }"),
        "3:23: \"/page.html\" is redirected by a rule of this host, and so never sent",
    );
    check("error_pages = { 421 = \"/page.html\" }", "3:23: 421 is the answer where no host");
    check("error_pages = { 500 = \"/page.html\" }", "3:23: 500 is never sent");
    check("mime_types = { x = \"y\" }", "3:20: \"y\" is not a media type");
    let header = "[[host.header]]\npath = \"**\"\n";
    let field = |line: &str| format!("{header}{line}");
    check(&field("name = \"X:\"\nvalue = \"\""), "5:8: \"X:\" is not a field name");
    check(&field("name = \"Date\"\nvalue = \"\""), "5:8: field \"Date\" belongs to the server");
    check(&field("name = \"X\"\nvalue = \"a\\r\\nb\""), "6:9: \"value\" has a control character");
    let long = "v".repeat(70_000);
    check(&field(&format!("name = \"X\"\nvalue = \"{long}\"")), "6:9: \"value\" has more than");
    check(&field("name = \"X\"\nvalue = \"\"\nwhen = \"ok\""), "7:8: when must be");
    check("[[host.header]]\npath = \"[\"\nname = \"X\"\nvalue = \"\"", "4:8: glob `[`: ");
    check("[[host.cache_control]]\npath = \"a{\"\nvalue = \"\"", "4:8: glob `a{`: ");
    check("[[host.cache_control]]\npath = \"a\"\nvalue = \"\\n\"", "5:9: \"Cache-Control\" has a");
    check("[[host.redirect]]\nfrom = \"a[\"\nto = \"/b\"", "4:8: glob `a[`: ");
    check(
        "[[host.redirect]]\nfrom = \"/a\"\nto = \"/news/$1\"",
        "5:6: redirect target \"/news/$1\"",
    );
    check("[[host.redirect]]\nfrom = \"/a\"\nto = \"/a b\"", "5:6: redirect target \"/a b\"");
}

#[test]
fn hosts_that_claim_the_same() {
    let two = |first: &str, second: &str| {
        format!("[[host]]\nroot = \".\"\n{first}\n[[host]]\nroot = \".\"\n{second}")
    };
    let names = two("names = [\"a\"]", "names = [\"b\", \"A\"]");
    let wildcards = two("names = [\"*.a\"]", "names = [\"*.a\"]");
    let defaults = two("default = true", "default = true");
    check_wrong(&[
        (&names, "6:15: host name \"A\" is claimed twice: remove one"),
        (&wildcards, "6:10: host name \"*.a\" is claimed twice: remove one"),
        (&defaults, "6:11: two hosts have `default = true`: keep one"),
    ]);
}

#[test]
fn hosts_that_no_request_reaches() {
    let hosts = |keys: &[&str]| -> String {
        keys.iter().map(|keys| format!("[[host]]\nroot = \".\"\n{keys}\n")).collect()
    };
    let check = |keys: &[&str], line: usize, remedy: &str| {
        let expected = format!("{line}:1: no request can reach this host: {remedy}");
        check_wrong(&[(&hosts(keys), &expected)]);
    };
    let names = "give it names, because another host is the default";
    check(&["", ""], 4, names);
    check(&["", "default = true"], 1, names);
    check(&["names = [\"a\"]", ""], 4, "give it names, or default = true");
    for keys in [&["", "names = [\"a\"]"], &["names = [\"a\"]", "default = true"]] {
        load(&hosts(keys), |_| ()).expect("each has its requests");
    }
}

/// An operator who names a file for the log expects one.
#[test]
fn a_log_that_is_not_written_is_reported() {
    let reported = |text: &str| server::check(&load(text, |_| ()).unwrap()).unwrap().without_effect;
    let path = "[log]\npath = \"../access.log\"";
    let expected = "log.path makes no difference, because no access log is written: use --log \
                    combined, or set log.access = \"combined\"";
    assert_eq!(reported(path), [expected]);
    assert_eq!(reported(&format!("{path}\naccess = \"json\"")), [""; 0]);
    assert_eq!(reported(""), [""; 0]);
}

/// A log below a root is refused, even if only a link leads there.
#[test]
fn a_log_is_not_published() {
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    directory.file("site/old.log", "");
    directory.file("two/logs/old.log", "");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, directory.path().join(name)).unwrap();
    };
    link("two/logs", "logs");
    link("site/old.log", "a.log");
    link("site/none.log", "b.log");
    let check = |path: &str, root: Option<&str>| {
        let text = format!(
            "[log]\naccess = \"json\"\npath = \"{path}\"\n\
             [[host]]\nroot = \"site\"\n[[host]]\nnames = [\"two\"]\nroot = \"two\""
        );
        let file = directory.file("ropewalk.toml", text);
        let arguments = Arguments { config: Some(file.clone()), ..Arguments::default() };
        let at = directory.path();
        let expected = root.map(|root| {
            let (file, log, root) = (file.display(), at.join(path), at.join(root));
            format!(
                "{file}:3:8: the access log {log:?} would be published, because it is in the \
                 root {root:?}: write it elsewhere"
            )
        });
        assert_eq!(Config::load(&arguments).err().map(|why| why.to_string()), expected, "{path}");
    };
    check("site/new.log", Some("site"));
    check("site/.new.log", Some("site"));
    check("logs/new.log", Some("two"));
    check("a.log", Some("site"));
    check("b.log", Some("site"));
    check("site.log", None);
    check("site/../new.log", None);
    let here = Arguments {
        directory: Some(".".into()),
        log: Some("json".into()),
        set: vec!["log.path=new.log".into()],
        ..Arguments::default()
    };
    let error = Config::load(&here).unwrap_err().to_string();
    let expected = "--set log.path=new.log: the access log \"new.log\" would be published";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn a_log_needs_a_directory() {
    check_wrong(&[
        (
            "[log]\naccess = \"json\"\npath = \"no/access.log\"",
            "3:8: \"no\" is not a directory: make it, or name another for the log",
        ),
        (
            "[log]\naccess = \"json\"\npath = \"../\"",
            "3:8: \"../\" is a directory: name a file in it",
        ),
    ]);
    load("[log]\npath = \"no/access.log\"", |_| ()).expect("no log is written");
}

#[test]
fn pages_may_be_there_in_one_coding_only() {
    let text = "[[host]]\nroot = \".\"\nspa_fallback = \"/packed.html\"";
    load(text, |_| ()).expect("it is there, compressed");
    load(&format!("{text}\nprecompressed = [\"br\"]"), |_| ()).expect_err("not in this coding");
}

/// A page behind a link that is not followed would never be sent.
#[test]
fn pages_are_looked_for_as_they_are_served() {
    let directory = Temporary::new();
    directory.file("site/404.html", "missing");
    directory.file("outside.html", "outside");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, directory.path().join("site").join(name)).unwrap();
    };
    link("404.html", "inside.html");
    link("../outside.html", "out.html");
    let check = |symlinks: &str, page: &str, is_right: bool| {
        let arguments = Arguments {
            directory: Some(directory.path().join("site")),
            set: vec![
                format!("host.symlinks={symlinks}"),
                format!("host.error_pages={{404=\"/{page}\"}}"),
            ],
            ..Arguments::default()
        };
        let checked = Config::load(&arguments).map(drop);
        assert_eq!(checked.is_ok(), is_right, "{symlinks} {page}: {checked:?}");
    };
    for symlinks in ["never", "beneath", "anywhere"] {
        check(symlinks, "404.html", true);
        check(symlinks, "inside.html", symlinks != "never");
        check(symlinks, "out.html", symlinks == "anywhere");
        check(symlinks, "none.html", false);
    }
}

#[test]
fn an_error_says_where_it_is() {
    let place = |text: &str| {
        let directory = Temporary::new();
        let path = directory.file("ropewalk.toml", text);
        let arguments = Arguments { config: Some(path.clone()), ..Arguments::default() };
        let error = Config::load(&arguments).expect_err(text);
        let place = error.place.expect("it is in the file");
        assert_eq!(place.source, path.display().to_string());
        (place.position, *error.fault)
    };
    let (position, fault) = place("[log]\nacess = 1");
    assert_eq!(position, Some((2, 1)));
    assert!(matches!(fault, ConfigFault::UnknownKey { key, .. } if key == "acess"));
    let (position, fault) = place("log.access = 1");
    assert_eq!(position, Some((1, 14)));
    assert!(matches!(fault, ConfigFault::Value { key, .. } if key == "log.access"));
    assert!(matches!(place("listen = [").1, ConfigFault::Syntax(_)));
}

#[test]
fn an_engine_that_is_none_is_answered_with_the_names() {
    let check = |name: &str, expected: &str| {
        let config = load("", |arguments| arguments.engine = Some(name.into())).unwrap();
        let error = server::check(&config).expect_err(name).to_string();
        assert_eq!(error, format!("--engine: unknown engine {name:?}{expected}"));
    };
    check("treads", " (did you mean \"threads\"?): see `ropewalk engines`");
    let names: Vec<&str> = engines::ENGINES.iter().map(|spec| spec.name).collect();
    check("epoll", &format!(": it must be one of {}, auto", names.join(", ")));
}

/// A setting that no engine of several processes supports is reported at its place, too.
#[test]
fn what_does_not_fit_the_engine_says_where_it_is() {
    let check = |text: &str, expected: &str| {
        let error = server::check(&load(text, |_| ()).unwrap()).expect_err(text).to_string();
        let file = error.rsplit_once("/").expect("the file's path").1;
        assert_eq!(file, format!("ropewalk.toml:{expected}"));
    };
    let copies = "[engine]\nname = \"event-loop-copies\"\nknobs = { processes = 3, ports = 1 }";
    check(
        &format!("listen = [\"8080\", \"localhost:65534\"]\n{copies}"),
        "1:19: no port is left for copy 2 above localhost:65534: lower it",
    );
    check(
        &format!("{copies}\n[partitions]\ncount = 1\nlisten = [[\":80\",\n\":65535\"]]"),
        "7:1: no port is left for copy 1 above :65535: lower it",
    );
}

#[test]
fn several_processes_have_no_root_whose_name_is_no_text() {
    let directory = Temporary::new();
    let folder = directory.path().join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&folder).unwrap();
    let path = folder.join("ropewalk.toml");
    std::fs::write(&path, "[[host]]\nnames = [\"a\"]\nroot = \".\"\n").unwrap();
    let check = |set: &[&str]| {
        let set = set.iter().map(ToString::to_string).collect();
        let arguments = Arguments { config: Some(path.clone()), set, ..Arguments::default() };
        server::check(&Config::load(&arguments).unwrap()).map_err(|why| why.to_string())
    };
    let refused = format!(
        "{}:3:8: {folder:?} cannot be served by several processes, because its name is not UTF-8: \
         rename it, or choose an engine of one process",
        path.display()
    );
    check(&["engine.name=event-loop"]).unwrap();
    check(&["engine.name=event-loop-helpers"]).unwrap();
    let helpers = ["engine.name=event-loop-helpers", "engine.knobs.kind=processes"];
    assert_eq!(check(&helpers).unwrap_err(), refused);
    assert_eq!(check(&["engine.name=processes"]).unwrap_err(), refused);
    assert_eq!(check(&["engine.name=event-loop", "engine.processes=2"]).unwrap_err(), refused);
}

#[test]
fn no_toml() {
    check_wrong(&[
        ("listen = [", "3:1: missing comma between array elements, expected `,`"),
        ("[log]\n[log]", "2:2: duplicate key"),
        // Not the line below, at which the parser sees that the list does not end.
        ("listen = [\"8080]\n\n[log]\n", "1:17: invalid basic string, expected `\"`"),
        ("log.path = \"a\n", "1:14: invalid basic string, expected `\"`"),
    ]);
}

#[test]
fn wrong_flags() {
    let check = |change: &dyn Fn(&mut Arguments), expected: &str| {
        assert_eq!(load("", change).expect_err(expected), expected);
    };
    check(
        &|a| a.listen = vec!["x".into()],
        "--listen: \"x\" is no address: write 8080, :8080, localhost:8080, 127.0.0.1:8080 or [::1]:8080",
    );
    check(
        &|a| a.log = Some("xml".into()),
        "--log: log.access must be \"off\", \"combined\" or \"json\", not \"xml\"",
    );
    check(
        &|a| a.partitions = Some("0-1;1".into()),
        "--partitions: CPU 1 is in two partitions: keep one",
    );
    check(
        &|a| a.partitions = Some("0".into()),
        "--partitions: partitions.count must be a number from 1 to 1024, not 0",
    );
    check(
        &|a| a.set = vec!["cache.polcy=lru".into()],
        "--set cache.polcy=lru: unknown key \"polcy\" (did you mean \"policy\"?)",
    );
    check(&|a| a.set = vec!["cache".into()], "--set cache: write SECTION.KEY=VALUE");
    check(
        &|a| a.set = vec!["host.dotfile=allow".into()],
        "--set host.dotfile=allow: unknown key \"dotfile\" (did you mean \"dotfiles\"?)",
    );
    check(
        &|a| a.directory = Some("/no/such".into()),
        "DIR: \"/no/such\" does not exist: name the directory to serve",
    );
    check(
        &|a| a.config = Some("/no/such.toml".into()),
        "/no/such.toml: there is no such file: name the configuration",
    );
    check(
        &|a| a.config = Some("/".into()),
        "/: this is a directory: name the configuration, a file",
    );
    check(
        &|a| a.port = Some("80x".into()),
        "--port: \"80x\" is no port: write a number from 1 to 65535, such as 8080",
    );
    check(
        &|a| a.port = Some(":80".into()),
        "--port: \":80\" is no port: write a number from 1 to 65535, such as 8080",
    );
    check(&|a| a.set = vec!["host.listing".into()], "--set host.listing: write SECTION.KEY=VALUE");
}

/// A word or a path that is nearly right is answered with the right one.
#[test]
fn the_nearest_file_is_named() {
    let directory = Temporary::new();
    directory.file("public/start.html", "");
    directory.file("ropewalk.toml", "[[host]]\nroot = \"publik\"\n");
    let at = |name: &str| directory.path().join(name);
    let check = |change: &dyn Fn(&mut Arguments), expected: &str| {
        let mut arguments = Arguments::default();
        change(&mut arguments);
        let error = Config::load(&arguments).unwrap_err().to_string();
        assert_eq!(error.replace(&format!("{}/", directory.path().display()), ""), expected);
    };
    check(
        &|a| a.directory = Some(at("pubic")),
        "DIR: \"pubic\" does not exist (did you mean \"public\"?): name the directory to serve",
    );
    check(
        &|a| a.config = Some(at("ropewalk.tml")),
        "ropewalk.tml: there is no such file (did you mean \"ropewalk.toml\"?): name the configuration",
    );
    check(
        &|a| a.config = Some(at("ropewalk.toml")),
        "ropewalk.toml:2:8: \"publik\" does not exist (did you mean \"public\"?): name the \
         directory to serve",
    );
    check(
        &|a| {
            a.directory = Some(at("public"));
            a.set = vec!["host.spa_fallback=/strat.html".into()];
        },
        "--set host.spa_fallback=/strat.html: there is no page \"/strat.html\" in \"public\" (did you \
         mean \"/start.html\"?), or only by a link that `symlinks` does not follow: name one that \
         exists, or put it there",
    );
}

/// Flags and the names of files may contain anything.
#[test]
fn a_mistake_is_one_line_wherever_it_is() {
    let set = Arguments { set: vec!["a\nb".into()], ..Arguments::default() };
    let error = Config::load(&set).unwrap_err().to_string();
    assert_eq!(error, r#""--set a\nb": write SECTION.KEY=VALUE"#);
    let file = Arguments { config: Some("no\u{1b}[2J\nfile".into()), ..Arguments::default() };
    let error = Config::load(&file).unwrap_err().to_string();
    assert_eq!(error, r#""no\u{1b}[2J\nfile": there is no such file: name the configuration"#);
}

/// The flags for keys are as the keys: their values are checked alike, and `ropewalk check` says
/// which flag set them. They are for every host.
#[test]
fn flags_for_beginners_are_those_of_keys() {
    let directory = Temporary::new();
    directory.file("one/index.html", "");
    directory.file("two/index.html", "");
    let text = "listen = [\":80\"]\n[[host]]\nroot = \"one\"\n[[host]]\nnames = [\"two\"]\nroot = \"two\"\n";
    let arguments = Arguments {
        config: Some(directory.file("ropewalk.toml", text)),
        port: Some("3000".into()),
        listing: true,
        spa: true,
        ..Arguments::default()
    };
    let config = Config::load(&arguments).unwrap();
    let settings = &config.settings;
    assert_eq!(
        settings.listen.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["127.0.0.1:3000"]
    );
    for host in &settings.hosts {
        assert_eq!((host.listing, host.spa_fallback.as_deref()), (true, Some("/index.html")));
    }
    let shown = config.show();
    let count = |line: &str| shown.lines().filter(|it| *it == line).count();
    assert_eq!(count("listen = [\"127.0.0.1:3000\"] # --port"), 1, "{shown}");
    assert_eq!(count("listing = true # --listing"), 2, "{shown}");
    assert_eq!(count("spa_fallback = \"/index.html\" # --spa"), 2, "{shown}");
    // A key that is set by name is a later word.
    let set = vec!["host.listing=false".into(), "listen=[\"8081\"]".into()];
    let settings = Config::load(&Arguments { set, ..arguments.clone() }).unwrap().settings;
    assert_eq!(settings.listen[0].to_string(), "127.0.0.1:8081");
    assert!(!settings.hosts[1].listing);
    std::fs::remove_file(directory.path().join("two/index.html")).unwrap();
    let error = Config::load(&arguments).unwrap_err().to_string();
    let expected =
        format!("--spa: there is no page \"/index.html\" in {:?}", directory.path().join("two"));
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_file_without_a_host_serves_nothing() {
    let directory = Temporary::new();
    let path = directory.file("empty.toml", "");
    let arguments = Arguments { config: Some(path.clone()), ..Arguments::default() };
    let expected = "nothing to serve: add a [[host]] or name a directory";
    // A flag about hosts is no host.
    for listing in [false, true] {
        let error = Config::load(&Arguments { listing, ..arguments.clone() }).unwrap_err();
        assert_eq!(error.to_string(), format!("{}: {expected}", path.display()));
    }
}

#[test]
fn a_directory_does_not_go_with_several_hosts() {
    let hosts = "[[host]]\nroot = \".\"\n[[host]]\nroot = \".\"\n";
    let error = load(hosts, |a| a.directory = Some(".".into())).unwrap_err();
    assert_eq!(error, "DIR: \".\" cannot be the root of 2 hosts: leave it out");
}

#[test]
fn flags_override_the_file() {
    let text = "listen = [\"1.2.3.4:80\"]\nengine.name = \"event-loop\"\nlog.access = \"json\"\n\
                [partitions]\ncpus = [\"0\"]\n[cache]\npolicy = \"lru\"\nbytes_max = \"1 MiB\"\n";
    let config = load(text, |arguments| {
        arguments.listen = vec!["8081".into(), "[::1]:8082".into()];
        arguments.engine = Some("event-loop-per-core".into());
        arguments.partitions = Some("2".into());
        arguments.log = Some("off".into());
        arguments.set = [
            "cache.policy=clock",
            "limits.head_bytes_max = \"4 KiB\"",
            "limits.request_line_bytes_max=4096",
            "host.dotfiles=allow",
        ]
        .map(String::from)
        .to_vec();
    });
    let settings = config.unwrap().settings;
    let listen: Vec<String> = settings.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:8081", "[::1]:8082"]);
    assert_eq!(settings.engine.name, "event-loop-per-core");
    assert_eq!((settings.partitions.count, settings.partitions.cpus.len()), (2, 0));
    assert_eq!(settings.log.access, AccessForm::Off);
    assert_eq!(settings.cache.policy.to_string(), "clock");
    assert_eq!(settings.cache.bytes_max, Some(1 << 20), "what no flag names stays");
    assert_eq!(settings.limits.head_bytes_max, 4096);
    assert_eq!(settings.hosts[0].dotfiles, Dotfiles::Allow);
}

#[test]
fn partitions_may_be_named() {
    let config = load("", |arguments| arguments.partitions = Some("0-1,4;2-3".into()));
    assert_eq!(config.unwrap().settings.partitions.cpus, [vec![0, 1, 4], vec![2, 3]]);
}

#[test]
fn without_a_file_the_current_directory_is_served() {
    let config = Config::load(&Arguments::default()).unwrap();
    assert_eq!(config.settings.hosts.len(), 1);
    assert_eq!(config.settings.hosts[0].root.to_str(), Some("."));
}

#[test]
fn paths_in_a_file_are_relative_to_it() {
    let directory = Temporary::new();
    directory.file("site/index.html", "");
    let text = "log.path = \"access.log\"\n[[host]]\nroot = \"site\"\n";
    let path = directory.file("ropewalk.toml", text);
    let arguments = Arguments { config: Some(path), ..Arguments::default() };
    let settings = Config::load(&arguments).unwrap().settings;
    assert_eq!(settings.hosts[0].root, directory.path().join("site"));
    assert_eq!(settings.log.path, directory.path().join("access.log").to_str().unwrap());
}

const FULL: &str = r#"
listen = ["127.0.0.1:0", ":8081", "[::1]:8082"]
[engine]
name = "event-loop"
[partitions]
count = 2
cpus = ["0", "1"]
pin = "never"
[cache]
small_body_bytes_max = 0
descriptors_max = 100
revalidate_ms = "never"
[[host]]
names = ["example.com", "*.example.org"]
root = "."
index = ["index.html", "index.htm"]
spa_fallback = "/page.html"
error_pages = { 404 = "/packed.html" }
precompressed = ["gzip"]
mime_types = { md = "text/markdown" }
[[host.cache_control]]
path = "/assets/**"
value = "max-age=\"1\"\\"
[[host.header]]
path = "**"
name = "X-Frame-Options"
value = "DENY"
[[host.redirect]]
from = "/old"
to = "/new"
status = 308
[[host]]
default = true
root = "."
"#;

#[test]
fn the_shown_configuration_reads_back_the_same() {
    let config = load(FULL, |arguments| arguments.set = vec!["log.access=json".into()]).unwrap();
    let here = |line: &str| match line.starts_with("root = ") {
        true => "root = \".\"\n".into(), // the directory of the first reading is gone
        false => format!("{line}\n"),
    };
    let shown: String = config.show().lines().map(here).collect();
    let again = load(&shown, |_| ()).expect(&shown);
    let without_roots = |config: &Config| {
        let mut settings = config.settings.clone();
        settings.hosts.iter_mut().for_each(|host| host.root = "".into());
        settings.log.path.clear();
        format!("{settings:?}")
    };
    assert_eq!(without_roots(&config), without_roots(&again));
}

#[test]
fn the_shown_configuration_says_where_each_value_is_from() {
    let config = load(FULL, |arguments| arguments.set = vec!["log.access=json".into()]).unwrap();
    let shown = config.show();
    for (line, origin) in [
        ("small_body_bytes_max = 0", "ropewalk.toml:10:24"),
        ("bytes_max = \"auto\"", "default"),
        ("access = \"json\"", "--set log.access=json"),
        ("precompressed = [\"gzip\"]", "ropewalk.toml:19:17"),
        ("default = true", "ropewalk.toml:33:11"),
    ] {
        let found = shown.lines().find(|l| l.starts_with(line)).expect(line);
        assert!(found.ends_with(origin), "{found}");
    }
}
