//! Testbeds are written, entered, and left, by kill -9 too.

use super::*;
use crate::binding::tests::allowed;
use crate::needs;
use crate::{Installed, Launch, RunningServer, ServerDescription, SourceTree, Values, Workers};
use os::accounting::threads;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::tools::{CURL, NGINX, has};

const FULL: &str = r#"
    name = "two subnets, heavy I/O"
    cpus = 1
    policy = "spread"
    client_cpus = 0
    affinity = "workers"
    memory = { disk_io = "heavy" }
    disk = { read_bytes_per_s = 10000000 }
    network = { subnets = 2, sources = 3, rate_bits_per_s = 1000000000 }
    [kernel]
    "net.core.somaxconn" = 512
    "net.ipv4.tcp_rmem" = "4096 87380 4194304"
"#;

#[test]
fn a_table_is_read_and_written_back() {
    let testbed = Testbed::parse(FULL).expect("it makes sense");
    assert_eq!(testbed.affinity, Affinity::Workers);
    assert_eq!(
        testbed.network.map(|network| (network.subnets, network.sources)),
        Some((2, Some(3)))
    );
    let text = serde_json::to_string(&testbed).expect("it has names and numbers only");
    assert_eq!(serde_json::from_str::<Testbed>(&text).expect("it was just written"), testbed);
    assert_eq!(Testbed::parse(""), Ok(Testbed::default()));
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let why = Testbed::parse(text).expect_err("it is wrong");
    assert!(why.contains(expected) && !why.contains('\n'), "{why}");
}

#[test]
fn mistakes_are_named_in_a_line() {
    check("cpu = 1", "line 1: unknown key \"cpu\" (did you mean \"cpus\"?)");
    check("policy = \"far\"", "policy must be one of ");
    check("cpus = 3\nreplicas = 2", "2 replicas share them evenly");
    check("replicas = 0", "at least one server");
    check("memory = { disk_io = \"heavy\", cache_share = 0.5 }", "exclude");
    check("disk = {}", "bounds nothing");
    check("network = { subnets = 0 }", "from 1 to 250 subnets");
    check("replicas = 2\nnetwork = { subnets = 1 }", "need a subnet each");
    check("[kernel]\n\"dev.x\" = 1", "no setting");
}

/// A machine of eight CPUs, of which pairs share a cache.
fn machine() -> Topology {
    let read = |path: &str| {
        let cpu: usize = path.strip_prefix("cpu/cpu")?.split('/').next()?.parse().ok()?;
        let pair = cpu / 2 * 2;
        match path.rsplit_once('/')?.1 {
            "level" => path.contains("index0").then(|| "2".to_owned()),
            "shared_cpu_list" => Some(format!("{pair}-{}", pair + 1)),
            _ => None,
        }
    };
    Topology::parse(read, &(0..8).collect::<Vec<usize>>())
}

#[test]
fn copies_share_the_cpus() {
    let testbed = Testbed { cpus: Some(4), replicas: Some(2), ..Testbed::default() };
    let entered = testbed.enter(&machine(), &Accessed::default()).expect("nothing needs root");
    let sets: Vec<&[usize]> = entered.servers.iter().map(|server| &server.cpus[..]).collect();
    assert_eq!(sets, [[0, 1], [2, 3]]);
    assert_eq!(entered.clients.len(), 2);
    assert_eq!(entered.clients[1].server, 1);
    let clients: Vec<&[usize]> = entered.clients.iter().map(|client| &client.cpus[..]).collect();
    assert_eq!(clients, [[4, 6], [5, 7]]);
    assert_eq!(entered.servers[0].place.listen, Ipv4Addr::LOCALHOST);
}

#[test]
fn a_server_without_affinity_may_run_where_its_clients_do_and_nowhere_else() {
    let testbed = Testbed { cpus: Some(2), client_cpus: Some(1), ..Testbed::default() };
    let testbed = Testbed { affinity: Affinity::None, ..testbed };
    let entered = testbed.enter(&machine(), &Accessed::default()).expect("nothing needs root");
    assert_eq!((&entered.servers[0].cpus[..], entered.servers[0].workers), (&[0, 1, 2][..], 2));
    assert_eq!((&entered.cpus.server[..], entered.server_cpus()), (&[0, 1][..], vec![0, 1, 2]));
}

