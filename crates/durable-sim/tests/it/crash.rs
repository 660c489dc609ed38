//! Promise: a crash takes what no sync has made durable, in every way that POSIX allows, and nothing
//! else. Attack: one small history each, many seeds. Oracle: written down by hand.

use std::collections::BTreeSet;
use std::path::Path;

use durable::{Access, Fs as _, FsFile, read_all};
use durable_sim::{SimFs, Survival};

const SEEDS: u64 = 400;

fn create(fs: &SimFs, path: &str, bytes: &[u8]) -> Box<dyn FsFile> {
    let mut file = fs.create_new(Path::new(path), Access::Shared).unwrap();
    file.append(bytes).unwrap();
    file
}

/// A file whose bytes and name are durable.
fn durable_file(fs: &SimFs, path: &str, bytes: &[u8]) -> Box<dyn FsFile> {
    let mut file = create(fs, path, bytes);
    file.sync_data().unwrap();
    durable::sync_parent(fs, Path::new(path)).unwrap();
    file
}

fn content(fs: &SimFs, path: &str) -> Option<Vec<u8>> {
    let path = Path::new(path);
    fs.exists(path)
        .unwrap()
        .then(|| read_all(fs, path, 1 << 20).unwrap())
}

/// Every content of `path` that some crash leaves.
fn outcomes(fs: &SimFs, path: &str) -> BTreeSet<Option<Vec<u8>>> {
    every_image(fs).map(|image| content(&image, path)).collect()
}

fn every_image(fs: &SimFs) -> impl Iterator<Item = SimFs> {
    [
        Survival::Everything,
        Survival::Nothing,
        Survival::NamesOnly,
        Survival::BytesOnly,
    ]
    .into_iter()
    .chain((0..SEEDS).map(Survival::Seeded))
    .map(|survival| fs.after_crash(survival))
}

#[test]
fn synced_bytes_under_a_synced_name_survive_every_crash() {
    let fs = SimFs::new();
    fs.create_dir(Path::new("d")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    let mut file = durable_file(&fs, "d/f", &[7; 2000]);
    file.append(&[8; 2000]).unwrap();
    create(&fs, "d/other", b"x");
    for image in every_image(&fs) {
        let bytes = content(&image, "d/f").unwrap();
        assert!(bytes.starts_with(&[7; 2000]));
        assert!(bytes.len() <= 4000);
    }
}

#[test]
fn unsynced_bytes_are_lost_kept_and_torn_at_sectors() {
    let fs = SimFs::new();
    let mut file = durable_file(&fs, "f", &[1; 100]);
    file.append(&[2; 2000]).unwrap();
    let found = outcomes(&fs, "f");
    let whole: Vec<u8> = [vec![1; 100], vec![2; 2000]].concat();
    assert!(found.contains(&Some(vec![1; 100])), "nothing survives");
    assert!(found.contains(&Some(whole.clone())), "everything survives");
    let found: Vec<Vec<u8>> = found.into_iter().flatten().collect();
    let hole = |bytes: &[u8]| bytes.get(512..1024) == Some(&[0; 512]) && bytes[1024..].contains(&2);
    assert!(
        found.iter().any(|b| hole(b)),
        "a sector in the middle is missing"
    );
    let zeros = |bytes: &[u8]| bytes.len() == 2100 && bytes[100..].iter().all(|b| *b == 0);
    assert!(
        found.iter().any(|b| zeros(b)),
        "the length survives without the bytes"
    );
    assert!(
        found
            .iter()
            .any(|b| b.len() % 512 != 0 && b.len() < 2100 && b.len() > 612)
    );
    for bytes in found {
        assert!(bytes.starts_with(&[1; 100]));
        for (sector, whole) in bytes.chunks(512).zip(whole.chunks(512)) {
            let new = sector.iter().zip(whole).all(|(a, b)| a == b);
            // Sector 0 holds the synced bytes as well, and its old version ends after them.
            let old = sector.iter().all(|b| *b != 2);
            // A sector cut short by the length, or the rest of it read as zeros.
            let cut = sector
                .iter()
                .zip(whole)
                .skip_while(|(a, b)| a == b)
                .all(|(a, _)| *a == 0);
            assert!(new || old || cut, "{sector:?}");
        }
    }
}

#[test]
fn a_sector_never_holds_a_later_write_without_an_earlier_one() {
    let fs = SimFs::new();
    let mut file = durable_file(&fs, "f", b"");
    for byte in 1..=4 {
        file.append(&[byte; 50]).unwrap();
    }
    for bytes in outcomes(&fs, "f").into_iter().flatten() {
        let kept = bytes.iter().take_while(|b| **b != 0).count();
        assert!(bytes[kept..].iter().all(|b| *b == 0), "{bytes:?}");
    }
}

#[test]
fn an_unsynced_cut_is_undone_or_kept() {
    let fs = SimFs::new();
    let mut file = durable_file(&fs, "f", &[1; 1000]);
    file.set_len(300).unwrap();
    let found = outcomes(&fs, "f");
    assert!(found.contains(&Some(vec![1; 1000])));
    assert!(found.contains(&Some(vec![1; 300])));
    file.sync().unwrap();
    assert_eq!(outcomes(&fs, "f"), BTreeSet::from([Some(vec![1; 300])]));
}

#[test]
fn a_created_name_is_forgotten_until_its_folder_is_synced() {
    let fs = SimFs::new();
    create(&fs, "f", b"bytes").sync().unwrap();
    let both = BTreeSet::from([None, Some(b"bytes".to_vec())]);
    assert_eq!(outcomes(&fs, "f"), both);
    fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(
        outcomes(&fs, "f"),
        BTreeSet::from([Some(b"bytes".to_vec())])
    );
}

#[test]
fn a_removed_name_is_back_until_its_folder_is_synced() {
    let fs = SimFs::new();
    durable_file(&fs, "f", b"bytes");
    fs.remove_file(Path::new("f")).unwrap();
    let both = BTreeSet::from([None, Some(b"bytes".to_vec())]);
    assert_eq!(outcomes(&fs, "f"), both);
    fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&fs, "f"), BTreeSet::from([None]));
}

