//! The assignment of tasks to processors: a ready list, waiting tasks, and a policy. Seeded.
//!
//! The scheduler knows neither references nor caches; time is an argument.

use statistics::Generator;

use crate::machine::{Policy, Scheduler as Settings};

/// Tasks that do not run.
#[derive(Debug)]
pub(crate) struct Scheduler {
    settings: Settings,
    generator: Generator,
    /// Ready tasks, in the order in which they became ready.
    ready: Vec<u32>,
    /// Waiting tasks: when each wakes, and its number.
    blocked: Vec<(u64, u32)>,
    tasks: Vec<History>,
    pub(crate) switches: u64,
    pub(crate) migrations: u64,
}

#[derive(Debug, Clone, Copy)]
struct History {
    cpu: Option<u32>,
    /// References that the task has had.
    served: u64,
}

impl Scheduler {
    pub(crate) fn new(settings: Settings, tasks: usize, seed: u64) -> Self {
        Self {
            settings,
            generator: Generator::new(seed),
            ready: (0..tasks as u32).collect(),
            blocked: Vec::new(),
            tasks: vec![History { cpu: None, served: 0 }; tasks],
            switches: 0,
            migrations: 0,
        }
    }

    /// Whether a task could run if there were a free processor.
    pub(crate) fn anyone_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next waiting task wakes.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.blocked.iter().map(|(wake, _)| *wake).min()
    }

    /// Returns a task to the ready list after `served` references.
    pub(crate) fn yields(&mut self, task: u32, served: u64) {
        self.tasks[task as usize].served += served;
        self.ready.push(task);
    }

    /// Makes a task wait until `wake`.
    pub(crate) fn blocks(&mut self, task: u32, served: u64, wake: u64) {
        self.tasks[task as usize].served += served;
        self.blocked.push((wake, task));
    }

    /// Takes the task that a free processor runs next.
    pub(crate) fn take(&mut self, cpu: u32, now: u64) -> Option<u32> {
        self.wake(now);
        if self.ready.is_empty() {
            return None;
        }
        let place = match self.settings.policy {
            Policy::Random => self.generator.below(self.ready.len()),
            Policy::Affinity => self.preferred(cpu),
        };
        let task = self.ready.remove(place);
        let history = &mut self.tasks[task as usize];
        self.switches += 1;
        self.migrations += u64::from(history.cpu.is_some_and(|last| last != cpu));
        history.cpu = Some(cpu);
        Some(task)
    }

    fn wake(&mut self, now: u64) {
        // In the order of their wake times, whatever the order in which they began to wait.
        while let Some(place) = self.first_awake(now) {
            let (_, task) = self.blocked.remove(place);
            self.ready.push(task);
        }
    }

    fn first_awake(&self, now: u64) -> Option<usize> {
        let awake = self.blocked.iter().enumerate().filter(|(_, (wake, _))| *wake <= now);
        awake.min_by_key(|(_, (wake, task))| (*wake, *task)).map(|(place, _)| place)
    }

    /// A task that the processor ran last and that is not too far ahead of the others; else the one
    /// that has had least.
    fn preferred(&self, cpu: u32) -> usize {
        let served = |place: &usize| (self.tasks[self.ready[*place] as usize].served, *place);
        let places = 0..self.ready.len();
        let least = places.clone().min_by_key(served).expect("someone is ready");
        let slack = self.settings.affinity_slack_slices * self.settings.slice_references;
        let most = served(&least).0.saturating_add(slack);
        let own = places.filter(|place| {
            let history = self.tasks[self.ready[*place] as usize];
            history.cpu == Some(cpu) && history.served <= most
        });
        own.min_by_key(served).unwrap_or(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scheduler(policy: Policy, tasks: usize) -> Scheduler {
        let settings = Settings { policy, slice_references: 100, ..Settings::default() };
        Scheduler::new(settings, tasks, 1)
    }

    /// Lets every processor take a task in turn, for `rounds` rounds.
    fn rotate(scheduler: &mut Scheduler, cpus: u32, rounds: u32) -> Vec<u32> {
        let mut runs = vec![0; scheduler.tasks.len()];
        for _ in 0..rounds {
            let running: Vec<u32> = (0..cpus).filter_map(|cpu| scheduler.take(cpu, 0)).collect();
            for task in running {
                runs[task as usize] += 1;
                scheduler.yields(task, 100);
            }
        }
        runs
    }

    #[test]
    fn affinity_moves_less_and_starves_no_task() {
        let mut random = scheduler(Policy::Random, 12);
        let mut affinity = scheduler(Policy::Affinity, 12);
        rotate(&mut random, 4, 600);
        let runs = rotate(&mut affinity, 4, 600);
        assert!(affinity.migrations * 4 < random.migrations, "{}", affinity.migrations);
        assert!(runs.iter().all(|&runs| (194..=206).contains(&runs)), "{runs:?}");
    }

    #[test]
    fn random_gives_everybody_a_turn() {
        let runs = rotate(&mut scheduler(Policy::Random, 12), 4, 600);
        assert!(runs.iter().all(|&runs| runs > 120), "{runs:?}");
    }

    #[test]
    fn who_waits_comes_back_in_time_and_not_before() {
        let mut scheduler = scheduler(Policy::Random, 2);
        for wake in [50, 20] {
            let task = scheduler.take(0, 0).expect("ready");
            scheduler.blocks(task, 1, wake);
        }
        assert_eq!((scheduler.take(0, 19), scheduler.next_wake()), (None, Some(20)));
        assert!(scheduler.take(0, 20).is_some());
        assert_eq!(scheduler.take(0, 49), None);
        assert!(scheduler.take(0, 50).is_some());
    }
}