#[test]
fn cpus_are_dealt_and_shared_when_they_are_few() {
    assert_eq!(dealt(&[1, 2, 3], 0, 2), [1, 3]);
    assert_eq!(dealt(&[1], 2, 3), [1]);
    assert_eq!(dealt(&[1, 2], 2, 3), [1]);
}

/// All conditions hold at once, and none is left afterwards.
#[test]
fn a_testbed_is_entered_and_left() {
    if !needs::memory_can_be_bounded() || !needs::networks_can_be_made() {
        return;
    }
    let (files, _folder) = Accessed::example("testbed", 10, 64 << 10);
    let testbed = Testbed::parse(FULL).expect("it makes sense");
    let entered = testbed.enter(&machine(), &files).expect("root may do all of it");
    assert_eq!(entered.plan.map(|plan| plan.cache_bytes), Some(4 * (64 << 10)));
    let settled =
        entered.prepare_page_cache(&files).expect("the files are there").expect("there is a plan");
    assert_eq!(settled.resident_bytes, 4 * (64 << 10));
    assert_eq!((entered.servers.len(), entered.clients.len()), (1, 2));
    assert_eq!(entered.clients[1].sources.len(), 3);
    let place = &entered.servers[0].place;
    let inside =
        system::namespaces::in_network(place.ask_from.as_ref().expect("it is inside"), || {
            fs::read_to_string("/proc/sys/net/core/somaxconn")
        });
    assert_eq!(inside.expect("root may enter").expect("namespaces have it").trim(), "512");
    let left = places(&entered);
    assert!(left.iter().all(|path| path.exists()));
    drop(entered);
    assert!(left.iter().all(|path| !path.exists()), "{left:?}");
}

/// All files and folders that exist while a testbed is entered.
fn places(entered: &Entered) -> Vec<PathBuf> {
    let place = &entered.servers[0].place;
    let groups = place.enclosing.separate.iter().chain(&place.enclosing.unified).cloned();
    groups.chain(place.ask_from.clone()).collect()
}

/// The variable that makes the next test do something: the file in which it lists what it has made.
const VICTIM: &str = "ROPEWALK_LAB_VICTIM";

/// Not a test by itself: it enters a testbed and waits to be killed by the test below.
#[test]
fn victim() {
    let Some(file) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let root = file.with_extension("root");
    let setting = [("vm.dirty_ratio", "5".to_owned())];
    let _settings = Settings::set(&root, &root.join("lock"), &setting).expect("it is there");
    let (files, _folder) = Accessed::example("victim", 2, 4096);
    let testbed = Testbed::parse(FULL).expect("it makes sense");
    let entered = testbed.enter(&machine(), &files).expect("root may do all of it");
    let places = places(&entered);
    let text: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    let part = file.with_extension("part");
    fs::write(&part, text.join("\n")).expect("the folder is writable");
    fs::rename(part, file).expect("the folder is writable");
    std::thread::sleep(std::time::Duration::from_secs(600));
}

