//! What works for the workers in threads and processes of its own: the spawner of CGI programs, and
//! the writer of the access log. They stay while workers come and go, as long as they are
//! configured so.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::access_log::{Log, Routes};
use crate::config::{Config, LogSettings, Settings};
use crate::spawner::{Spawner, SpawnerSettings};
use crate::start_error::StartError;
use crate::stop_deadline::{FINAL_WRITE_US, StopDeadline, WORKERS_END_US};

/// How long lines of the former form may come after the log was changed while workers stay: a few
/// times what it takes them to hand on what they have. What a disk holds up comes to the new log.
const LATE_LINES_US: u64 = 1_000_000;

/// The services of a server.
#[derive(Default)]
pub(crate) struct Services {
    pub(crate) spawner: Option<Spawner>,
    pub(crate) log: Option<Log>,
    /// The way of workers' lines to the log.
    routes: Arc<Routes>,
    /// Until when lines may come from workers that write to another log already.
    late_until_us: u64,
    /// By which the spawner was started; none if it never was.
    spawner_settings: Option<SpawnerSettings>,
    /// By which the log was opened.
    log_settings: LogSettings,
    /// The number of the last workers that use them, if they are former ones.
    pub(crate) last_user: u64,
    /// Since when they have been ending, if they are former ones.
    ends_since_us: Option<u64>,
}

/// Services for another configuration, which have been started and are not used yet.
pub(crate) struct Renewal {
    /// None if the spawner stays; or the new one, if there is to be one.
    spawner: Option<Option<Spawner>>,
    /// None if the log stays; or the new one, if there is to be one.
    log: Option<Option<Log>>,
    /// The way to that one, for workers that start.
    routes: Arc<Routes>,
    spawner_settings: SpawnerSettings,
    log_settings: LogSettings,
}

impl Services {
    #[cfg(test)]
    pub(crate) fn with_log(log: Log, routes: Arc<Routes>) -> Self {
        Self { log: Some(log), routes, ..Self::default() }
    }

    /// Whether the spawner is as it is configured.
    pub(crate) fn has_spawner_of(&self, settings: &Settings) -> bool {
        self.spawner_settings.as_ref() == Some(&SpawnerSettings::of(settings))
    }

    /// Starts what is configured otherwise than these services.
    ///
    /// # Errors
    /// What cannot be opened or started.
    pub(crate) fn renew(&self, config: &Config) -> Result<Renewal, StartError> {
        let settings = &config.settings;
        let spawner_settings = SpawnerSettings::of(settings);
        let failed = StartError::system("start the spawner of CGI programs");
        // First, so that it has nothing of what is opened.
        let spawner = match self.spawner_settings.as_ref() == Some(&spawner_settings) {
            true => None,
            false => Some(Spawner::start(config).map_err(failed)?),
        };
        let log_settings = settings.log.clone();
        let routes = Arc::default();
        let mut renewal = Renewal { spawner, log: None, routes, spawner_settings, log_settings };
        if self.log_settings.of_access() != settings.log.of_access() {
            match Log::open(&settings.log) {
                Ok(log) => {
                    let queue = log.as_ref().map(Log::queue);
                    renewal.routes = Arc::new(Routes::begin(&settings.log, queue));
                    renewal.log = Some(log);
                }
                Err(why) => {
                    renewal.end();
                    return Err(why);
                }
            }
        }
        Ok(renewal)
    }

    /// Puts the new services in place. Returns those that are not used any more by workers that
    /// start from now on.
    pub(crate) fn replace(&mut self, renewal: Renewal) -> Self {
        let Renewal { spawner, log, routes, spawner_settings, log_settings } = renewal;
        let mut former = Self::default();
        if let Some(spawner) = spawner {
            former.spawner = std::mem::replace(&mut self.spawner, spawner);
        }
        if let Some(log) = log {
            former.log = std::mem::replace(&mut self.log, log);
            former.routes = std::mem::replace(&mut self.routes, routes);
        }
        (self.spawner_settings, self.log_settings) = (Some(spawner_settings), log_settings);
        former
    }

    /// Has lines of another form than before come to the new log, where there is one, if workers
    /// that stay have any.
    pub(crate) fn lead_to(&self, renewal: &Renewal) {
        let form = renewal.log_settings.access;
        if let Some(Some(log)) = &renewal.log
            && form != self.log_settings.access
        {
            self.routes.lead_to(form, log.queue());
        }
    }

