//! Configuration of routes: what is read is shown and read back, and mistakes are one line.

use server::config::{Arguments, Config};
use upstream::Protocol;

use crate::config::load;

const ROUTES: &str = r#"
[[host]]
root = "."
front_controller = "/index.php"
[[host.route]]
path = "/uploads/**"
[[host.route]]
path = "**.php"
methods = ["GET", "POST"]
fastcgi = ["unix:/run/php.sock", "[::1]:9000", "php.test:9001"]
weights = [1, 2, 3]
suffix = ".php"
root = "/app"
children = 6
[[host.route]]
path = "/api/**"
proxy = ["http://127.0.0.1:3000", "unix:/run/app.sock"]
trusted = ["192.0.2.1"]
balance = "client-address"
health = "/up?a=%20"
health_ms = 700
idle_ms = 5
sendfile_root = "/usr/share/"
"#;

/// Worker processes get the configuration as it is shown.
#[test]
fn routes_that_are_shown_read_back_the_same() {
    let config = load(ROUTES, |_| ()).unwrap();
    let line = |config: &Config, key: &str| {
        let shown = config.show();
        let line = shown.lines().find(|line| line.starts_with(key)).expect(key);
        line.split(" # ").next().expect("it has a comment").to_owned()
    };
    let (routes, front) = (line(&config, "route = "), line(&config, "front_controller = "));
    let again = load(&format!("[[host]]\nroot = \".\"\n{front}\n{routes}\n"), |_| ()).unwrap();
    assert_eq!(line(&again, "route = "), routes);
    let hosts = |config: &Config| config.settings.hosts[0].clone();
    let (first, second) = (hosts(&config), hosts(&again));
    assert_eq!(format!("{:?}", first.routes), format!("{:?}", second.routes));
    assert_eq!(second.front_controller.as_deref(), Some("/index.php"));
    let protocols = first.routes.iter().map(|route| route.application.protocol);
    let expected = [Protocol::Http, Protocol::FastCgi, Protocol::Http];
    assert_eq!(protocols.collect::<Vec<_>>(), expected);
}

#[test]
fn one_server_needs_no_brackets() {
    let text = "[[host]]\nroot = \".\"\n[[host.route]]\npath = \"**.php\"\n";
    let config = load(&format!("{text}fastcgi = \"127.0.0.1:9000\""), |_| ()).unwrap();
    assert!(config.show().contains("fastcgi = [\"127.0.0.1:9000\"]"), "{}", config.show());
}

/// `--php` is what a site of PHP needs.
#[test]
fn the_flag_for_php_sets_three_keys() {
    let with = |socket: &str| load("", |it: &mut Arguments| it.php = Some(socket.into()));
    for (socket, server) in [
        ("/run/php.sock", "unix:/run/php.sock"),
        ("unix:/run/php.sock", "unix:/run/php.sock"),
        ("127.0.0.1:9000", "127.0.0.1:9000"),
    ] {
        let shown = with(socket).unwrap().show();
        let fastcgi =
            format!("path = \"**.php\", methods = [], proxy = [], fastcgi = [\"{server}\"]");
        assert!(shown.contains(&fastcgi), "{shown}");
        assert!(shown.contains("\nindex = [\"index.php\", \"index.html\"] # --php\n"), "{shown}");
        assert!(shown.contains("\nfront_controller = \"/index.php\" # --php\n"), "{shown}");
    }
    let here = std::env::current_dir().unwrap().display().to_string();
    for socket in ["php.sock", "./php.sock", "unix:php.sock"] {
        let shown = with(socket).unwrap().show();
        assert!(shown.contains(&format!("fastcgi = [\"unix:{here}/php.sock\"]")), "{shown}");
    }
    let proxy = load("", |it| it.proxy = Some("unix:app.sock".into())).unwrap().show();
    assert!(proxy.contains(&format!("proxy = [\"unix:{here}/app.sock\"]")), "{proxy}");
    let error = with("php").unwrap_err();
    assert!(error.starts_with("--php: fastcgi must be like \"unix:/run/php/"), "{error}");
}

/// `--cgi-bin` is a route, whose directory has the name of the whole path.
#[test]
fn programs_are_files_of_the_root_or_of_a_directory() {
    let config = load("", |it| it.cgi_bin = Some("/usr/lib/cgi-bin".into())).unwrap();
    let route = "{ path = \"/cgi-bin/**\", methods = [], proxy = [], fastcgi = [], \
                 cgi = \"/usr/lib/cgi-bin\",";
    assert!(config.show().contains(route), "{}", config.show());
    let text = "[[host]]\nroot = \".\"\n[[host.route]]\npath = \"/a/**\"\ncgi = true\n";
    let config = load(text, |_| ()).unwrap();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let shown = config.show();
    assert!(shown.contains("fastcgi = [], cgi = true,"), "{shown}");
    assert!(shown.contains(&format!("in_flight_max = {},", 4 * cpus)), "{shown}");
    let config = load(&format!("{text}in_flight_max = 512"), |_| ()).unwrap();
    assert!(config.show().contains("in_flight_max = 512,"), "{}", config.show());
    let config = load(&text.replace("true", "false"), |_| ()).unwrap();
    assert!(config.settings.hosts[0].routes[0].application.servers.is_empty());
}

