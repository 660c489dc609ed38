//! The command line of the server.

use serde_json::json;

use crate::support::{Server, Setup, until};

#[test]
fn what_it_says_when_it_starts_is_what_harnesses_wait_for() {
    for (args, durability, profile) in [
        (
            &[][..],
            "wal",
            "profile=balanced — flush-spans=10000, wal-commit-window=off",
        ),
        (
            &["--profile", "throughput"],
            "wal",
            "profile=throughput — flush-spans=30000, wal-commit-window=500us",
        ),
        (
            &["--profile", "latency", "--durability", "flushed"],
            "flushed",
            "profile=latency — flush-spans=5000, wal-commit-window=off",
        ),
        (
            &["--flush-spans", "7", "--profile", "throughput"],
            "wal",
            "profile=throughput — flush-spans=7, wal-commit-window=500us",
        ),
        (
            &[
                "--profile",
                "throughput",
                "--profile",
                "latency",
                "--wal-commit-window-us",
                "9",
            ],
            "wal",
            "profile=latency — flush-spans=5000, wal-commit-window=9us",
        ),
        (
            &["--flush-spans", "0", "--durability", "buffered"],
            "buffered",
            "profile=balanced — flush-spans=1, wal-commit-window=off",
        ),
    ] {
        let server = Setup::new().args(args.iter().copied()).start();
        assert_eq!(server.address.ip().to_string(), "127.0.0.1");
        let log = until("the lines are there", || {
            let log = server.log();
            (log.lines().count() >= 4).then_some(log)
        });
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(
            lines[0],
            format!("traza-server listening on {}", server.address)
        );
        assert_eq!(lines[1], format!("traza-server: durability={durability}"));
        assert_eq!(lines[2], format!("traza-server: {profile}"));
        assert_eq!(server.json("/v1/stats")["durability"], durability);
    }
}

#[test]
fn flags_that_are_wrong_are_named_and_the_code_is_1() {
    for (args, error) in [
        (
            &["--nonsense"][..],
            "traza-server: unknown argument: --nonsense\n",
        ),
        (&["nonsense"], "traza-server: unknown argument: nonsense\n"),
        (&["--port"], "traza-server: --port requires a value\n"),
        (
            &["--data-dir"],
            "traza-server: --data-dir requires a value\n",
        ),
        (
            &["--flush-spans", "many"],
            "traza-server: --flush-spans must be a non-negative number\n",
        ),
        (
            &["--ttl-seconds", "-1"],
            "traza-server: --ttl-seconds must be a non-negative number\n",
        ),
        (
            &["--max-connections", "1.5"],
            "traza-server: --max-connections must be a non-negative number\n",
        ),
    ] {
        let ran = Setup::new().run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{args:?}");
        assert_eq!(ran.err, error, "{args:?}");
    }
    for (args, words) in [
        (&["--durability", "none"][..], "--durability"),
        (&["--profile", "none"], "--profile"),
        (&["--port", "70000"], "--port"),
        (&["--tenant-ttl", "Bad=1"], "--tenant-ttl"),
        (&["--tenant-ttl", "acme"], "--tenant-ttl"),
        (&["--tls-cert", "x"], "--tls-key"),
        (&["--tls-cert", "x", "--tls-key", "y", "--port", "0"], "x"),
        (&["--restore", "none", "--port", "0"], "none"),
    ] {
        let ran = Setup::new().run(args);
        assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{args:?}");
        assert!(
            ran.err.starts_with("traza-server: ") && ran.err.contains(words),
            "{args:?} {}",
            ran.err
        );
    }
}

#[test]
fn help_and_version_are_on_standard_output() {
    let setup = Setup::new();
    for flag in ["--version", "-V"] {
        let ran = setup.run(&[flag]);
        assert_eq!(ran.code, Some(0));
        assert_eq!(
            ran.out,
            format!("traza-server {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
    for flag in ["--help", "-h"] {
        let ran = setup.run(&[flag]);
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
        for name in [
            "--data-dir",
            "--durability",
            "--no-shadow-seal",
            "--no-content-index",
            "--mcp-promote",
            "--tenant-ttl",
            "--restore",
        ] {
            assert!(ran.out.contains(name), "{name}");
        }
    }
}

#[test]
fn a_port_that_is_taken_is_refused() {
    let server = Server::start();
    let port = server.address.port().to_string();
    let ran = Setup::new().run(&["--port", &port]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains(&port), "{ran:?}");
}

#[test]
fn spans_are_sealed_by_count_and_by_age_and_forgotten_by_their_end() {
    let server = Server::with([
        "--flush-spans",
        "10",
        "--max-buffer-age-seconds",
        "1",
        "--ttl-seconds",
        "3600",
        "--tenant-ttl",
        "kept=0",
    ]);
    let span = |id: usize, tenant: &str| json!({"trace_id": "t", "span_id": id.to_string(), "$tenant": tenant, "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"});
    let spans: Vec<_> = (0..10).map(|id| span(id, "")).collect();
    server.ingest(&json!(spans));
    until("they are sealed by their count", || {
        (server.json("/v1/stats")["segment_count"] == 1).then_some(())
    });
    server.ingest(&json!([span(10, "kept")]));
    until("it is sealed by its age", || {
        (server.json("/v1/stats")["buffered_records"] == 0).then_some(())
    });
    assert_eq!(server.metric("traza_segment_seals_age_total"), 1);
}

#[test]
fn the_server_says_whether_it_is_alive_and_ready() {
    let server = Server::start();
    assert_eq!(server.json("/healthz"), json!({"status": "ok"}));
    assert_eq!(server.json("/readyz"), json!({"status": "ready"}));
}
