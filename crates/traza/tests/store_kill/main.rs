//! Processes that are killed while four threads of them take spans in.
//!
//! Promise: with durability `wal`, a span whose batch was acknowledged is there after the process was killed, whatever it was
//! doing: appending, sealing, merging. Attack: SIGKILL after a number of acknowledgements that differs from
//! round to round, over stores that go on from round to round. Oracle: the acknowledgements that came through a pipe.

#[cfg(test)]
mod rounds {
    use std::collections::BTreeMap;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::path::Path;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use durable::Outcome;
    use traza::json::{Object, Value};
    use traza::payload::{ContentAddress, reference};
    use traza::span::Span;
    use traza::store::{Compaction, Durability, Store, StoreOptions, Upkeep, verify};

    const THREADS: u64 = 4;
    /// Spans of a batch.
    const BATCH: u64 = 8;
    /// Unless `DAYBOOK_SOAK_ROUNDS` has another number.
    const ROUNDS: u64 = 100;
    /// On a busy machine there are fewer rounds, unless their number was asked for.
    const TIME_MAX: Duration = Duration::from_secs(40);
    const ROUNDS_MIN: u64 = 20;
    const ROUNDS_OF_A_STORE: u64 = 10;
    /// Tells the child which store and which round.
    const STORE: &str = "TRAZA_KILL_STORE";
    const ROUND: &str = "TRAZA_KILL_ROUND";
    const THIS_TEST: &str = "rounds::no_span_that_was_acknowledged_to_one_of_four_threads_is_lost_in_a_crash_by_sigkill";

    /// Seals, merges and shortens its log all the time.
    fn options() -> StoreOptions {
        let mut options = StoreOptions::default();
        options.durability = Durability::Wal;
        options.flush_spans = 60;
        options.flush_wal_bytes = 30_000;
        options.payload_threshold = Some(40);
        options.compaction = Some(Compaction {
            fanout: 3,
            base_len: 16 << 10,
            output_len_max: 1 << 20,
            records_len_max: 0,
        });
        options
    }

    fn trace_id(round: u64, thread: u64) -> String {
        format!("round-{round}-thread-{thread}")
    }

    fn span(round: u64, thread: u64, batch: u64, index: u64) -> Span {
        let text = format!("batch {batch} of round {round}: {}", "long ".repeat(10));
        Span {
            trace_id: trace_id(round, thread).into(),
            span_id: format!("{batch}-{index}").into(),
            name: "work".into(),
            service: format!("thread-{thread}").into(),
            start_time_ns: round * 1_000_000 + batch * 100 + index,
            end_time_ns: round * 1_000_000 + batch * 100 + index + 50,
            attributes: Object::from([
                ("number".to_owned(), Value::from(batch * BATCH + index)),
                // One payload for the whole batch.
                ("prompt".to_owned(), Value::from(text)),
            ]),
            ..Span::default()
        }
    }