#[test]
fn mistakes_are_one_line() {
    let check = |rest: &str, expected: &str| {
        let text = format!("[[host]]\nroot = \".\"\n[[host.route]]\npath = \"*.php\"\n{rest}");
        let error = load(&text, |_| ()).expect_err(rest);
        let error = error.strip_prefix("ropewalk.toml:").expect(&error);
        assert!(error.starts_with(expected) && !error.contains('\n'), "{rest}: {error}");
    };
    let form = "fastcgi must be like \"unix:/run/php/php-fpm.sock\" or \"127.0.0.1:9000\", not ";
    for wrong in ["http://127.0.0.1:9000", "127.0.0.1", "unix:php.sock", "/run/php.sock", ":9000"] {
        check(&format!("fastcgi = \"{wrong}\""), &format!("5:11: {form}\"{wrong}\""));
        check(&format!("fastcgi = [\"a:1\", \"{wrong}\"]"), &format!("5:19: {form}\"{wrong}\""));
    }
    let both = "fastcgi = \"a:1\"\nproxy = [\"http://a\"]";
    check(both, "6:9: proxy, fastcgi and cgi in one route: keep one");
    let idle = "3:1: suffix, root and children of the route \"*.php\" are for fastcgi";
    for key in ["suffix = \".x\"", "root = \"/x\"", "children = 1"] {
        check(key, idle);
        check(&format!("proxy = [\"http://a\"]\n{key}"), idle);
    }
    check("cgi = true\nproxy = [\"http://a\"]", "6:9: proxy, fastcgi and cgi in one route");
    check("fastcgi = \"a:1\"\ncgi = \"/x\"", "5:11: proxy, fastcgi and cgi in one route");
    check("cgi = true\nsuffix = \".x\"", idle);
    check("cgi = \"cgi-bin\"", "5:7: cgi must be true, or a directory from / on, not \"cgi-bin\"");
    check("cgi = true", "3:1: \"*.php\" with cgi: write the directory of the programs and /**");
    check("fastcgi = \"a:1\"\nsuffix = \"a/b\"", "6:10: \"a/b\" is not the end of a name");
    check("fastcgi = \"a:1\"\nroot = \"x\"", "6:8: root must be a directory from / on");
    for wrong in ["/", "//", "srv", "/a/../b", "/a/./b", "/a//b", "/a//"] {
        let error = "5:17: sendfile_root must be a directory below /, without . and ..";
        check(&format!("sendfile_root = \"{wrong}\""), error);
    }
    let missing = "3:1: \"/usr/none\" does not exist: name the directory to serve";
    check("proxy = \"http://a\"\nsendfile_root = \"/usr/none\"", missing);
    let unasked = "3:1: health and health_ms of the route \"*.php\" are for proxy, which it lacks";
    for keys in ["health = \"/up\"", "fastcgi = \"a:1\"\nhealth_ms = 100"] {
        check(keys, unasked);
    }
    let long = format!("/{}", "x".repeat(1024));
    for wrong in ["up", "http://a/", "/a b", "/a\\u0000", "/a#b", "/ä", &long] {
        let error = "6:10: health must be a path as it is in a request, like \"/health\"";
        check(&format!("proxy = \"http://a\"\nhealth = \"{wrong}\""), error);
    }
    check("proxy = \"http://a\"\nhealth_ms = 9", "6:13: health_ms must be a number from 10 to");
    let word = "6:11: balance must be \"auto\", \"round-robin\", ";
    check("proxy = \"http://a\"\nbalance = \"rr\"", word);
    check("fastcgi = \"a:1\"\nweights = [1, 2]", "6:11: weights must be a list with a number");
}

/// Only the routes of a host together show whether it is: that is found at the start.
#[test]
fn the_front_controller_is_a_script() {
    let check = |keys: &str, expected: &str| {
        let route = "[[host.route]]\npath = \"*.php\"\nfastcgi = \"a:1\"";
        let text = format!("[[host]]\nroot = \".\"\n{keys}\n{route}");
        let checked = server::check(&load(&text, |_| ()).unwrap());
        let Err(error) = checked else { panic!("{keys}: it is accepted") };
        let error = error.to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    };
    check("front_controller = \"/index.html\"", "3:20: \"/index.html\" is no script");
}