#[test]
fn a_folders_sync_does_not_make_its_own_name_durable() {
    let fs = SimFs::new();
    fs.create_dir(Path::new("d")).unwrap();
    durable_file(&fs, "d/f", b"bytes");
    let both = BTreeSet::from([None, Some(b"bytes".to_vec())]);
    assert_eq!(outcomes(&fs, "d/f"), both);
    fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(
        outcomes(&fs, "d/f"),
        BTreeSet::from([Some(b"bytes".to_vec())])
    );
}

#[test]
fn names_in_one_folder_are_lost_independently() {
    let fs = SimFs::new();
    create(&fs, "a", b"");
    create(&fs, "b", b"");
    let found: BTreeSet<(bool, bool)> = every_image(&fs)
        .map(|image| {
            (
                content(&image, "a").is_some(),
                content(&image, "b").is_some(),
            )
        })
        .collect();
    assert_eq!(found.len(), 4);
}

#[test]
fn a_rename_leaves_the_old_target_or_the_new_one() {
    let fs = SimFs::new();
    durable_file(&fs, "f", b"old");
    create(&fs, "f.tmp", b"new").sync().unwrap();
    fs.rename(Path::new("f.tmp"), Path::new("f")).unwrap();
    let both = BTreeSet::from([Some(b"old".to_vec()), Some(b"new".to_vec())]);
    assert_eq!(outcomes(&fs, "f"), both);
    fs.sync_dir(Path::new("/")).unwrap();
    assert_eq!(outcomes(&fs, "f"), BTreeSet::from([Some(b"new".to_vec())]));
    assert_eq!(outcomes(&fs, "f.tmp"), BTreeSet::from([None]));
}

#[test]
fn a_renamed_file_is_never_lost_under_both_names() {
    let fs = SimFs::new();
    durable_file(&fs, "log", b"old log");
    fs.rename(Path::new("log"), Path::new("log.1")).unwrap();
    create(&fs, "log", b"new log").sync().unwrap();
    for image in every_image(&fs) {
        let old = Some(b"old log".to_vec());
        assert!(content(&image, "log") == old || content(&image, "log.1") == old);
    }
}

#[test]
fn a_rename_across_folders_is_durable_once_the_new_name_is_synced() {
    let fs = SimFs::new();
    for dir in ["from", "to"] {
        fs.create_dir(Path::new(dir)).unwrap();
    }
    fs.sync_dir(Path::new("/")).unwrap();
    durable_file(&fs, "from/f", b"bytes");
    fs.rename(Path::new("from/f"), Path::new("to/f")).unwrap();
    let both = BTreeSet::from([None, Some(b"bytes".to_vec())]);
    fs.sync_dir(Path::new("from")).unwrap();
    assert_eq!(outcomes(&fs, "to/f"), both);
    fs.sync_dir(Path::new("to")).unwrap();
    assert_eq!(outcomes(&fs, "from/f"), BTreeSet::from([None]));
    assert_eq!(
        outcomes(&fs, "to/f"),
        BTreeSet::from([Some(b"bytes".to_vec())])
    );
}

#[test]
fn a_rename_of_unsynced_bytes_may_leave_an_empty_file() {
    let fs = SimFs::new();
    durable_file(&fs, "f", b"old");
    create(&fs, "f.tmp", b"new");
    fs.rename(Path::new("f.tmp"), Path::new("f")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    assert!(outcomes(&fs, "f").contains(&Some(Vec::new())));
}

#[test]
fn hard_links_share_their_bytes_after_a_crash() {
    let fs = SimFs::new();
    let mut file = durable_file(&fs, "a", b"one");
    fs.hard_link(Path::new("a"), Path::new("b")).unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    file.append(b"two").unwrap();
    for image in every_image(&fs) {
        assert_eq!(content(&image, "a"), content(&image, "b"));
        assert!(content(&image, "a").is_some());
    }
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let fs = SimFs::new();
    let mut file = durable_file(&fs, "f", b"");
    file.append(&[3; 9000]).unwrap();
    create(&fs, "g", &[4; 5000]);
    for seed in 0..50 {
        let images = [seed, seed].map(|s| fs.after_crash(Survival::Seeded(s)).contents());
        assert_eq!(images[0], images[1]);
    }
}

#[test]
fn what_is_on_the_disk_after_a_crash_is_durable() {
    let fs = SimFs::new();
    create(&fs, "f", &[5; 3000]);
    for image in every_image(&fs) {
        let again = image.after_crash(Survival::Nothing);
        assert_eq!(again.contents(), image.contents());
        assert!(again.calls().is_empty());
    }
}