    /// Takes batches in from four threads, says so of each one that is acknowledged, and does not end by itself.
    fn be_the_child(dir: &Path) {
        let round: u64 = std::env::var(ROUND).unwrap().parse().unwrap();
        let store = Store::open(dir, options()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let store = &store;
                scope.spawn(move || {
                    for batch in 0.. {
                        let spans = (0..BATCH).map(|index| span(round, thread, batch, index));
                        store.ingest(spans.collect()).unwrap();
                        let line = format!("acknowledged {thread} {batch}\n");
                        // One write: what the pipe has of it is a whole line.
                        let mut out = std::io::stdout().lock();
                        out.write_all(line.as_bytes()).unwrap();
                        out.flush().unwrap();
                    }
                });
            }
        });
    }

    /// Runs this test once more, as the child.
    fn start(dir: &Path, round: u64) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", THIS_TEST, "--nocapture"])
            .env(STORE, dir)
            .env(ROUND, round.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Kills a child after so many acknowledgements. Answers how many batches of each thread were acknowledged.
    fn kill_after(dir: &Path, round: u64, acknowledgements: usize) -> BTreeMap<u64, u64> {
        let mut child = start(dir, round);
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut done: BTreeMap<u64, u64> = BTreeMap::new();
        let mut seen = 0;
        for line in output.lines() {
            let line = line.unwrap();
            let Some(numbers) = line.strip_prefix("acknowledged ") else {
                continue;
            };
            let (thread, batch) = numbers.split_once(' ').unwrap();
            let batch: u64 = batch.parse().unwrap();
            let before = done.insert(thread.parse().unwrap(), batch + 1);
            assert_eq!(before.unwrap_or(0), batch, "one after the other");
            seen += 1;
            if seen == acknowledgements {
                child.kill().unwrap();
            }
        }
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "it did not end by itself: {status}");
        done
    }

    fn check(store: &Store, round: u64, done: &BTreeMap<u64, u64>) {
        for (thread, batches) in done {
            let found = store.get_trace(&trace_id(round, *thread), None).unwrap();
            let wanted = usize::try_from(batches * BATCH).unwrap();
            assert!(
                found.len() >= wanted,
                "round {round}: {} of {wanted} spans of thread {thread}",
                found.len()
            );
            // Batches are whole: also one that nobody could acknowledge any more.
            assert!(found.len().is_multiple_of(usize::try_from(BATCH).unwrap()));
            for (number, stored) in (0..).zip(&found) {
                let mut wanted = span(round, *thread, number / BATCH, number % BATCH);
                offload(&mut wanted);
                assert_eq!(**stored, wanted, "round {round}");
            }
        }
    }

    /// The long text as the store keeps it in the span.
    fn offload(span: &mut Span) {
        let text = span.attributes["prompt"].as_str().unwrap().to_owned();
        let stored = reference(&text, ContentAddress::of(text.as_bytes()));
        span.attributes.insert("prompt".to_owned(), stored);
    }

    #[test]
    fn no_span_that_was_acknowledged_to_one_of_four_threads_is_lost_in_a_crash_by_sigkill() {
        if let Some(dir) = std::env::var_os(STORE) {
            return be_the_child(Path::new(&dir));
        }
        let asked_for = std::env::var("DAYBOOK_SOAK_ROUNDS").ok();
        let asked_for: Option<u64> = asked_for.map(|rounds| rounds.parse().unwrap());
        let begun = Instant::now();
        let (mut rounds, mut acknowledged) = (0, 0);
        let is_time = |rounds| rounds < ROUNDS_MIN || begun.elapsed() < TIME_MAX;
        while rounds < asked_for.unwrap_or(ROUNDS) && (asked_for.is_some() || is_time(rounds)) {
            let dir = tempfile::tempdir().unwrap();
            let mut all = BTreeMap::new();
            for round in rounds..rounds + ROUNDS_OF_A_STORE {
                // From before the first seal to after several merges.
                let moment = usize::try_from(1 + round * 37 % 90).unwrap();
                let done = kill_after(dir.path(), round, moment);
                acknowledged += done.values().sum::<u64>();
                check(&reopen(dir.path()), round, &done);
                all.insert(round, done);
            }
            rounds += ROUNDS_OF_A_STORE;
            let store = reopen(dir.path());
            for (round, done) in &all {
                check(&store, *round, done);
            }
            assert!(store.stats().segments > 0, "some spans were sealed");
            store.checkpoint().unwrap();
            drop(store);
            let verdict = verify(&durable::RealFs, dir.path()).unwrap();
            assert_eq!(verdict.verdict, Outcome::Intact, "{:#?}", verdict.findings);
        }
        eprintln!(
            "{rounds} rounds in {:.1?}, {} acknowledged spans, none lost",
            begun.elapsed(),
            acknowledged * BATCH
        );
    }

    /// The store as the next process finds it.
    fn reopen(dir: &Path) -> Store {
        let mut options = options();
        options.upkeep = Upkeep::Inline;
        Store::open(dir, options).unwrap()
    }
}
