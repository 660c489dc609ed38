//! `daybook demo`: the whole story on real work.
//!
//! Every step is a real command of this program, run as a process of its own and shown before it runs.
//! The demo checks their exit codes: a step that does not do what is said of it fails the demo.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anstream::eprintln;
use clap::Args;
use durable::checksum::crc32;
use durable::{Fs as _, RealFs, publish, read_all};
use omniloop_core::journal::{JournalPlayer, layout::record_header, segment_path, segment_paths};

use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::STRONG;

/// The training script that is recorded. It ships as an example.
const TRAIN: &str = include_str!("../../../../examples/train.py");
/// Tells a folder of this demo from one that holds something else.
const MARKER: &str = "this-folder-is-daybook-demo.txt";
/// More than any file of the demo.
const LEN_MAX: u64 = 64 << 20;

/// Records, verifies, damages and recovers a small run, step by step.
///
/// It trains a small network with Python, records that, looks into the record, tampers with copies of
/// it and shows what catches that. All files stay in a folder, to be tried by hand.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook demo
  daybook demo my-demo")]
pub(crate) struct DemoArgs {
    /// The folder that it works in. An earlier demo in it is replaced.
    #[arg(default_value = "daybook-demo")]
    pub(crate) dir: PathBuf,
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let program = std::env::current_exe().map_err(|e| Failure::io("cannot find myself", &e))?;
    let demo = Demo {
        dir: args.dir.clone(),
        program,
    };
    demo.prepare()?;
    demo.record_and_look()?;
    demo.tamper()?;
    demo.rotate_and_sign()?;
    demo.say_goodbye()
        .map_err(|e| Failure::io("cannot print", &e))?;
    Ok(DONE)
}

struct Demo {
    dir: PathBuf,
    program: PathBuf,
}

