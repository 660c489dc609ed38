//! Promised: whatever is appended, with whatever rotation and durability, is what is read: through a
//! buffer or a map, file by file or as one stream, from the start or from any tick; and every number
//! of threads verifies it alike.
//!
//! Attacked with random sequences of records, sizes and limits.
//!
//! The oracle is a plain list of what was appended.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable::{Access, Fs, ManualClock, Outcome, RealFs, Verdict};
use durable_sim::SimFs;
use omniloop_core::journal::{
    Durability, FrameKind, FrameRecord, JournalOptions, JournalPlayer, PlayerOptions,
    RotationPolicy, SegmentedPlayer, StateJournal, VerifyOptions, segment_paths,
    verify_signed_with,
};
use proptest::prelude::*;

use crate::forge::{CHAINED, Forge, Rec};
use crate::support::{DATA_KINDS, START_WALL_NS, bytes_of, path, read};

/// One append of a run, and how long after the one before.
#[derive(Clone, Debug)]
struct Append {
    kind: FrameKind,
    len: usize,
    wait_ns: u64,
}

#[derive(Clone, Debug)]
struct Run {
    appends: Vec<Append>,
    rotation: Option<RotationPolicy>,
    durability: Durability,
    seal: bool,
    ticks: Vec<u64>,
}

/// What a record is, wherever it stands.
type Content = (FrameKind, u64, u64, u64, Vec<u8>);

fn content(record: &FrameRecord) -> Content {
    let payload = record.payload.clone();
    (
        record.kind,
        record.tick,
        record.mono_ns,
        record.wall_ns,
        payload,
    )
}

fn append() -> impl Strategy<Value = Append> {
    let kind = prop_oneof![
        3 => Just(FrameKind::Telemetry),
        2 => proptest::sample::select(DATA_KINDS.to_vec()),
    ];
    let len = prop_oneof![
        20 => 1..200usize,
        2 => Just(0),
        1 => 2_000..70_000usize,
        1 => Just(256 * 1024 - 36),
    ];
    (kind, len, 0..400_000_000u64).prop_map(|(kind, len, wait_ns)| Append { kind, len, wait_ns })
}

fn rotation() -> impl Strategy<Value = Option<RotationPolicy>> {
    let policy = (
        proptest::option::of(300..20_000u64),
        proptest::option::of(3..150u64),
        proptest::option::of((1..20_000u64).prop_map(Duration::from_millis)),
    );
    proptest::option::of(
        policy.prop_map(|(max_bytes, max_records, max_age)| RotationPolicy {
            max_bytes,
            max_records,
            max_age,
        }),
    )
}

fn run() -> impl Strategy<Value = Run> {
    let durability = prop_oneof![
        Just(Durability::Buffered),
        (1..50u64).prop_map(Durability::EveryN),
        (1..1000u64).prop_map(Durability::EveryMs),
        Just(Durability::EachRecord),
    ];
    let appends = proptest::collection::vec(append(), 0..200);
    let ticks = proptest::collection::vec(0..150u64, 12);
    (appends, rotation(), durability, any::<bool>(), ticks).prop_map(
        |(appends, rotation, durability, seal, ticks)| Run {
            appends,
            rotation,
            durability,
            seal,
            ticks,
        },
    )
}