    /// Takes [`Self::lead_to`] back.
    pub(crate) fn lead_back(&self, renewal: &Renewal) {
        if let Some(Some(log)) = &renewal.log {
            self.routes.leave(&log.queue());
        }
    }

    /// As [`Self::replace`], for workers that stay: their log lines come to the new log. Those of
    /// another form still come to the former one for a while.
    pub(crate) fn replace_log(&mut self, renewal: Renewal) -> Self {
        let (routes, form) = (Arc::clone(&self.routes), self.log_settings.access);
        let mut former = self.replace(renewal);
        if former.log.is_some() && form != self.log_settings.access {
            former.late_until_us = os::clock::now() + LATE_LINES_US;
        }
        if let Some(log) = &self.log {
            routes.lead_to(self.log_settings.access, log.queue());
        }
        former.routes = Arc::clone(&routes);
        self.routes = routes;
        former
    }

    /// Whether lines may come from workers that write to another log already.
    pub(crate) fn has_late_lines(&self) -> bool {
        self.late_until_us > 0
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.spawner.is_none() && self.log.is_none()
    }

    /// Starts another spawner in the place of one that has died.
    pub(crate) fn do_housekeeping(&mut self) {
        self.spawner.iter_mut().for_each(Spawner::replace_if_ended);
    }

    /// Has all programs end.
    pub(crate) fn end_programs(&mut self) {
        self.spawner.iter_mut().for_each(Spawner::begin_to_end);
    }

    /// Whether services that no worker uses any more have ended, or had their time for it. It waits
    /// for nothing: it begins to end them, and is called again.
    pub(crate) fn have_ended(&mut self) -> bool {
        let now = os::clock::now();
        if now < self.late_until_us {
            return false;
        }
        let since_us = *self.ends_since_us.get_or_insert(now);
        self.end_programs();
        let is_log_written = self.is_log_written();
        let have_programs_ended = self.spawner.as_ref().is_none_or(Spawner::has_ended);
        (is_log_written || since_us + FINAL_WRITE_US <= now)
            && (have_programs_ended || since_us + WORKERS_END_US <= now)
    }

    /// Whether all lines of the log are written. No more come to it from now on.
    fn is_log_written(&self) -> bool {
        self.log.as_ref().is_none_or(|log| {
            self.routes.leave(&log.queue());
            log.begin_to_close()
        })
    }

    /// Ends the programs, if they end in time. No worker may use them any more.
    pub(crate) fn wait_for_programs(&mut self, until_us: u64) {
        self.spawner.take().into_iter().for_each(|spawner| spawner.end(until_us));
    }

    /// Ends what is left of them. No worker may use them any more. `since_us` is when the wait for
    /// logs began. Returns how many log lines were lost.
    pub(crate) fn end(mut self, since_us: u64, deadline: &mut StopDeadline<'_>) -> u64 {
        self.wait_for_programs(0);
        let dropped = self.log.map_or(0, |log| log.close(since_us, deadline).dropped);
        dropped + self.routes.take_lost()
    }
}

impl Renewal {
    /// The way of lines of workers that start; `current` are the services in place.
    pub(crate) fn routes(&self, current: &Services) -> Arc<Routes> {
        Arc::clone(if self.log.is_some() { &self.routes } else { &current.routes })
    }

    /// The socket at which workers are to have programs started.
    ///
    /// # Errors
    /// There is no descriptor for it.
    pub(crate) fn to_spawner(&self, current: &Services) -> Result<Option<OwnedFd>, StartError> {
        let spawner = self.spawner.as_ref().unwrap_or(&current.spawner).as_ref();
        let failed = StartError::system("start the spawner of CGI programs");
        spawner.map(Spawner::sender).transpose().map_err(failed)
    }

    /// Whether the spawner stays, or there is none.
    pub(crate) fn keeps_spawner(&self) -> bool {
        self.spawner.is_none()
    }

    /// Ends what was started: it is not used after all.
    pub(crate) fn end(self) {
        self.log.flatten().into_iter().for_each(Log::discard);
        let until_us = os::clock::now() + WORKERS_END_US;
        self.spawner.flatten().into_iter().for_each(|it| it.end(until_us));
    }
}
