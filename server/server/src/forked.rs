//! How processes that were forked from a worker process learn of another configuration: it is in
//! memory that all of them see. Each reads it when it is told to look, or at the latest where its
//! next request begins.

use std::io;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use engines::jobs::Runner;
use os::shared_memory::SharedText;
use session::{Revision, RevisionSource};
use site::Site;
use upstream::Facilities;

use crate::config::Config;
use crate::local::equip;
use crate::partitions::Machine;
use crate::ready::{Made, Ready, make_ready, next_site};
use crate::report;

/// The exit status of a process that cannot go by another configuration.
const STATUS_REFUSED: i32 = 1;

/// What processes that will be forked from this one go by.
pub(crate) struct Forked {
    /// The configuration. Its mark is the index of the first host, which is the same in all.
    text: SharedText,
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
            text: SharedText::new()?,
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
    pub(crate) fn write(&self, config: &Config, site: &Site) -> io::Result<()> {
        self.text.write(&config.show(), site.first() as u64)
    }

    /// Keeps the site that this process goes by from now on, and those that are forked from it.
    pub(crate) fn keep(&self, made: Made) {
        *self.made.lock().unwrap_or_else(PoisonError::into_inner) = made;
    }

    /// Where a forked process finds the newest revision.
    pub(crate) fn source(self: &Arc<Self>) -> RevisionSource {
        let this = Arc::clone(self);
        RevisionSource { number: self.text.number(), read: Box::new(move || this.read()) }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a process may not serve by an older configuration, and no caller takes errors"
    )]
    fn read(&self) -> Revision {
        self.try_read().unwrap_or_else(|why| {
            report(&format!("a process ends that cannot go by another configuration: {why}"));
            process::exit(STATUS_REFUSED)
        })
    }

    fn try_read(&self) -> Result<Revision, String> {
        let (text, first) = self.text.read().map_err(|why| why.to_string())?;
        let config = Config::read_effective(&text)?;
        let ready = make_ready(&config, &self.machine)?;
        let (hosts, former) = self.made.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let site = next_site(&config, &ready, (&hosts, &former), Some(first as usize))?;
        if !Arc::ptr_eq(&site, &former) {
            // The process asked for the change has opened the roots; one may be missing now.
            let followed = self.runner.follow_with_former_roots(Arc::clone(&site));
            followed.map_err(|why| why.to_string())?;
            self.runner.forget_former();
        }
        equip(site.applications(), &self.facilities);
        self.keep((ready.hosts, Arc::clone(&site)));
        Ok(Revision { site, limits: ready.limits })
    }
}
