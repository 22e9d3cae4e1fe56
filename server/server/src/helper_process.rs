//! Helper processes: an engine starts them to do what may wait for the disk. Like worker processes
//! they are this program, started by exec; they have no connections.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use engines::StartHelper;
use engines::jobs::Runner;
use os::signals::{Signal, SignalDescriptor};
use site::Site;

use crate::config::Config;
use crate::report::{self, report};
use crate::stop_deadline::StopDeadline;
use crate::worker_error::{WorkerError, take};

/// The first argument of a helper process; worker processes have their place number there.
pub(crate) const NAME: &str = "helper";

/// Returns a function that starts helpers for a server with this configuration.
pub(crate) fn starter(config: &Config) -> StartHelper {
    let config = config.clone();
    Arc::new(move |socket| {
        let configuration = os::shared_memory::create_text(&config.show())?;
        let passed: Vec<OwnedFd> = vec![socket, configuration];
        let program = &config.worker_program;
        let mut command = Command::new(&program.path);
        command.args(&program.arguments).arg(NAME);
        command.args(passed.iter().map(|descriptor| descriptor.as_raw_fd().to_string()));
        // Ctrl-C is for the server; the socket closes when the server ends.
        command.process_group(0).stdin(Stdio::null());
        os::inheritance::pass_on(&mut command, passed);
        command.spawn()
    })
}

/// Runs a helper until the server has ended. The arguments are the numbers of the inherited
/// descriptors.
pub(crate) fn run(arguments: &[String]) -> Result<(), WorkerError> {
    let [socket, configuration] = arguments else {
        return Err(WorkerError::Arguments("too few descriptors".into()));
    };
    let (socket, configuration) = (take(socket)?, take(configuration)?);
    let _blocked = SignalDescriptor::new(&Signal::ALL)?;
    // Without it, a helper would wait for a reader of standard error and stop helping.
    let reporter = report::begin()?;
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
    reporter.end(&mut StopDeadline::passed());
    Ok(())
}
