//! The drivers: every call of a workload is the last one, or the one that fails.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::call::{Action, Call, EIO, ENOSPC, ShortWrite};
use crate::random::Random;
use crate::{Ledger, SimFs, Survival};

/// Any error of a workload or a check.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// One disk that may be left, as the check gets it.
#[derive(Debug)]
pub struct Image {
    /// The disk: everything on it is synced, nothing is open, and it has no faults. It is the
    /// check's own to recover and write.
    pub fs: SimFs,
    /// What survived. [`Survival::Everything`] is also what a killed process leaves, and, after a
    /// failure that the workload saw, the disk as it stands.
    pub survival: Survival,
}

/// How a sweep is made. The default is seed 0, six seeded images per stop, and an empty disk.
#[derive(Clone, Debug)]
pub struct Sweep {
    seed: u64,
    seeded_images: u64,
    start: SimFs,
}

/// What a sweep went through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many mutating calls the workload makes on a healthy disk.
    pub calls: u64,
    /// How many disks were handed to the check.
    pub images: u64,
}

/// Runs [`Sweep::for_each_crash`] as the default sweep.
pub fn for_each_crash<T>(
    run: impl Fn(&SimFs, &mut Ledger<T>) -> Result<(), BoxError>,
    check: impl Fn(&Image, &Ledger<T>) -> Result<(), BoxError>,
) -> Result<Swept, Box<SweepFailure>> {
    Sweep::default().for_each_crash(run, check)
}

/// Runs [`Sweep::for_each_failure`] as the default sweep.
pub fn for_each_failure<T>(
    run: impl Fn(&SimFs, &mut Ledger<T>) -> Result<(), BoxError>,
    check: impl Fn(&Image, &Ledger<T>) -> Result<(), BoxError>,
) -> Result<Swept, Box<SweepFailure>> {
    Sweep::default().for_each_failure(run, check)
}

impl Default for Sweep {
    fn default() -> Self {
        Self {
            seed: 0,
            seeded_images: 6,
            start: SimFs::new(),
        }
    }
}

impl Sweep {
    /// Draws everything that is random from `seed`.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Builds `count` seeded images at each stop, beside the four fixed ones.
    #[must_use]
    pub fn seeded_images(mut self, count: u64) -> Self {
        self.seeded_images = count;
        self
    }

    /// Starts every run from a copy of `disk`, live and synced as it is now, so that preparations
    /// are not swept.
    #[must_use]
    pub fn starting_from(mut self, disk: &SimFs) -> Self {
        self.start = disk.fork();
        self
    }

    /// Runs `run` once whole, and once more for each of its mutating calls with the machine
    /// stopping there: that call and all after it fail and change nothing. An append is stopped
    /// twice, the second time in the middle. Each time `check` gets every disk that may be left;
    /// equal ones once.
    ///
    /// `run` has to make the same calls every time (no threads of its own, no clock, no randomness),
    /// succeed on a healthy disk, and end soon after an error. What it returns after a stop is not
    /// looked at; a panic is a failure.
    ///
    /// # Errors
    /// The first check that failed or panicked, with the seed, the call and its history.
    pub fn for_each_crash<T>(
        &self,
        run: impl Fn(&SimFs, &mut Ledger<T>) -> Result<(), BoxError>,
        check: impl Fn(&Image, &Ledger<T>) -> Result<(), BoxError>,
    ) -> Result<Swept, Box<SweepFailure>> {
        let Rehearsal { calls, mut swept } = self.rehearse(&run, &check)?;
        for call in &calls {
            let whole = (BEFORE, ShortWrite::Nothing);
            let torn = (AMID, ShortWrite::Seeded(self.seed_at(call)));
            let torn = matches!(call.action, Action::Append { len, .. } if len > 1).then_some(torn);
            for (what, short) in std::iter::once(whole).chain(torn) {
                let stop = |fs: &SimFs| fs.stop_at(call.number, short);
                swept.images += self.disturb(&run, &check, &calls, (what, call), stop)?;
            }
        }
        Ok(swept)
    }

    /// Runs `run` once whole, and twice more for each of its mutating calls: that one call fails
    /// with `EIO`, then with `ENOSPC` after a short write, and all others work. `run` sees the error
    /// and does what it likes. Then `check` gets the disk as it stands
    /// ([`Survival::Everything`]) and every disk that a power cut at the end may leave.
    ///
    /// A sync that failed has lost the bytes, or the names, that it was to make durable: they stay
    /// visible, no later sync of the same bytes saves them, and the seeded images may show them.
    ///
    /// # Errors
    /// As [`Sweep::for_each_crash`].
    pub fn for_each_failure<T>(
        &self,
        run: impl Fn(&SimFs, &mut Ledger<T>) -> Result<(), BoxError>,
        check: impl Fn(&Image, &Ledger<T>) -> Result<(), BoxError>,
    ) -> Result<Swept, Box<SweepFailure>> {
        let Rehearsal { calls, mut swept } = self.rehearse(&run, &check)?;
        for call in &calls {
            let short = ShortWrite::Seeded(self.seed_at(call));
            for (what, errno, short) in [
                ("EIO from", EIO, ShortWrite::Nothing),
                ("ENOSPC from", ENOSPC, short),
            ] {
                let fail = |fs: &SimFs| fs.fail_nth(call.number, errno, short);
                swept.images += self.disturb(&run, &check, &calls, (what, call), fail)?;
            }
        }
        Ok(swept)
    }

