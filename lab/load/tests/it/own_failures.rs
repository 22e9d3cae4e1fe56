//! Failures of the generator itself are counted separately, and make the run void.

use std::net::SocketAddr;
use std::process::Command;

use load::error_kind::ErrorKind;
use load::plan::ConnectionUse;
use load::void::Void;
use testkit::scripted::{Action, Reply};

use crate::setup::{closed, errors, get, log, millis, plan, run_to_end, scripted, send};

/// A source address that is not this machine's gives the same error as an address without free
/// ports, which would take 28,000 connections.
#[test]
fn out_of_ports() {
    let server = scripted(&[send(&Reply::ok(b"hello"))]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    // An address reserved for documentation (RFC 5737), which no machine has.
    plan.sources = vec!["127.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap()];
    plan.sessions_max = Some(4);
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), [(ErrorKind::OutOfPorts, 2)]);
    assert_eq!(outcome.measures.counts.replies, 2);
    let expected = Void::Failed { kind: ErrorKind::OutOfPorts, times: 2 };
    assert_eq!(outcome.void, [expected]);
}

/// Errors without a kind of their own, such as a source of another family than the target.
#[test]
fn other() {
    let server = scripted(&[send(&Reply::ok(b"hello"))]);
    let mut plan = plan(server.address(), log(&[&[get("/a")]]));
    plan.sources = vec!["::1".parse().unwrap()];
    let outcome = run_to_end(&plan);
    assert_eq!(errors(&outcome), [(ErrorKind::Other, 1)]);
    assert_eq!(outcome.void, []);
}

/// The variable with the address of the server of [`out_of_descriptors`], for its second half.
const SERVER: &str = "ROPEWALK_TEST_FEW_DESCRIPTORS";

/// A process with a low limit of descriptors opens many connections. The limit applies to the whole
/// process, so this test starts itself again as another process with a lower one.
#[test]
fn out_of_descriptors() {
    if let Ok(address) = std::env::var(SERVER) {
        return with_few_descriptors(address.parse().unwrap());
    }
    let server = scripted(&[Action::Wait(millis(300)), send(&Reply::ok(b"hello"))]);
    let child = Command::new("sh")
        .args(["-c", "ulimit -n 40; exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "own_failures::out_of_descriptors"])
        .env(SERVER, server.address().to_string())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    // If the server saw no request, the test's name above is wrong, and nothing was tested.
    assert!(!server.requests().is_empty());
}

fn with_few_descriptors(server: SocketAddr) {
    let mut plan = plan(server, log(&[&[get("/a")]]));
    (plan.model, plan.sessions_max) = (closed(60), Some(60));
    plan.connection_use = ConnectionUse::Keep;
    let outcome = run_to_end(&plan);
    let failed = outcome.measures.errors.get(ErrorKind::OutOfDescriptors);
    // Some of the 40 descriptors are not connections.
    assert!((20..60).contains(&failed), "{failed}");
    assert_eq!(outcome.measures.errors.total(), failed);
    assert_eq!(outcome.measures.counts.replies, 60 - failed);
    let expected = Void::Failed { kind: ErrorKind::OutOfDescriptors, times: failed };
    assert!(outcome.void.contains(&expected), "{:?}", outcome.void);
}
