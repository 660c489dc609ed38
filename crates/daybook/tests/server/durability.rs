//! What an acknowledgement is worth when the process ends.
//!
//! Promise: what was acknowledged is there after SIGKILL as the durability says, once, in its last version; SIGTERM loses
//! nothing at all. The oracle is the list of what was acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Server, Setup, until};

fn span(id: &str, name: &str) -> Value {
    json!({"trace_id": "t", "span_id": id, "name": name, "start_ns": 1, "end_ns": 2, "service": "s"})
}

/// The names of all spans, by their ids; each id is there once.
fn names(server: &Server) -> BTreeMap<String, String> {
    let export = server.get("/v1/export").expect(200);
    assert_eq!(export.trailer("X-Traza-Export-Complete"), "true");
    let mut found = BTreeMap::new();
    for line in export.text().lines() {
        let span: Value = serde_json::from_str(line).unwrap();
        let text = |member: &str| span[member].as_str().unwrap().to_owned();
        let known = found.insert(text("span_id"), text("name"));
        assert_eq!(known, None, "{line} is there twice");
    }
    found
}

#[test]
fn with_the_log_what_was_acknowledged_survives_a_crash_in_its_last_version() {
    let server = Server::start();
    for version in ["first", "second", "third"] {
        let answer = server.ingest(&json!([span("a", version)]));
        assert_eq!(answer["durability"], "wal");
    }
    let server = server.crash_and_restart();
    assert_eq!(
        names(&server),
        BTreeMap::from([("a".to_owned(), "third".to_owned())])
    );
    assert_eq!(
        server.post("/v1/flush", "").expect(200).json(),
        json!({"flushed": true})
    );
    let stats = server.json("/v1/stats");
    assert_eq!(
        (&stats["wal_bytes"], &stats["segment_count"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(stats["buffer_age_seconds"], Value::Null);
    let server = server.crash_and_restart();
    assert_eq!(names(&server).len(), 1);
}

#[test]
fn flushed_means_in_a_segment_before_the_answer() {
    let server = Server::with(["--durability", "flushed"]);
    for id in ["a", "b"] {
        assert_eq!(
            server.ingest(&json!([span(id, "n")]))["durability"],
            "flushed"
        );
        let stats = server.json("/v1/stats");
        assert_eq!(stats["buffered_records"], 0);
        assert!(stats["segment_count"].as_u64() >= Some(1));
    }
    let server = server.crash_and_restart();
    assert_eq!(names(&server).len(), 2);
}

#[test]
fn buffered_loses_in_a_crash_what_was_not_flushed_and_nothing_else() {
    let server = Server::with(["--durability", "buffered"]);
    assert_eq!(
        server.ingest(&json!([span("a", "n")]))["durability"],
        "buffered"
    );
    assert_eq!(server.json("/v1/stats")["wal_bytes"], 0);
    server.post("/v1/flush", "").expect(200);
    server.ingest(&json!([span("b", "n")]));
    let server = server.crash_and_restart();
    assert_eq!(names(&server).into_keys().collect::<Vec<_>>(), ["a"]);
    server.ingest(&json!([span("c", "n")]));
    let (status, _, setup) = server.stop(Signal::TERM);
    assert!(status.success());
    assert_eq!(
        names(&setup.start()).into_keys().collect::<Vec<_>>(),
        ["a", "c"]
    );
}

#[test]
fn a_signal_to_end_seals_everything_and_says_so() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = Server::start();
        server.ingest(&json!([span("a", "n")]));
        // An idle connection and a tail do not hold it up.
        let mut idle = server.connect();
        idle.send("GET /v1/stats HTTP/1.1\r\n\r\n");
        idle.answer().expect(200);
        let mut tail = server.connect();
        tail.send("GET /v1/tail HTTP/1.1\r\n\r\n");
        tail.head().unwrap();
        tail.chunk().unwrap();
        let (status, log, setup) = server.stop(signal);
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("holds everything"), "{log}");
        assert!(idle.has_ended());
        assert_eq!(tail.chunk(), None, "the stream is ended, not cut");
        let server = setup.start();
        let stats = server.json("/v1/stats");
        assert_eq!(
            (&stats["buffered_records"], &stats["wal_bytes"]),
            (&json!(0), &json!(0))
        );
        assert_eq!(names(&server).len(), 1);
        assert_eq!(server.json("/v1/verify")["intact"], true);
    }
}