    /// The run that nothing disturbs, with a power cut after its last call.
    fn rehearse<T>(
        &self,
        run: &impl Fn(&SimFs, &mut Ledger<T>) -> Result<(), BoxError>,
        check: &impl Fn(&Image, &Ledger<T>) -> Result<(), BoxError>,
    ) -> Result<Rehearsal, Box<SweepFailure>> {
        let fs = self.start.fork();
        let mut ledger = Ledger::default();
        let ended = guarded(|| run(&fs, &mut ledger));
        let calls = fs.calls();
        let judged = match ended {
            Ok(Ok(())) => self.judge(&fs, &ledger, check, None),
            Ok(Err(error)) => Err((None, format!("it fails on a healthy disk: {error}"))),
            Err(panic) => Err((None, panic)),
        };
        match judged {
            Ok(images) => {
                let swept = Swept {
                    calls: calls.len() as u64,
                    images,
                };
                Ok(Rehearsal { calls, swept })
            }
            Err((survival, reason)) => Err(Box::new(SweepFailure {
                seed: self.seed,
                what: "power is cut after the whole workload",
                call: None,
                survival,
                reason,
                history: calls,
            })),
        }
    }

    /// One run with one fault, and the check of every disk that it may leave. Returns how many.
    fn disturb<T>(
        &self,
        run: &impl Fn(&SimFs, &mut Ledger<T>) -> Result<(), BoxError>,
        check: &impl Fn(&Image, &Ledger<T>) -> Result<(), BoxError>,
        rehearsed: &[Call],
        (what, call): (&'static str, &Call),
        fault: impl Fn(&SimFs),
    ) -> Result<u64, Box<SweepFailure>> {
        let fs = self.start.fork();
        fault(&fs);
        let mut ledger = Ledger::default();
        let ended = guarded(|| run(&fs, &mut ledger));
        let history = fs.calls();
        let until = usize::try_from(call.number).unwrap_or(usize::MAX);
        let judged = if let Err(panic) = ended {
            Err((None, panic))
        } else if history.get(..until) != rehearsed.get(..until) {
            Err((None, "the workload does not repeat its calls".to_owned()))
        } else {
            self.judge(&fs, &ledger, check, Some(call))
        };
        judged.map_err(|(survival, reason)| {
            Box::new(SweepFailure {
                seed: self.seed,
                what,
                call: Some(call.clone()),
                survival,
                reason,
                history,
            })
        })
    }

    /// Hands every disk that `fs` may leave to the check; equal ones once. Returns how many.
    fn judge<T>(
        &self,
        fs: &SimFs,
        ledger: &Ledger<T>,
        check: &impl Fn(&Image, &Ledger<T>) -> Result<(), BoxError>,
        call: Option<&Call>,
    ) -> Result<u64, (Option<Survival>, String)> {
        let number = call.map_or(0, |call| call.number);
        let seeded = (1..=self.seeded_images)
            .map(|image| Survival::Seeded(Random::seed_of(&[self.seed, number, image])));
        let mut seen = Vec::new();
        for survival in FIXED.into_iter().chain(seeded) {
            let fs = fs.after_crash(survival);
            let contents = fs.contents();
            if seen.contains(&contents) {
                continue;
            }
            seen.push(contents);
            let image = Image { fs, survival };
            match guarded(|| check(&image, ledger)) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return Err((Some(survival), error.to_string())),
                Err(panic) => return Err((Some(survival), panic)),
            }
        }
        Ok(seen.len() as u64)
    }

    fn seed_at(&self, call: &Call) -> u64 {
        Random::seed_of(&[self.seed, call.number])
    }
}

/// The images of every stop. The one that a killed process leaves comes first: of equal ones the
/// first is kept, and a kill has the strongest promises.
const FIXED: [Survival; 4] = [
    Survival::Everything,
    Survival::Nothing,
    Survival::NamesOnly,
    Survival::BytesOnly,
];

const BEFORE: &str = "the machine stops before";
const AMID: &str = "the machine stops in the middle of";

#[derive(Debug)]
struct Rehearsal {
    calls: Vec<Call>,
    swept: Swept,
}

/// Turns a panic into its message.
fn guarded<R>(act: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("panicked: {}", text.unwrap_or("no message"))
    })
}

/// What a sweep found, with what it takes to see it again. `Debug` prints the same text as
/// `Display`, so that a test that unwraps shows it readably.
#[derive(Clone)]
pub struct SweepFailure {
    /// The seed of the sweep.
    pub seed: u64,
    /// The call that was stopped or failed; none when the whole workload ran.
    pub call: Option<Call>,
    /// The disk that was not as it should be, for [`SimFs::after_crash`]; none when the workload
    /// itself failed.
    pub survival: Option<Survival>,
    /// What the check said.
    pub reason: String,
    /// Every mutating call of that run.
    pub history: Vec<Call>,
    what: &'static str,
}

impl fmt::Display for SweepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  seed={}: {}", self.reason, self.seed, self.what)?;
        if let Some(call) = &self.call {
            write!(f, " {call}")?;
        }
        if let Some(survival) = self.survival {
            write!(f, "\n  what survives of the unsynced: {survival:?}")?;
        }
        f.write_str("\n  the calls of this run:")?;
        for call in &self.history {
            write!(f, "\n    {call}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for SweepFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SweepFailure {}