impl Demo {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// An empty folder with the training script.
    fn prepare(&self) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::io(&format!("cannot use {}", self.dir.display()), &e);
        if RealFs.exists(&self.dir).map_err(failed)? {
            if !RealFs.exists(&self.path(MARKER)).map_err(failed)? {
                let what = format!("{} exists and is no earlier demo", self.dir.display());
                return Err(
                    Failure::new(what).with_hint("name another folder: daybook demo FOLDER")
                );
            }
            for file in RealFs.read_dir(&self.dir).map_err(failed)? {
                RealFs.remove_file(&file).map_err(failed)?;
            }
        }
        RealFs.create_dir_all(&self.dir).map_err(failed)?;
        publish(
            &RealFs,
            &self.path(MARKER),
            b"`daybook demo` replaces all files here.\n",
        )
        .and_then(|()| publish(&RealFs, &self.path("train.py"), TRAIN.as_bytes()))
        .map_err(failed)
    }

    fn record_and_look(&self) -> Result<(), Failure> {
        say("1. Record a training run. Each JSON object that it prints becomes telemetry.")?;
        let run = self.text("run.omni");
        self.record(&["-o", &run], &["--seed", "7"], "train.log")?;
        say("2. Verify it: every record is covered by a hash chain.")?;
        self.step(&["verify", &run], 0)?;
        say("3. Look into it. The learning rate is cut halfway, and the loss settles.")?;
        self.step(&["inspect", &run, "--plot"], 0)
    }

    fn tamper(&self) -> Result<(), Failure> {
        say("4. Change one byte in a copy: a digit of a recorded loss.")?;
        let flipped = self.text("flipped.omni");
        self.forge("flipped.omni", false)?;
        self.step(&["verify", &flipped], 1)?;
        say("5. The same by someone who also repairs the checksum: the chain still tells.")?;
        let forged = self.text("forged.omni");
        self.forge("forged.omni", true)?;
        self.step(&["verify", &forged], 1)?;
        say("6. Save what can be saved of the first copy: one flipped bit costs one record.")?;
        self.step(&["recover", &flipped], 0)
    }

    fn rotate_and_sign(&self) -> Result<(), Failure> {
        say("7. Record a second run as a rotated set, signed and attested with a new key.")?;
        let (key, public) = (self.text("operator.pem"), self.text("operator.pub.pem"));
        let set = self.text("signed.omni");
        self.step(&["key", "new", "-o", &key], 0)?;
        self.record(
            &["-o", &set, "--rotate", "40KiB", "--key", &key],
            &["--lr", "0.3"],
            "signed.log",
        )?;
        self.step(&["verify", &set, "--trust", &public], 0)?;
        say(
            "8. Remove the last segment from a copy of the set. Each file left is intact by itself; the attestation knows better.",
        )?;
        let cut = self.text("cut.omni");
        self.copy_all_but_last("signed.omni", "cut.omni")?;
        self.step(&["verify", &cut, "--trust", &public], 1)
    }

    fn say_goodbye(&self) -> io::Result<()> {
        let mut out = Out::new();
        out.line("")?;
        out.line(format_args!(
            "{STRONG}All files are in {}. Try next:{STRONG:#}",
            self.dir.display()
        ))?;
        for command in [
            format!(
                "daybook inspect {} --kind control --limit 5",
                self.text("run.omni")
            ),
            format!("daybook inspect {} --ticks 298..303", self.text("run.omni")),
            format!(
                "daybook export {} --to csv -o run.csv",
                self.text("run.omni")
            ),
            format!("daybook verify {} --json", self.text("forged.omni")),
            "daybook record -o mine.omni -- YOUR COMMAND".to_owned(),
        ] {
            out.line(format_args!("  {command}"))?;
        }
        io::Write::flush(&mut out)
    }

    /// Runs `daybook` with these arguments; it must exit with `expected`.
    fn step(&self, args: &[&str], expected: i32) -> Result<(), Failure> {
        say_command(&format!("daybook {}", args.join(" ")))?;
        let status = Command::new(&self.program).args(args).status();
        let status = status.map_err(|e| Failure::io("cannot run a step of the demo", &e))?;
        expect(status.code(), expected, args)
    }

    /// Records the training script, and puts what it prints into a file.
    fn record(&self, options: &[&str], script_options: &[&str], log: &str) -> Result<(), Failure> {
        let script = self.text("train.py");
        let command = [&["--", "python3", &script], script_options].concat();
        let args = [&["record"], options, &command].concat();
        say_command(&format!("daybook {} > {}", args.join(" "), self.text(log)))?;
        let output = Command::new(&self.program)
            .args(&args)
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|e| Failure::io("cannot run a step of the demo", &e))?;
        publish(&RealFs, &self.path(log), &output.stdout)
            .map_err(|e| Failure::io(&format!("cannot write {log}"), &e))?;
        expect(output.status.code(), 0, &args)
            .map_err(|failure| failure.with_hint("the recorded script needs python3 on the path"))
    }

    /// A copy of `run.omni` in which a digit of the loss at tick 300 is another one.
    fn forge(&self, name: &str, repair_checksum: bool) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::io(&format!("cannot write {name}"), &e);
        let run = self.path("run.omni");
        let mut player = JournalPlayer::open(&run)?;
        player.seek_to_tick(300)?;
        let record = player
            .read_next_data_record()?
            .ok_or_else(|| Failure::new("the recorded run has fewer than 300 ticks"))?;
        let mut bytes = read_all(&RealFs, &run, LEN_MAX).map_err(failed)?;
        let mut payload = record.payload;
        let loss = b"\"loss\": 0.";
        let digit = payload
            .windows(loss.len())
            .position(|window| window == loss)
            .and_then(|at| payload.get_mut(at + loss.len()))
            .ok_or_else(|| Failure::new("the recorded run has no loss at tick 300"))?;
        *digit = if *digit == b'9' { b'1' } else { b'9' };
        let start = usize::try_from(record.offset).unwrap_or(usize::MAX);
        let record_bytes = bytes.get_mut(start..).unwrap_or_default();
        if repair_checksum {
            record_header::CRC32
                .put(record_bytes, &crc32(&payload).to_le_bytes())
                .map_err(|e| Failure::new(e.to_string()))?;
        }
        let place = record_bytes
            .get_mut(record_header::LEN..)
            .unwrap_or_default();
        for (to, from) in place.iter_mut().zip(&payload) {
            *to = *from;
        }
        publish(&RealFs, &self.path(name), &bytes).map_err(failed)
    }

    fn copy_all_but_last(&self, from: &str, to: &str) -> Result<(), Failure> {
        let failed = |e: io::Error| Failure::io(&format!("cannot copy {from}"), &e);
        let segments = segment_paths(self.path(from))?;
        let kept = segments.len().saturating_sub(1);
        let mut pairs: Vec<(PathBuf, PathBuf)> = (0u64..)
            .zip(segments.iter().take(kept))
            .map(|(ordinal, path)| (path.clone(), segment_path(&self.path(to), ordinal)))
            .collect();
        for suffix in [".leaves", ".checkpoint"] {
            pairs.push((
                with_suffix(&self.path(from), suffix),
                with_suffix(&self.path(to), suffix),
            ));
        }
        for (from, to) in pairs {
            let bytes = read_all(&RealFs, &from, LEN_MAX).map_err(failed)?;
            publish(&RealFs, &to, &bytes).map_err(failed)?;
        }
        Ok(())
    }
}

fn say(text: &str) -> Result<(), Failure> {
    let mut out = Out::new();
    out.line(format_args!("\n{STRONG}{text}{STRONG:#}"))
        .and_then(|()| io::Write::flush(&mut out))
        .map_err(|e| Failure::io("cannot print", &e))
}

fn expect(found: Option<i32>, expected: i32, args: &[&str]) -> Result<(), Failure> {
    if found == Some(expected) {
        if expected != 0 {
            eprintln!("(exit code {expected}, as it must be)");
        }
        return Ok(());
    }
    let code = found.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
    let verb = args.join(" ");
    Err(Failure::new(format!(
        "`daybook {verb}` ended with {code}, not {expected}"
    )))
}

fn say_command(command: &str) -> Result<(), Failure> {
    let mut out = Out::new();
    out.line(format_args!("$ {command}"))
        .and_then(|()| io::Write::flush(&mut out))
        .map_err(|e| Failure::io("cannot print", &e))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
