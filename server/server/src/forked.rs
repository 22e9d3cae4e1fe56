//! How processes that were forked from a worker process learn of another configuration: it is in
//! memory that all of them see, and each reads it where its next request begins.

use std::io;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use engines::jobs::Runner;
use os::shared_memory::Bulletin;
use session::{Elsewhere, Revision};
use site::Site;
use upstream::Facilities;

use crate::config::Config;
use crate::local::equip;
use crate::partitions::Machine;
use crate::ready::{Made, Ready, make_ready, same_site};
use crate::report;

/// The exit status of a process that cannot go by another configuration.
const STATUS_REFUSED: i32 = 1;

/// What processes that will be forked from this one go by.
pub(crate) struct Forked {
    bulletin: Bulletin,
    machine: Machine,
    runner: Arc<Runner>,
    facilities: Facilities,
    /// The last site that this process has known.
    made: Mutex<Made>,
}

impl Forked {
    /// # Errors
    /// There is no memory for it, or no descriptor.
    pub(crate) fn new(
        machine: Machine,
        ready: &Ready,
        runner: &Arc<Runner>,
        facilities: &Facilities,
    ) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            bulletin: Bulletin::new()?,
            machine,
            runner: Arc::clone(runner),
            facilities: facilities.clone(),
            made: Mutex::new((ready.hosts.clone(), Arc::clone(&ready.site))),
        }))
    }

    /// Writes a configuration, which counts for all when its revision is published.
    ///
    /// # Errors
    /// There is no memory for it.
    pub(crate) fn write(&self, config: &Config, ready: &Ready, site: &Arc<Site>) -> io::Result<()> {
        self.bulletin.write(&config.show(), site.first() as u64)?;
        self.keep((ready.hosts.clone(), Arc::clone(site)));
        Ok(())
    }

    /// Where a forked process finds the newest revision.
    pub(crate) fn elsewhere(self: &Arc<Self>) -> Elsewhere {
        let this = Arc::clone(self);
        Elsewhere { number: self.bulletin.number(), read: Box::new(move || this.read()) }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "who cannot go by the newest configuration may not serve, and nobody takes errors"
    )]
    fn read(&self) -> Revision {
        self.try_read().unwrap_or_else(|why| {
            report(&format!("a process ends that cannot go by another configuration: {why}"));
            process::exit(STATUS_REFUSED)
        })
    }

    fn try_read(&self) -> Result<Revision, String> {
        let (text, first) = self.bulletin.read().map_err(|why| why.to_string())?;
        let config = Config::read_effective(&text)?;
        let ready = make_ready(&config, &self.machine)?;
        let (hosts, former) = self.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let site = same_site(&config, &ready, (&hosts, &former), first as usize)?;
        if !Arc::ptr_eq(&site, &former) {
            self.runner.follow(Arc::clone(&site)).map_err(|why| why.to_string())?;
            self.runner.forget_former();
        }
        equip(site.applications(), &self.facilities);
        self.keep((ready.hosts, Arc::clone(&site)));
        Ok(Revision { site, limits: ready.limits })
    }

    fn keep(&self, made: Made) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = made;
    }
}
