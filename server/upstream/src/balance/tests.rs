//! What all policies have in common, and what each promises.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::*;
use crate::failure::Failure;
use crate::settings::{Address, ServerSettings};

const ALL: [Balancing; 5] = [
    Balancing::Auto,
    Balancing::RoundRobin,
    Balancing::LeastRequests,
    Balancing::TwoChoices,
    Balancing::ClientAddress,
];

fn settings(balancing: Balancing, weights: &[u32]) -> ApplicationSettings {
    let server = |(index, weight): (usize, &u32)| {
        let address = Address::Tcp { host: format!("server-{index}"), port: 80 };
        ServerSettings { address, weight: *weight }
    };
    let servers = weights.iter().enumerate().map(server).collect();
    ApplicationSettings { servers, balancing, ..ApplicationSettings::default() }
}

fn balance(balancing: Balancing, weights: &[u32]) -> Balance {
    Balance::new(&settings(balancing, weights), 7)
}

fn client(number: u32) -> ClientKey {
    ClientKey::new(Ipv4Addr::from_bits(number).into())
}

fn choose(balance: &mut Balance, now: Tick) -> usize {
    let client = client(balance.random.next_u64() as u32);
    balance.choose(client, now, |_| true, |_| true).unwrap()
}

fn choices(balance: &mut Balance, now: Tick, count: usize) -> Vec<usize> {
    (0..count).map(|_| choose(balance, now)).collect()
}

/// How often each server is chosen in so many choices, none of which is in flight at the next.
fn shares(balance: &mut Balance, count: usize) -> Vec<usize> {
    let mut shares = vec![0; balance.servers.len()];
    choices(balance, Tick(0), count).into_iter().for_each(|server| shares[server] += 1);
    shares
}

fn later() -> Tick {
    Tick(0).plus_ms(60_000)
}

#[test]
fn servers_take_turns_by_weight_and_not_in_rows() {
    let mut balance = balance(Balancing::RoundRobin, &[3, 1]);
    choose(&mut balance, Tick(0)); // it began somewhere
    assert_eq!(choices(&mut balance, Tick(0), 8), [0, 0, 1, 0, 0, 0, 1, 0]);
    let mut balance = self::balance(Balancing::Auto, &[0, 1]);
    let turns = choices(&mut balance, Tick(0), 4);
    assert!(turns == [0, 0, 1, 0] || turns == [1, 0, 1, 0], "{turns:?}");
}

#[test]
fn drivers_begin_with_each_server_by_its_weight() {
    let settings = settings(Balancing::RoundRobin, &[3, 1]);
    let first = |seed| choose(&mut Balance::new(&settings, seed), Tick(0));
    let firsts = (0..4000).filter(|seed| first(*seed) == 0).count();
    assert!((2850..3150).contains(&firsts), "{firsts}");
}

#[test]
fn each_policy_has_shares_by_weight_where_nothing_is_in_flight() {
    for balancing in ALL {
        let shares = shares(&mut balance(balancing, &[1, 2, 5]), 8000);
        let is_near = |(share, expected): (&usize, i64)| (*share as i64 - expected).abs() < 250;
        let are_near = shares.iter().zip([1000, 2000, 5000]).all(is_near);
        assert!(are_near, "{balancing:?}: {shares:?}");
    }
}

#[test]
fn more_than_two_servers_are_chosen_among_two_at_random_unless_told_otherwise() {
    for (weights, expected) in
        [(&[1, 1][..], Balancing::RoundRobin), (&[1, 1, 1], Balancing::TwoChoices)]
    {
        assert_eq!(balance(Balancing::Auto, weights).balancing, expected);
    }
}

#[test]
fn the_least_busy_server_is_chosen_for_its_weight() {
    let mut balance = balance(Balancing::LeastRequests, &[1, 3]);
    for _ in 0..400 {
        let server = choose(&mut balance, Tick(0));
        balance.begin(server);
    }
    let in_flight = |balance: &Balance| [0, 1].map(|it: usize| balance.servers[it].in_flight);
    assert_eq!(in_flight(&balance), [100, 300]);
    (0..50).for_each(|_| balance.end(1));
    let next = choices(&mut balance, Tick(0), 1);
    assert_eq!(next, [1]);
}

#[test]
fn of_two_choices_the_less_busy_one_is_taken() {
    let mut balance = balance(Balancing::TwoChoices, &[1; 10]);
    for _ in 0..10_000 {
        let server = choose(&mut balance, Tick(0));
        balance.begin(server);
    }
    let in_flight: Vec<u64> = balance.servers.iter().map(|server| server.in_flight).collect();
    let spread = in_flight.iter().max().unwrap() - in_flight.iter().min().unwrap();
    // One random choice each has a spread of about a hundred.
    assert!(spread < 20, "{in_flight:?}");
    // The busiest of all is never the less busy one.
    (0..50).for_each(|_| balance.begin(4));
    assert!(!choices(&mut balance, Tick(0), 1000).contains(&4));
}

#[test]
fn a_client_stays_with_its_server_as_long_as_that_is_there() {
    let mut balance = balance(Balancing::ClientAddress, &[1, 2, 1]);
    let mut of = |client, is_up: &dyn Fn(usize) -> bool| {
        balance.choose(client, Tick(0), |_| true, is_up).unwrap()
    };
    for number in 0..1000 {
        let client = client(number);
        let server = of(client, &|_| true);
        let without = of(client, &|it| it != 1);
        assert!(if server == 1 { without != 1 } else { without == server });
        assert_eq!(of(client, &|_| true), server);
    }
}

