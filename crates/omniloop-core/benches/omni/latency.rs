//! How long a call of the recorder holds up the loop that makes it: at the pace of a control loop,
//! and as fast as calls can be made.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use durable::{Fs as _, RealFs};
use omniloop_core::journal::{FrameKind, JournalOptions};
use omniloop_core::recorder::{Policy, Recorder, RecorderOptions};

use crate::report::Latency;
use crate::texts::Texts;
use crate::{Plan, Result};

const PAYLOAD_LEN: usize = 256;
const PACE: Duration = Duration::from_millis(1);

pub(crate) fn measure(plan: &Plan, dir: &Path) -> Result<Vec<Latency>> {
    let texts = Texts::new(PAYLOAD_LEN);
    let paced: u64 = if plan.quick { 2_000 } else { 10_000 };
    let (block, drop) = (Policy::Block, Policy::DropTelemetry);
    Ok(vec![
        pace_itself(paced, &texts)?,
        calls(
            "recorder call at 1 kHz, block",
            block,
            paced,
            Some(PACE),
            dir,
            &texts,
        )?,
        calls(
            "recorder call at 1 kHz, drop",
            drop,
            paced,
            Some(PACE),
            dir,
            &texts,
        )?,
        calls(
            "recorder call at full speed, block",
            block,
            plan.records,
            None,
            dir,
            &texts,
        )?,
        calls(
            "recorder call at full speed, drop",
            drop,
            plan.records,
            None,
            dir,
            &texts,
        )?,
    ])
}

/// What the machine adds by itself: the same copy of a payload, at the same pace, without a recorder.
fn pace_itself(count: u64, texts: &Texts) -> Result<Latency> {
    timed_calls(
        "copy of a payload at 1 kHz",
        count,
        Some(PACE),
        texts,
        |text| {
            std::hint::black_box(text.to_vec());
            Ok(())
        },
    )
}

fn calls(
    name: &'static str,
    policy: Policy,
    count: u64,
    pace: Option<Duration>,
    dir: &Path,
    texts: &Texts,
) -> Result<Latency> {
    let path = dir.join("latency.omni");
    let options = RecorderOptions {
        journal: JournalOptions {
            overwrite: true,
            ..JournalOptions::default()
        },
        policy,
        ..RecorderOptions::default()
    };
    let recorder = Recorder::create(&path, options)?;
    let latency = timed_calls(name, count, pace, texts, |text| {
        // Dropping is an answer that this policy gives by design.
        let _ = recorder.record(FrameKind::Telemetry, text)?;
        Ok(())
    })?;
    let closed = recorder.close()?;
    RealFs.remove_file(&path)?;
    Ok(latency.with_dropped(closed.dropped))
}

/// Times each call alone; with a pace, each waits for its turn first.
fn timed_calls(
    name: &'static str,
    count: u64,
    pace: Option<Duration>,
    texts: &Texts,
    mut call: impl FnMut(&[u8]) -> Result<()>,
) -> Result<Latency> {
    let mut latency = Latency::new(name, texts.payload_len);
    latency.micros.reserve(usize::try_from(count)?);
    let mut turn = Instant::now();
    texts.try_each(count, |text| {
        if let Some(pace) = pace {
            turn += pace;
            thread::sleep(turn.saturating_duration_since(Instant::now()));
        }
        let start = Instant::now();
        call(text)?;
        latency.micros.push(start.elapsed().as_secs_f64() * 1e6);
        Ok(())
    })?;
    Ok(latency)
}
