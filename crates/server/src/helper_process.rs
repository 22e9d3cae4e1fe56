//! Helper processes: what an engine has started that does for it what may wait for the disk. Like
//! worker processes they are this program, started by exec; they serve nobody.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use engines::StartHelper;
use engines::jobs::Runner;
use os::signals::{Signal, SignalDescriptor};
use site::Site;

use crate::config::Config;
use crate::patience::Patience;
use crate::report::{self, report};

/// The first argument of a helper process, where worker processes have their place.
pub(crate) const NAME: &str = "helper";

/// Starts helpers for a server with this configuration.
pub(crate) fn starter(config: &Config) -> StartHelper {
    let config = config.clone();
    Arc::new(move |socket| {
        let configuration = os::shared_memory::create_text(&config.show())?;
        let passed: Vec<OwnedFd> = vec![socket, configuration];
        let program = &config.worker_program;
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).arg(NAME);
        command.args(passed.iter().map(|descriptor| descriptor.as_raw_fd().to_string()));
        // Ctrl-C is for the server, with whose end the socket closes.
        command.process_group(0).stdin(Stdio::null());
        os::inheritance::pass_on(&mut command, passed);
        command.spawn()
    })
}

/// Helps until the server is gone. The arguments are the numbers of what it has passed on; an error
/// is about them.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let [socket, configuration] = arguments else { return Err("too few descriptors".into()) };
    let take = |number: &String| {
        let number = number.parse().map_err(|_| format!("{number:?} is no descriptor"))?;
        os::inheritance::take(number).map_err(|why| why.to_string())
    };
    let (socket, configuration) = (take(socket)?, take(configuration)?);
    let _blocked = SignalDescriptor::new(&Signal::ALL).map_err(|why| why.to_string())?;
    // A helper that waited for somebody to read standard error would help nobody.
    let reporter = report::begin().map_err(|why| why.to_string())?;
    let helped = engines::run_helper_process(socket, || {
        let configuration = os::shared_memory::read_text(configuration.as_fd())
            .map_err(|why| format!("cannot read the configuration: {why}"))?;
        let settings = Config::read_effective(&configuration)?.settings;
        let site = Arc::new(Site::new(settings.hosts).map_err(|why| why.to_string())?);
        Runner::new(site, settings.cache.small_body_bytes_max)
            .map_err(|why| format!("cannot open a root: {why}"))
    });
    if let Err(why) = helped {
        report(&format!("helper process: {why}"));
    }
    reporter.end(&mut Patience::none());
    Ok(())
}
