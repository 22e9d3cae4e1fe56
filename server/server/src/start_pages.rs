//! Hosts whose root has nothing to show at `/`, which beginners take for a fault of the server.

use site::host::Host;

use crate::config::{has_file, one_line};

/// A line for each host that answers 404 to a browser that asks for `/`, with what to do.
pub(crate) fn missing<'h>(hosts: impl IntoIterator<Item = &'h Host>) -> Vec<String> {
    hosts.into_iter().filter(|host| is_without(host)).map(line).collect()
}

/// Whether nothing answers for `/`: no index file, listing, redirect or page of an application. A
/// host without names of index files is meant to have none.
fn is_without(host: &Host) -> bool {
    let settings = host.settings();
    let answers = settings.listing
        || settings.index.is_empty()
        || settings.spa_fallback.is_some()
        || host.redirect(b"/").is_some();
    // A root that cannot be opened is a failure of the start, which is reported.
    !answers && !settings.index.iter().any(|name| has_file(settings, name).unwrap_or(true))
}

fn line(host: &Host) -> String {
    let settings = host.settings();
    let (path, index) = (settings.root.to_string_lossy(), settings.index.join(" or "));
    let root = one_line(&path);
    let is_empty =
        std::fs::read_dir(&settings.root).is_ok_and(|mut entries| entries.next().is_none());
    match is_empty {
        true => format!("nothing at /: {root} is empty: put an {index} there"),
        false => {
            format!("nothing at /: {root} has no {index}: put one there, or use --listing")
        }
    }
}

#[cfg(test)]
mod tests {
    use site::Site;
    use site::host::{HostSettings, RedirectSettings, Symlinks};
    use testkit::Temporary;

    use super::*;

    /// The lines for a root with these files, without its path.
    fn lines(files: &[&str], change: impl FnOnce(&mut HostSettings)) -> Vec<String> {
        let directory = Temporary::new();
        std::fs::create_dir(directory.path().join("root")).unwrap();
        for file in files {
            directory.file(&format!("root/{file}"), "");
        }
        let root = directory.path().join("root");
        let mut settings = HostSettings::new(root.clone());
        change(&mut settings);
        let site = Site::new(vec![settings]).unwrap();
        let path = root.display().to_string();
        missing(site.hosts()).iter().map(|line| line.replace(&path, "ROOT")).collect()
    }

    #[test]
    fn a_root_without_a_start_page_says_what_to_do() {
        let none = ["nothing at /: ROOT has no index.html: put one there, or use --listing"];
        assert_eq!(lines(&["a.txt"], |_| ()), none);
        assert_eq!(lines(&["index.htm", "deep/index.html"], |_| ()), none);
        assert_eq!(lines(&[], |_| ()), ["nothing at /: ROOT is empty: put an index.html there"]);
        let two = |host: &mut HostSettings| host.index.push("start.htm".into());
        let neither =
            "nothing at /: ROOT has no index.html or start.htm: put one there, or use --listing";
        assert_eq!(lines(&["a.txt"], two), [neither]);
        let never = |host: &mut HostSettings| host.symlinks = Symlinks::Never;
        assert_eq!(lines(&["a.txt"], never), none);
    }

    #[test]
    fn the_name_of_a_root_adds_no_line() {
        let directory = Temporary::new();
        directory.file("two\nlines/a.txt", "");
        let root = directory.path().join("two\nlines");
        let site = Site::new(vec![HostSettings::new(root.clone())]).unwrap();
        let expected =
            format!("nothing at /: {root:?} has no index.html: put one there, or use --listing");
        assert_eq!(missing(site.hosts()), [expected]);
    }

    #[test]
    fn a_root_that_answers_says_nothing() {
        let check = |files: &[&str], change: fn(&mut HostSettings)| {
            assert_eq!(lines(files, change), [""; 0], "{files:?}");
        };
        check(&["index.html"], |_| ());
        check(&["index.html.gz"], |_| ());
        check(&["start.htm"], |host| host.index.push("start.htm".into()));
        check(&["a.txt"], |host| host.listing = true);
        check(&["a.txt"], |host| host.index.clear());
        check(&["app.html"], |host| host.spa_fallback = Some("/app.html".into()));
        check(&["a.txt"], |host| {
            let to = "/a.txt".into();
            host.redirects.push(RedirectSettings { from: "/".into(), to, status: 302 });
        });
    }
}