#[test]
fn a_second_server_on_the_same_folder_is_refused_until_the_first_is_dead() {
    let server = Server::start();
    server.ingest(&json!([span("a", "n")]));
    let data = server.data();
    let ran = Setup::new().run(&["--port", "0", "--data-dir", data.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(server.json("/v1/stats")["record_count"], 1);
    let server = server.crash_and_restart();
    assert_eq!(server.json("/v1/stats")["record_count"], 1);
}

/// Clients that send until the server is gone, and what was acknowledged to them. `versions` rewrite each key.
fn crash_under_load(
    args: &[&str],
    clients: u64,
    rounds: u64,
    versions: u64,
    meanwhile: fn(&Server),
) {
    let mut setup = Setup::new().args(args.iter().copied());
    let acknowledged: Vec<AtomicU64> = (0..clients).map(|_| AtomicU64::new(0)).collect();
    for round in 0..rounds {
        let server = setup.start();
        let is_dying = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (client, count) in acknowledged.iter().enumerate() {
                let (server, is_dying) = (&server, &is_dying);
                scope.spawn(move || send_until_dead(server, client, count, versions, is_dying));
            }
            let goal = |round: u64| 60 * (round + 1);
            until("enough is acknowledged", || {
                meanwhile(&server);
                let least = acknowledged
                    .iter()
                    .map(|count| count.load(Ordering::SeqCst))
                    .min();
                (least >= Some(goal(round))).then_some(())
            });
            is_dying.store(true, Ordering::SeqCst);
            server.signal(Signal::KILL);
        });
        setup = server.crash();
    }
    let server = setup.start();
    let found = names(&server);
    for (client, count) in acknowledged.iter().enumerate() {
        for number in 0..count.load(Ordering::SeqCst) {
            let key = format!("{client}-{}", number / versions);
            let name = found
                .get(&key)
                .unwrap_or_else(|| panic!("{key} was acknowledged"));
            let version: u64 = name.parse().unwrap();
            assert!(
                version >= number,
                "{key} went back to {version} from {number}"
            );
        }
    }
    let verified = server.json("/v1/verify");
    assert_eq!(verified["intact"], true, "{verified}");
}

fn send_until_dead(
    server: &Server,
    client: usize,
    count: &AtomicU64,
    versions: u64,
    is_dying: &AtomicBool,
) {
    use std::io::Write as _;
    let mut connection = server.connect();
    loop {
        let number = count.load(Ordering::SeqCst);
        let id = format!("{client}-{}", number / versions);
        let body = json!([span(&id, &number.to_string())]).to_string();
        let request = format!(
            "POST /v1/spans HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let is_sent = connection.stream.write_all(request.as_bytes()).is_ok();
        let answer = is_sent.then(|| connection.try_answer()).flatten();
        let Some(answer) = answer else {
            assert!(
                is_dying.load(Ordering::SeqCst),
                "the server went away by itself"
            );
            return;
        };
        answer.expect(200);
        count.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_crash_under_eight_clients_loses_nothing_acknowledged() {
    crash_under_load(&[], 8, 3, 1, |_| ());
}

#[test]
fn a_crash_with_a_commit_window_loses_nothing_acknowledged() {
    crash_under_load(&["--wal-commit-window-us", "3000"], 8, 2, 1, |_| ());
}

#[test]
fn a_crash_during_seals_and_merges_brings_back_no_older_version() {
    crash_under_load(
        &["--flush-spans", "7", "--compaction-fanout", "2"],
        4,
        3,
        5,
        |_| (),
    );
}

#[test]
fn a_crash_around_checkpoints_leaves_a_generation_that_is_whole() {
    crash_under_load(&["--flush-spans", "20"], 2, 3, 3, |server| {
        server.post("/v1/checkpoint", "").expect(200);
    });
}

#[test]
fn a_commit_window_shares_a_sync_between_commits() {
    let server = Server::with(["--wal-commit-window-us", "5000"]);
    std::thread::scope(|scope| {
        for client in 0..8 {
            let server = &server;
            scope.spawn(move || {
                for number in 0..20 {
                    server.ingest(&json!([span(&format!("{client}-{number}"), "n")]));
                }
            });
        }
    });
    let (commits, syncs) = (
        server.metric("traza_wal_commits_total"),
        server.metric("traza_wal_fsync_ns_count"),
    );
    assert_eq!(commits, 160);
    assert!(syncs < commits, "{syncs} syncs for {commits} commits");
}
