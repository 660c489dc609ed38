//! Promise: the drivers pass a writer that keeps its word and catch one that does not.
//! Attack: the published file and the append-only log, right, and wrong in the ways that are common.
//! Oracle: the drivers' verdict. The broken writers are the right ones with one guard off.

use std::io;
use std::path::Path;

use durable::{Access, Fs, publish, read_all, sync_parent};
use durable_sim::{
    Action, BoxError, Image, Ledger, SimFs, Survival, Sweep, SweepFailure, Swept, for_each_crash,
    for_each_failure,
};

const HEAD: &str = "d/head";
const LOG: &str = "d/log";

/// Longer than a sector, so that a torn one shows.
fn generation(number: u8) -> Vec<u8> {
    vec![number; 700]
}

/// A disk with an empty, durable folder.
fn prepared() -> SimFs {
    let fs = SimFs::new();
    fs.create_dir(Path::new("d")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs
}

type Publisher = fn(&dyn Fs, &Path, &[u8]) -> io::Result<()>;

/// Publishes three generations, going on after an error.
fn publishing(
    publisher: Publisher,
) -> impl Fn(&SimFs, &mut Ledger<Vec<u8>>) -> Result<(), BoxError> {
    move |fs, ledger| {
        for number in 1..=3 {
            ledger.submit(generation(number));
            if publisher(fs, Path::new(HEAD), &generation(number)).is_ok() {
                ledger.acknowledge(generation(number));
            }
        }
        Ok(())
    }
}

/// The published file is absent only before the first acknowledgement; else it is one generation,
/// whole, and none older than the newest acknowledged one.
fn check_head(image: &Image, ledger: &Ledger<Vec<u8>>) -> Result<(), BoxError> {
    let newest = ledger.acknowledged().last().map_or(0, |bytes| bytes[0]);
    if !image.fs.exists(Path::new(HEAD))? {
        assert_eq!(newest, 0, "an acknowledged file is gone");
        return Ok(());
    }
    let found = read_all(&image.fs, Path::new(HEAD), 1 << 20)?;
    assert!(ledger.submitted().contains(&found), "a mix was published");
    assert!(found[0] >= newest, "an older generation is back");
    Ok(())
}

fn sweep_publisher(publisher: Publisher) -> Result<Swept, Box<SweepFailure>> {
    Sweep::default()
        .starting_from(&prepared())
        .for_each_crash(publishing(publisher), check_head)
}

#[test]
fn publish_passes_the_crash_sweep() {
    let swept = sweep_publisher(publish).unwrap();
    assert_eq!(swept.calls, 18);
    assert!(swept.images > 40, "{swept:?}");
}

#[test]
fn publish_passes_the_failure_sweep() {
    let swept = Sweep::default()
        .starting_from(&prepared())
        .for_each_failure(publishing(publish), check_head)
        .unwrap();
    assert!(swept.images > 40, "{swept:?}");
}

#[test]
fn a_publish_without_a_file_sync_is_caught() {
    let failure = sweep_publisher(|fs, path, bytes| {
        let temporary = path.with_extension("tmp");
        fs.create_new(&temporary, Access::Shared)?.append(bytes)?;
        fs.rename(&temporary, path)?;
        sync_parent(fs, path)
    })
    .unwrap_err();
    assert!(failure.reason.contains("a mix was published"), "{failure}");
}

#[test]
fn a_publish_without_a_folder_sync_is_caught() {
    let failure = sweep_publisher(|fs, path, bytes| {
        let temporary = path.with_extension("tmp");
        let mut file = fs.create_new(&temporary, Access::Shared)?;
        file.append(bytes)?;
        file.sync()?;
        fs.rename(&temporary, path)
    })
    .unwrap_err();
    assert!(failure.reason.contains("is gone"), "{failure}");
}

#[test]
fn a_publish_in_place_is_caught() {
    let failure = sweep_publisher(|fs, path, bytes| {
        let mut file = match fs.open_append(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs.create_new(path, Access::Shared)?,
            other => other?,
        };
        file.set_len(0)?;
        file.append(bytes)?;
        file.sync()?;
        sync_parent(fs, path)
    })
    .unwrap_err();
    assert!(failure.reason.contains("a mix was published"), "{failure}");
}

#[test]
fn a_publish_that_removes_the_old_file_first_is_caught() {
    let failure = sweep_publisher(|fs, path, bytes| {
        let temporary = path.with_extension("tmp");
        let mut file = fs.create_new(&temporary, Access::Shared)?;
        file.append(bytes)?;
        file.sync()?;
        if fs.exists(path)? {
            fs.remove_file(path)?;
        }
        fs.rename(&temporary, path)?;
        sync_parent(fs, path)
    })
    .unwrap_err();
    assert!(failure.reason.contains("is gone"), "{failure}");
}

/// A log of records, each `[number; 300]` and a checksum: long enough to cross sectors.
const RECORD_LEN: usize = 304;

fn record(number: u8) -> Vec<u8> {
    let body = [number; RECORD_LEN - 4];
    let crc = durable::checksum::crc32(&body).to_le_bytes();
    [&body[..], &crc].concat()
}

/// The numbers of the whole records up to the first that is not.
fn recovered(fs: &SimFs) -> io::Result<Vec<u8>> {
    if !fs.exists(Path::new(LOG))? {
        return Ok(Vec::new());
    }
    let bytes = read_all(fs, Path::new(LOG), 1 << 20)?;
    Ok(bytes
        .chunks(RECORD_LEN)
        .take_while(|chunk| *chunk == record(chunk[0]))
        .map(|chunk| chunk[0])
        .collect())
}

fn check_log(image: &Image, ledger: &Ledger<u8>) -> Result<(), BoxError> {
    Ok(ledger.check_prefix(&recovered(&image.fs)?)?)
}

/// What a log writer does, so that each guard can be left out.
#[derive(Clone, Copy)]
struct Guards {
    folder_synced: bool,
    synced_before_acknowledged: bool,
    reopened_at_the_last_whole_record: bool,
}

const ALL: Guards = Guards {
    folder_synced: true,
    synced_before_acknowledged: true,
    reopened_at_the_last_whole_record: true,
};

/// Appends five records, syncs each, acknowledges each. After an error it opens the log anew, cuts
/// what is not acknowledged, since a failed sync may have lost it, and goes on with the next record.
fn logging(guards: Guards) -> impl Fn(&SimFs, &mut Ledger<u8>) -> Result<(), BoxError> {
    move |fs, ledger| {
        let path = Path::new(LOG);
        let mut file = fs.create_new(path, Access::Shared)?;
        if guards.folder_synced {
            sync_parent(fs, path)?;
        }
        for number in 1..=5 {
            ledger.submit(number);
            let appended = file.append(&record(number));
            if !guards.synced_before_acknowledged && appended.is_ok() {
                ledger.acknowledge(number);
            }
            if appended.and_then(|()| file.sync_data()).is_ok() {
                if guards.synced_before_acknowledged {
                    ledger.acknowledge(number);
                }
                continue;
            }
            file = fs.open_append(path)?;
            if guards.reopened_at_the_last_whole_record {
                file.set_len((ledger.acknowledged().len() * RECORD_LEN) as u64)?;
            }
        }
        Ok(())
    }
}

fn sweep_log(guards: Guards) -> Result<Swept, Box<SweepFailure>> {
    Sweep::default()
        .starting_from(&prepared())
        .for_each_crash(logging(guards), check_log)
}

fn fail_log(guards: Guards) -> Result<Swept, Box<SweepFailure>> {
    let check = |image: &Image, ledger: &Ledger<u8>| -> Result<(), BoxError> {
        Ok(ledger.check_in_order(&recovered(&image.fs)?)?)
    };
    let run = logging(guards);
    // A log that could not be created has nothing to go on with.
    let run = |fs: &SimFs, ledger: &mut Ledger<u8>| run(fs, ledger).or(Ok(()));
    Sweep::default()
        .starting_from(&prepared())
        .for_each_failure(run, check)
}

#[test]
fn a_log_that_syncs_before_it_acknowledges_passes_both_sweeps() {
    let swept = sweep_log(ALL).unwrap();
    assert_eq!(swept.calls, 12);
    assert!(swept.images > 20, "{swept:?}");
    fail_log(ALL).unwrap();
}

#[test]
fn a_log_whose_folder_is_not_synced_is_caught() {
    let guards = Guards {
        folder_synced: false,
        ..ALL
    };
    let failure = sweep_log(guards).unwrap_err();
    assert!(failure.reason.contains("acknowledged"), "{failure}");
}

#[test]
fn a_log_that_acknowledges_before_it_syncs_is_caught() {
    let guards = Guards {
        synced_before_acknowledged: false,
        ..ALL
    };
    let failure = sweep_log(guards).unwrap_err();
    assert!(failure.reason.contains("acknowledged"), "{failure}");
}

#[test]
fn a_log_that_goes_on_after_a_failed_sync_as_if_nothing_were_lost_is_caught() {
    let guards = Guards {
        reopened_at_the_last_whole_record: false,
        ..ALL
    };
    let failure = fail_log(guards).unwrap_err();
    assert!(failure.reason.contains("acknowledged"), "{failure}");
}

#[test]
fn a_failure_names_the_seed_the_call_and_what_led_to_it() {
    let guards = Guards {
        synced_before_acknowledged: false,
        ..ALL
    };
    let failure = Sweep::default()
        .seed(77)
        .starting_from(&prepared())
        .for_each_crash(logging(guards), check_log)
        .unwrap_err();
    let call = failure.call.clone().unwrap();
    assert_eq!(call.action, Action::SyncData);
    assert_eq!(failure.survival, Some(Survival::Nothing));
    let text = format!("{failure:?}");
    assert!(text.contains("seed=77: the machine stops before call 4: sync the data of d/log"));
    assert!(text.contains("\n    call 3: append 304 bytes at 0 to d/log"));
}

#[test]
fn a_process_that_is_killed_leaves_everything_and_may_stop_inside_an_append() {
    let guards = Guards {
        folder_synced: false,
        synced_before_acknowledged: false,
        ..ALL
    };
    let lens = std::cell::RefCell::new(Vec::new());
    let check = |image: &Image, ledger: &Ledger<u8>| -> Result<(), BoxError> {
        if image.survival == Survival::Everything && image.fs.exists(Path::new(LOG))? {
            lens.borrow_mut()
                .push(image.fs.metadata(Path::new(LOG))?.len);
            check_log(image, ledger)?;
        }
        Ok(())
    };
    Sweep::default()
        .starting_from(&prepared())
        .for_each_crash(logging(guards), check)
        .unwrap();
    let torn = lens
        .borrow()
        .iter()
        .filter(|len| *len % RECORD_LEN as u64 != 0)
        .count();
    assert_eq!(torn, 5, "one for each append");
}

#[test]
fn panics_of_workload_and_check_are_reported_with_the_call() {
    let create = |fs: &SimFs, _: &mut Ledger<()>| -> Result<(), BoxError> {
        fs.create_new(Path::new("f"), Access::Shared)?;
        Ok(())
    };
    let in_check = for_each_crash(create, |image, _| {
        assert!(image.fs.exists(Path::new("f"))?, "where is it");
        Ok(())
    });
    let failure = in_check.unwrap_err();
    assert!(failure.reason.contains("where is it"), "{failure}");

    let unwrapping = |fs: &SimFs, _: &mut Ledger<()>| -> Result<(), BoxError> {
        fs.create_new(Path::new("f"), Access::Shared)
            .expect("created");
        Ok(())
    };
    let failure = for_each_failure(unwrapping, |_, _| Ok(())).unwrap_err();
    assert_eq!(failure.call.as_ref().map(|call| call.number), Some(1));
    assert!(failure.reason.contains("created"), "{failure}");
}

#[test]
fn a_workload_that_fails_on_a_healthy_disk_or_does_not_repeat_itself_is_refused() {
    let failing = |_: &SimFs, _: &mut Ledger<()>| Err("no reason".into());
    let failure = for_each_crash(failing, |_, _| Ok(())).unwrap_err();
    assert!(failure.reason.contains("no reason"), "{failure}");

    let runs = std::cell::Cell::new(0);
    let changing = |fs: &SimFs, _: &mut Ledger<()>| -> Result<(), BoxError> {
        runs.set(runs.get() + 1);
        fs.create_dir(Path::new(&format!("d{}", runs.get())))?;
        Ok(())
    };
    let failure = for_each_crash(changing, |_, _| Ok(())).unwrap_err();
    assert!(failure.reason.contains("repeat"), "{failure}");
}

#[test]
fn two_sweeps_with_one_seed_see_the_same_disks() {
    let seen = |seed| {
        let disks = std::cell::RefCell::new(Vec::new());
        Sweep::default()
            .seed(seed)
            .seeded_images(3)
            .starting_from(&prepared())
            .for_each_crash(publishing(publish), |image, _| {
                disks.borrow_mut().push(image.fs.contents());
                Ok(())
            })
            .unwrap();
        disks.into_inner()
    };
    assert!(seen(1) == seen(1));
    assert!(seen(1) != seen(2));
}

#[test]
fn the_oracles_refuse_losses_inventions_and_wrong_orders() {
    let mut ledger = Ledger::default();
    for number in 1..=4 {
        ledger.submit(number);
        if number == 2 {
            ledger.acknowledge_all();
        }
    }
    for right in [&[1, 2][..], &[1, 2, 3], &[1, 2, 3, 4]] {
        ledger.check_prefix(right).unwrap();
        ledger.check_in_order(right).unwrap();
    }
    for wrong in [
        &[][..],
        &[1],
        &[2, 1],
        &[1, 2, 3, 4, 5],
        &[1, 2, 2],
        &[1, 3, 4],
    ] {
        ledger.check_prefix(wrong).unwrap_err();
        ledger.check_in_order(wrong).unwrap_err();
    }
    ledger.check_prefix(&[1, 2, 4]).unwrap_err();
    ledger.check_in_order(&[1, 2, 4]).unwrap();
}