#[test]
fn a_server_that_is_taken_out_of_the_configuration_moves_only_its_own_clients() {
    let all = settings(Balancing::ClientAddress, &[1, 2, 1]);
    let mut fewer = all.clone();
    fewer.servers.remove(0);
    let [mut before, mut after] = [&all, &fewer].map(|it| Balance::new(it, 7));
    for client in (0..1000).map(client) {
        let [before, after] = [&mut before, &mut after]
            .map(|it| it.choose(client, Tick(0), |_| true, |_| true).unwrap());
        assert!(before == 0 || after == before - 1);
    }
}

#[test]
fn a_client_is_its_network_in_ipv6_and_its_address_in_ipv4() {
    let key = |text: &str| ClientKey::new(text.parse::<IpAddr>().unwrap());
    assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:2"));
    assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
}

#[test]
fn a_server_that_fails_three_times_is_left_out_for_a_while() {
    for balancing in ALL {
        let mut balance = balance(balancing, &[1, 1]);
        balance.note_failure(0, later());
        balance.note_failure(0, later());
        assert!(choices(&mut balance, later(), 40).contains(&0), "twice may be chance");
        balance.note_failure(0, later());
        assert_eq!(choices(&mut balance, later(), 40), [1; 40]);
        assert!(choices(&mut balance, later().plus_ms(LEFT_OUT_MS), 40).contains(&0));
        balance.note_success(0);
        assert!(choices(&mut balance, later(), 40).contains(&0));
    }
}

#[test]
fn failures_long_ago_do_not_count() {
    let mut balance = balance(Balancing::RoundRobin, &[1, 1]);
    for minute in 1..10 {
        let now = Tick(0).plus_ms(60_000 * minute);
        balance.note_failure(0, now);
        assert!(choices(&mut balance, now, 2).contains(&0), "after {minute} failures");
    }
}

#[test]
fn the_last_server_is_never_left_out() {
    for balancing in ALL {
        let mut balance = balance(balancing, &[1, 1]);
        let key = client(0);
        for server in [0, 0, 0, 1, 1, 1] {
            balance.note_failure(server, later());
        }
        let mut chosen = choices(&mut balance, later(), 40);
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen, [0, 1], "{balancing:?}");
        let wants_last = |server| server == 1;
        assert_eq!(balance.choose(key, later(), wants_last, |_| false), Some(1));
        assert_eq!(balance.choose(key, later(), |_| false, |_| true), None);
    }
}

#[test]
fn each_server_is_tried_once_before_any_is_tried_again() {
    for balancing in ALL {
        let mut balance = balance(balancing, &[1, 5, 1]);
        // What a dead server has in flight is nothing: it would look like the least busy one.
        [0, 2].into_iter().for_each(|server| balance.begin(server));
        let mut tried = Tried::default();
        for is_late in [false, true, false] {
            let wants = |server| tried.wants(server);
            let server = balance.choose(client(9), Tick(0), wants, |_| true).unwrap();
            tried.note(server, is_late);
            let expected = if is_late { Failure::ConnectTimeout } else { Failure::Unreachable };
            assert_eq!(tried.failure(), expected);
            assert_eq!([tried.take_last(), tried.take_last()], [Some((server, is_late)), None]);
        }
        assert_eq!([0, 1, 2].map(|server| tried.wants(server)), [false; 3], "{balancing:?}");
        assert_eq!(tried.rounds(), 0);
        tried.begin_round();
        assert!(tried.wants(1) && tried.rounds() == 1);
    }
}

proptest! {
    /// Whatever is down, has failed or is busy, a server that is wanted is chosen; and one that is
    /// well, if there is one.
    #[test]
    fn what_is_chosen_is_wanted_and_well_if_any_is(
        balancing in prop::sample::select(&ALL[..]),
        servers in prop::collection::vec((1_u32..1000, any::<[bool; 3]>(), 0_u8..9), 1..90),
        seed: u64,
        number: u32,
    ) {
        let weights: Vec<u32> = servers.iter().map(|(weight, ..)| *weight).collect();
        let mut balance = Balance::new(&settings(balancing, &weights), seed);
        let [wanted, up, failed] = [0, 1, 2].map(|it: usize| {
            servers.iter().map(move |(_, flags, _)| flags[it]).collect::<Vec<_>>()
        });
        for (index, (_, _, in_flight)) in servers.iter().enumerate() {
            (0..*in_flight).for_each(|_| balance.begin(index));
            (0..FAILURES_MAX).filter(|_| failed[index]).for_each(|_| {
                balance.note_failure(index, later());
            });
        }
        let is_well = |it: usize| wanted[it] && up[it] && !failed[it];
        let chosen = balance.choose(client(number), later(), |it| wanted[it], |it| up[it]);
        let any_well = (0..servers.len()).any(is_well);
        match chosen {
            Some(chosen) => prop_assert!(wanted[chosen] && (!any_well || is_well(chosen))),
            None => prop_assert!(!wanted.contains(&true)),
        }
    }
}
