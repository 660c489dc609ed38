//! Runs independent jobs on a few threads and hands the results back in the order of the jobs.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The number of cores that this process may use.
pub(super) fn cores() -> NonZero<usize> {
    thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)
}

/// What came of the jobs.
pub(super) struct Done<S, T> {
    /// The result of each job, in the order of the jobs, and which worker has made it.
    pub(super) results: Vec<(usize, T)>,
    /// What each worker kept.
    pub(super) workers: Vec<S>,
}

/// Does `work` for every job. Each worker takes the next job when it has done one, and keeps an `S` from job to job.
pub(super) fn run<J: Sync, S: Default + Send, T: Send>(
    jobs: &[J],
    threads: NonZero<usize>,
    work: impl Fn(&mut S, &J) -> T + Sync,
) -> Done<S, T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut kept = S::default();
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else {
                return (kept, results);
            };
            results.push((index, work(&mut kept, job)));
        }
    };
    let all = thread::scope(|scope| {
        let helpers = 1..threads.get().min(jobs.len());
        let helpers: Vec<_> = helpers.map(|_| scope.spawn(worker)).collect();
        let mut all = vec![worker()];
        for helper in helpers {
            all.push(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    });
    let mut results = Vec::with_capacity(jobs.len());
    let mut workers = Vec::with_capacity(all.len());
    for (number, (kept, done)) in all.into_iter().enumerate() {
        workers.push(kept);
        results.extend(
            done.into_iter()
                .map(|(index, result)| (index, (number, result))),
        );
    }
    results.sort_unstable_by_key(|(index, _)| *index);
    Done {
        results: results.into_iter().map(|(_, result)| result).collect(),
        workers,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs_for_any_number_of_threads() {
        let jobs: Vec<u64> = (0..1000).collect();
        for threads in [1, 2, 3, 8] {
            let done = run(
                &jobs,
                NonZero::new(threads).unwrap(),
                |sum: &mut u64, job| {
                    *sum += job;
                    job * job
                },
            );
            assert!(
                done.results
                    .iter()
                    .map(|(_, square)| *square)
                    .eq(jobs.iter().map(|job| job * job))
            );
            assert!(done.results.iter().all(|(worker, _)| *worker < threads));
            assert_eq!(done.workers.iter().sum::<u64>(), 999 * 500);
        }
        let none = run(&[] as &[u8], NonZero::new(4).unwrap(), |(), job| *job);
        assert_eq!((none.results.len(), none.workers.len()), (0, 1));
    }
}
