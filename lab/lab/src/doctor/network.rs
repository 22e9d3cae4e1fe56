//! Checks of what sets the pace of TCP.

use ::doctor::Section::Measuring;
use ::doctor::{Check, Machine, Reading, Rule};

const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

pub(super) const CHECKS: &[Check] = &[Check {
    section: Measuring,
    subject: "congestion control",
    source: "kernel: networking/ip-sysctl; the papers' kernels had cubic",
    good: "cubic or reno",
    cost: "others set a pace of their own: on loopback and short links responses wait for \
               timers, and results compare with no others",
    mend: "sysctl -w net.ipv4.tcp_congestion_control=cubic",
    rule: Rule::Of(&[CONGESTION], congestion_control),
}];

fn congestion_control(machine: &Machine) -> Reading {
    match machine.text(CONGESTION) {
        None => Reading::unreadable(CONGESTION),
        Some(name) => Reading::fine_if(["cubic", "reno"].contains(&name), name),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check_setting;
    use super::*;

    #[test]
    fn settings() {
        check_setting("congestion control", CONGESTION, "cubic\n", "bbr\n");
    }
}