/// Waits for a condition, for at most half a minute.
#[track_caller]
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let begun_us = os::clock::now();
    while !is_so() {
        assert!(os::clock::now() - begun_us < 30_000_000, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn nothing_is_left_of_a_testbed_whose_owner_is_killed() {
    if !needs::memory_can_be_bounded() || !needs::networks_can_be_made() {
        return;
    }
    let settings = kernel::tests::example("killed");
    let file = settings.0.with_extension("said");
    let root = file.with_extension("root");
    // A run of this test that failed may have left them.
    let _ = (fs::remove_file(&file), fs::remove_dir_all(&root));
    fs::rename(&settings.0, &root).expect("both are in one folder");
    let settings = accessed::Removed(root);
    let ratio = settings.0.join("vm/dirty_ratio");
    let program = std::env::current_exe().expect("it runs");
    let mut victim = Command::new(program)
        .args(["--exact", "testbed::tests::victim"])
        .env(VICTIM, &file)
        .stdout(Stdio::null())
        .spawn()
        .expect("the test's own program");
    wait_for("the victim has not entered", || file.exists());
    assert_eq!(fs::read_to_string(&ratio).expect("it is there").trim(), "5");
    let said = fs::read_to_string(&file).expect("it is there");
    assert!(said.lines().count() >= 2, "{said}");
    victim.kill().expect("it is our child");
    victim.wait().expect("it is our child");
    wait_for("something is left", || said.lines().all(|path| !Path::new(path).exists()));
    wait_for("a setting is not put back", || {
        fs::read_to_string(&ratio).is_ok_and(|text| text.trim() == "20")
    });
    fs::remove_file(file).expect("it is there");
    let folder = settings.0.parent().expect("it is in the target directory").to_owned();
    // The victim could not remove its own files.
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        if entry.file_name().to_string_lossy().contains(&format!("victim-{}", victim.id())) {
            fs::remove_dir_all(entry.path()).expect("it is ours");
        }
    }
}

/// Each shipped server that is installed, in a network with two subnets and in groups that count
/// its memory, serves clients of both subnets, and its memory is charged to the testbed.
#[test]
fn servers_serve_in_a_testbed() {
    if !needs::memory_can_be_bounded()
        || !needs::networks_can_be_made()
        || !has(&NGINX)
        || !has(&CURL)
    {
        return;
    }
    let (files, folder) = Accessed::example("served", 3, 100_000);
    let testbed = Testbed::parse("memory = { disk_io = \"none\" }\nnetwork = { subnets = 2 }");
    let entered = testbed.expect("it makes sense").enter(&machine(), &files).expect("root may");
    entered.prepare_page_cache(&files).expect("the files are there");
    let descriptions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
    let launch = Launch {
        source_tree: SourceTree::find(false),
        root: folder.0.clone(),
        scratch: std::env::temp_dir(),
        workers: 2,
        cpus: os::affinity::allowed_cpus(),
        memory_bytes_max: None,
        ready_path: "/001".into(),
        workload: Values::new(),
        place: entered.servers[0].place.clone(),
        affinity: Affinity::default(),
    };
    let shipped = ServerDescription::read_all(&descriptions).expect("all are right");
    let there =
        shipped.into_iter().filter_map(|description| description.install(&launch.source_tree).ok());
    // The floor reads its files from a list, and there is none here.
    let mut there: Vec<Installed> = there.filter(|it| it.description.name != "floor").collect();
    // The time that a server takes to start does not matter here, and other tests use the CPUs.
    there.iter_mut().for_each(|it| it.description.ready.within_ms *= 5);
    assert!(there.iter().any(|it| it.description.name == "nginx"), "it is found");
    for installed in there {
        let (name, setting) = (&installed.description.name, &installed.description.settings[0]);
        let server = RunningServer::start(&installed, setting, &launch);
        let server = server.unwrap_or_else(|why| panic!("{name}: {why}"));
        for client in &entered.clients {
            let url = format!("http://{}:{}/001", client.address, server.address().port());
            let command = ["curl".to_owned(), "-sS".to_owned(), url];
            let command = [&client.prefix[..], &command].concat();
            let said = crate::process::run(&command, None);
            let said = said.unwrap_or_else(|why| panic!("{name}: {command:?}: {why}"));
            assert_eq!(said.len(), 100_000, "{name}: {command:?}");
        }
        let workers = installed.description.start.workers.clone();
        if matches!(workers, Some(Workers::Processes | Workers::Threads)) {
            assert_eq!(server.bind_workers(), Ok(()), "{name}");
            let all: Vec<u32> = server.group().processes().into_iter().flat_map(threads).collect();
            let bound = |cpu: &usize| all.iter().any(|&thread| allowed(thread) == cpu.to_string());
            let workers = if name == "relay" { 1 } else { 2 };
            assert!(launch.cpus.iter().take(workers).all(bound), "{name}: {all:?}");
        } else {
            let is_ours = workers == Some(Workers::Bound);
            assert_eq!(server.bind_workers().is_ok(), is_ours, "{name}");
        }
        let charged = entered.enclosure.memory().expect("memory is counted");
        let inside = fs::read_to_string(charged.join("cgroup.procs")).expect("it is there");
        let pid = server.group().processes()[0].to_string();
        let is_below = server.group().folder().is_some_and(|folder| folder.starts_with(charged));
        assert!(is_below || inside.lines().any(|line| line == pid), "{name}: {inside}");
    }
}

/// Whole sockets count as all of their CPUs.
#[test]
fn the_cpus_of_whole_units_are_counted() {
    let machine = machine();
    let count = |text: &str| Testbed::parse(text).expect("it makes sense").server_cpus(&machine);
    assert_eq!(count(""), 1);
    assert_eq!(count("cpus = 4096"), 4096, "what is wanted, where it cannot be had");
    assert_eq!(count("policy = \"socket\"\nclient_cpus = 0\nthreads = true"), 8);
}