/// Writes the run and gives what was appended.
fn write(run: &Run, fs: &SimFs, rotation: Option<RotationPolicy>) -> Vec<Content> {
    // The clock stands still but between the records, so that stamps do not depend on rotation.
    let clock = Arc::new(ManualClock::new(START_WALL_NS, 0));
    let options = JournalOptions {
        fs: Arc::new(fs.clone()),
        clock: clock.clone(),
        rotation,
        durability: run.durability,
        ..JournalOptions::default()
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    let (mut tick, mut mono) = (0, 0);
    let mut model = Vec::new();
    for (n, append) in run.appends.iter().enumerate() {
        clock.advance(append.wait_ns);
        mono += append.wait_ns;
        tick += u64::from(append.kind == FrameKind::Telemetry);
        let fill = u8::try_from(n % 256).unwrap();
        let payload = vec![fill; append.len];
        journal.append(append.kind, &payload).unwrap();
        model.push((append.kind, tick, mono, START_WALL_NS + mono, payload));
    }
    if run.seal {
        journal.seal().unwrap();
    }
    model
}

fn data_of(mut player: SegmentedPlayer) -> Vec<Content> {
    let mut found = Vec::new();
    while let Some(record) = player.read_next_data_record().unwrap() {
        found.push(content(&record));
    }
    found
}

/// Where the stream goes on after a seek: the record there, and the data record there.
fn sought(player: &mut SegmentedPlayer, tick: u64) -> [Option<Content>; 2] {
    player.seek_to_tick(tick).unwrap();
    let any = player.read_next_record().unwrap();
    player.seek_to_tick(tick).unwrap();
    let data = player.read_next_data_record().unwrap();
    [any, data].map(|r| r.as_ref().map(content))
}

/// Copies a disk's files to a real folder, where they can be mapped.
fn copy_to(dir: &Path, fs: &SimFs) {
    for (name, bytes) in fs.contents() {
        if let Some(bytes) = bytes {
            let to = dir.join(name.file_name().unwrap());
            let mut file = RealFs.create_new(&to, Access::Shared).unwrap();
            file.append(&bytes).unwrap();
        }
    }
}

fn obeys(run: &Run) {
    let fs = SimFs::new();
    let model = write(run, &fs, run.rotation);
    let dir = tempfile::tempdir().unwrap();
    copy_to(dir.path(), &fs);
    let real: Arc<dyn Fs> = Arc::new(RealFs);
    let real_base = dir.path().join(path());
    let mapped = PlayerOptions {
        mapped: true,
        ..PlayerOptions::default()
    };
    let plain = PlayerOptions::default();
    for options in [plain, mapped] {
        let open = || SegmentedPlayer::open_with(Arc::clone(&real), &real_base, options).unwrap();
        let player = open();
        assert!(data_of(player) == model, "the stream is the model");
        let mut player = open();
        // Checkpoints carry the tick of the record before them, so that they come after it.
        for tick in run.ticks.iter().copied().chain([u64::MAX]) {
            let expected = model.iter().find(|(_, t, ..)| *t >= tick);
            let [any, data] = sought(&mut player, tick);
            assert_eq!(data.as_ref(), expected, "tick={tick}");
            if tick > 0 {
                assert_eq!(any.as_ref(), expected, "tick={tick}");
            }
        }
    }
    let mut one_by_one = Vec::new();
    for file in segment_paths(&real_base).unwrap() {
        let mut player = JournalPlayer::open(&file).unwrap();
        while let Some(record) = player.read_next_data_record().unwrap() {
            one_by_one.push(content(&record));
        }
        assert!(!player.is_truncated());
        verifies_alike_with_any_number_of_threads(&file, player.is_finalized());
    }
    assert!(one_by_one == model, "the files make up the model");
    if run.rotation.is_some() {
        let unrotated = SimFs::new();
        write(run, &unrotated, None);
        let player = SegmentedPlayer::open_with(Arc::new(unrotated), path(), plain).unwrap();
        assert!(
            data_of(player) == model,
            "rotation does not change the stream"
        );
    }
    a_seek_needs_no_index(&fs);
}

fn verifies_alike_with_any_number_of_threads(file: &Path, sealed: bool) {
    let verify = |threads| {
        let options = VerifyOptions {
            strict: true,
            threads,
        };
        verify_signed_with(&RealFs, file, &[], options, &mut ()).unwrap()
    };
    let one = verify(1);
    assert_eq!(one, verify(2));
    assert_eq!(one, verify(4));
    let expected = if sealed {
        Outcome::Intact
    } else {
        Outcome::Unproven
    };
    assert_eq!(
        Verdict::outcome_of(&one.chain.findings),
        expected,
        "{one:?}"
    );
}

/// Cuts index and trailer off segment 0: every seek in it leads to the same place.
fn a_seek_needs_no_index(fs: &SimFs) {
    let bytes = bytes_of(fs, path());
    let open = |bytes: &[u8]| {
        let fs = omniloop_core::fuzzing::OneFile::new(bytes);
        JournalPlayer::open_with(&fs, path(), PlayerOptions::default()).unwrap()
    };
    let mut indexed = open(&bytes);
    if !indexed.is_finalized() {
        return;
    }
    let index_offset = u64::from_le_bytes(bytes[bytes.len() - 16..][..8].try_into().unwrap());
    let mut scanned = open(&bytes[..usize::try_from(index_offset).unwrap()]);
    let last = read(&bytes).0.last().map_or(0, |record| record.tick);
    for tick in 0..=last + 1 {
        indexed.seek_to_tick(tick).unwrap();
        scanned.seek_to_tick(tick).unwrap();
        assert_eq!(indexed.position(), scanned.position());
        assert_eq!(
            indexed.read_next_record().unwrap(),
            scanned.read_next_record().unwrap()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_appended_is_what_is_read(run in run()) {
        obeys(&run);
    }
}

#[test]
fn records_longer_than_any_buffer_are_read_and_verified_like_others() {
    let mut forge = Forge::new(CHAINED, 5, 0);
    let mut written = Vec::new();
    for (n, len) in [10, 9_000_000, 300_000, 4_194_304, 10]
        .into_iter()
        .enumerate()
    {
        let tick = n as u64 + 1;
        let rec = Rec::new(0, tick, &vec![u8::try_from(n).unwrap(); len]);
        written.push(rec.payload.clone());
        forge.push(&rec);
        if n % 2 == 1 {
            forge.checkpoint();
        }
    }
    // Many stretches over several chunks.
    for _ in 0..90_000 {
        forge.telemetry();
        if forge.places.len().is_multiple_of(64) {
            forge.checkpoint();
        }
    }
    let bytes = forge.checkpoint().seal();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(path());
    RealFs
        .create_new(&file, Access::Shared)
        .unwrap()
        .append(&bytes)
        .unwrap();
    verifies_alike_with_any_number_of_threads(&file, true);
    let mut player = JournalPlayer::open(&file).unwrap();
    for payload in &written {
        let record = player.read_next_data_record().unwrap().unwrap();
        assert!(record.payload == *payload);
    }
    // One flip in each part: the same break, whoever finds it.
    for at in [
        40,
        5_000_000,
        9_200_000,
        14_000_000,
        bytes.len() - 3_000_000,
    ] {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        let verify = |threads| {
            let fs = omniloop_core::fuzzing::OneFile::new(&flipped);
            let options = VerifyOptions {
                threads,
                ..VerifyOptions::default()
            };
            verify_signed_with(&fs, path(), &[], options, &mut ()).unwrap()
        };
        let one = verify(1);
        assert!(!one.chain.ok, "byte {at}");
        assert_eq!(one, verify(2), "byte {at}");
        assert_eq!(one, verify(3), "byte {at}");
    }
}
