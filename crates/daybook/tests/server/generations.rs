//! Generations, their verification, and backups.

use durable::{Fs as _, RealFs, read_all};
use serde_json::{Value, json};

use crate::support::{Server, Setup, damage, files_below, segments};

fn span(id: &str) -> Value {
    json!([{"trace_id": "t", "span_id": id, "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"}])
}

#[test]
fn a_checkpoint_is_a_new_generation_and_verification_sees_every_changed_byte() {
    let server = Server::start();
    let fresh = server.json("/v1/verify");
    assert_eq!(
        fresh,
        json!({"generation": 1, "intact": true, "problems": []})
    );
    server.ingest(&span("a"));
    let first = server.post("/v1/checkpoint", "").expect(200).json()["generation"]
        .as_u64()
        .unwrap();
    let second = server.post("/v1/checkpoint", "").expect(200).json()["generation"]
        .as_u64()
        .unwrap();
    assert!(1 < first && first < second);
    assert_eq!(server.json("/v1/stats")["buffered_records"], 0);
    assert_eq!(
        server.json("/v1/verify"),
        json!({"generation": second, "intact": true, "problems": []})
    );
    let segment = &segments(&server.data())[0];
    let whole = read_all(&RealFs, segment, 1 << 30).unwrap();
    let problem = || {
        let found = server.json("/v1/verify");
        assert_eq!(found["intact"], false);
        found["problems"][0].as_str().unwrap().to_owned()
    };
    let middle = whole.len() / 2;
    damage(segment, |file| {
        rustix::io::pwrite(file, &[whole[middle] ^ 1], middle as u64).unwrap();
    });
    assert!(problem().ends_with(": digest mismatch"), "{}", problem());
    damage(segment, |file| {
        rustix::fs::ftruncate(file, whole.len() as u64 - 1).unwrap();
    });
    let text = format!(
        ": {} bytes on disk, {} in the manifest",
        whole.len() - 1,
        whole.len()
    );
    assert!(problem().ends_with(&text), "{}", problem());
    RealFs.remove_file(segment).unwrap();
    assert!(problem().ends_with(": missing"), "{}", problem());
}

#[test]
fn a_backup_is_verified_kept_and_restored_elsewhere() {
    let server = Server::start();
    server.ingest(&span("a"));
    let answer = server.post("/v1/backups/nightly-1", "").expect(201);
    assert_eq!(
        answer.phrase, "Error",
        "the phrase that clients of this surface know"
    );
    let backup = answer.json();
    assert_eq!(
        (&backup["backup"], &backup["verified"]),
        (&json!("nightly-1"), &json!(true))
    );
    let path = backup["path"].as_str().unwrap().to_owned();
    assert!(path.ends_with("pins/nightly-1"), "{path}");
    server
        .post("/v1/backups/nightly-1", "")
        .refused(409, "storage I/O error: ");
    server.ingest(&span("b"));
    server.post("/v1/flush", "").expect(200);
    let source = server.setup.path("data").join("pins/nightly-1");
    let restored = Setup::new()
        .args(["--restore", source.to_str().unwrap()])
        .start();
    assert_eq!(restored.ids("/v1/spans"), ["a"]);
    assert_eq!(restored.json("/v1/verify")["intact"], true);
    restored.ingest(&span("c"));
    // Once more, the folder is put back to what the backup has.
    let restored = restored.crash_and_restart();
    assert_eq!(restored.ids("/v1/spans"), ["a"]);
    assert_eq!(server.ids("/v1/spans"), ["a", "b"]);
    for _ in 0..2 {
        let released = server
            .post("/v1/backups/nightly-1/release", "")
            .expect(200)
            .json();
        assert_eq!(released, json!({"released": true, "backup": "nightly-1"}));
    }
    assert!(!RealFs.exists(&source).unwrap());
    server.post("/v1/backups/nightly-1", "").expect(201);
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let server = Server::start();
    server.ingest(&span("a"));
    server.post("/v1/backups/b", "").expect(201);
    let source = server.data().join("pins/b");
    damage(&segments(&source)[0], |file| {
        rustix::io::pwrite(file, b"\xff", 100).unwrap();
    });
    let ran = Setup::new().run(&[
        "--port",
        "0",
        "--data-dir",
        "data",
        "--restore",
        source.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.starts_with("traza-server: "), "{ran:?}");
}

#[test]
fn a_label_that_leads_elsewhere_touches_nothing() {
    let server = Server::start();
    server.ingest(&span("a"));
    server.post("/v1/checkpoint", "").expect(200);
    let generation = server.json("/v1/verify")["generation"].clone();
    for label in ["..", ".", ".hidden", "a/b", "../..", "a\\b", ""] {
        let answer = server.post(&format!("/v1/backups/{label}"), "");
        assert!([404, 409].contains(&answer.status), "{label} {answer:?}");
        let answer = server.post(&format!("/v1/backups/{label}/release"), "");
        assert!(
            [400, 404, 409].contains(&answer.status),
            "{label} {answer:?}"
        );
    }
    assert_eq!(server.ids("/v1/spans"), ["a"]);
    assert_eq!(server.json("/v1/verify")["intact"], true);
    assert_eq!(
        server.json("/v1/verify")["generation"],
        generation,
        "a label that is none publishes nothing"
    );
    let outside = files_below(server.setup.path("").as_path());
    assert!(
        outside.iter().all(|path| path.starts_with(server.data())),
        "{outside:?}"
    );
}
