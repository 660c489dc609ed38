//! Who may ask what.
//!
//! Promise: without a known token nobody learns anything but the page; a scope opens what it is for and nothing else.

use serde_json::json;

use crate::support::{Answer, Server, Setup, bearer};

fn with(server: &Server, token: &str, method: &str, target: &str, body: &str) -> Answer {
    server.ask(method, target, &bearer(token), body.as_bytes())
}

const SPAN: &str =
    r#"[{"trace_id":"t","span_id":"s","name":"n","start_ns":1,"end_ns":2,"service":"s"}]"#;

#[test]
fn without_a_known_token_everything_is_401_with_a_challenge() {
    let server = Setup::new().tokens("ro:r,rw:w:@x").start();
    for (method, target) in [
        ("GET", "/v1/stats"),
        ("POST", "/v1/spans"),
        ("GET", "/v1/none"),
        ("PUT", "/v1/spans"),
        ("POST", "/v1/mcp"),
        ("POST", "/v1/erasures"),
    ] {
        for fields in [
            "",
            "Authorization: Bearer x\r\n",
            "Authorization: bearer r\r\n",
            "Authorization: Bearer  r\r\n",
            "Authorization: Bearer\r\n",
            "Authorization: Bearer r,r\r\n",
            "Authorization: Basic cg==\r\n",
            "Authorization: Bearer rr\r\n",
            "Authorization: Bearer w\r\n",
        ] {
            let answer = server
                .ask(method, target, fields, b"")
                .refused(401, "unauthorized");
            assert_eq!(answer.field("www-authenticate"), Some("Bearer"));
            assert_eq!(answer.json(), json!({"error": "unauthorized"}));
            assert_eq!(answer.field("connection"), Some("close"));
        }
    }
    // A token may have the marks of the list in it.
    with(&server, "w:@x", "POST", "/v1/spans", SPAN).expect(200);
    let page = with(&server, "r", "GET", "/v1/metrics", "").text();
    assert!(page.contains("\ntraza_http_rejected_total 54\n"), "{page}");
    assert!(page.contains("\ntraza_http_requests_total 1\n"), "{page}");
}

#[test]
fn a_scope_opens_what_it_is_for() {
    let server = Setup::new().tokens("ro:r,rw:w,admin:a").start();
    let erasure = r#"{"subject":{"kind":"trace","trace_id":"none"}}"#;
    for (method, target, body, ro, rw, admin) in [
        ("GET", "/v1/stats", "", 200, 200, 200),
        ("GET", "/v1/openapi.json", "", 200, 200, 200),
        ("GET", "/v1/erasures", "", 200, 200, 200),
        ("POST", "/v1/spans", SPAN, 403, 200, 200),
        (
            "POST",
            "/v1/traces",
            r#"{"resourceSpans":[]}"#,
            403,
            200,
            200,
        ),
        ("POST", "/v1/flush", "", 403, 200, 200),
        ("POST", "/v1/checkpoint", "", 403, 200, 200),
        ("POST", "/v1/annotations", "", 403, 400, 400),
        ("POST", "/v1/backups/x/release", "", 403, 200, 200),
        ("POST", "/v1/erasures", erasure, 403, 403, 200),
        (
            "POST",
            "/v1/datasets/1/versions/x/tombstone",
            "",
            403,
            403,
            400,
        ),
        ("PUT", "/v1/spans", "", 403, 403, 403),
        ("HEAD", "/v1/stats", "", 403, 403, 403),
        ("GET", "/v1/none", "", 404, 404, 404),
    ] {
        for (token, status) in [("r", ro), ("w", rw), ("a", admin)] {
            let answer = with(&server, token, method, target, body).expect(status);
            if status == 403 {
                assert_eq!(answer.json(), json!({"error": "forbidden"}));
                assert_eq!(answer.field("connection"), Some("close"));
            }
        }
    }
}

#[test]
fn an_admin_erases_and_a_reader_reads_the_receipt() {
    let server = Setup::new().tokens("ro:r,rw:w,admin:a").start();
    with(&server, "w", "POST", "/v1/spans", SPAN).expect(200);
    let subject = r#"{"subject":{"kind":"trace","trace_id":"t"}}"#;
    server
        .post("/v1/erasures", subject)
        .refused(401, "unauthorized");
    let erasure = with(&server, "a", "POST", "/v1/erasures", subject)
        .expect(200)
        .json();
    assert_eq!(erasure["settle"]["spans_removed"], 1);
    let id = &erasure["id"];
    let target = format!("/v1/erasures/{id}/verify");
    let receipt = with(&server, "r", "GET", &target, "").expect(200).json();
    assert_eq!(receipt["result"], "erased");
    assert_eq!(receipt["settled"], true);
}

#[test]
fn a_token_list_that_is_wrong_keeps_the_server_from_starting_and_is_not_shown() {
    for list in [
        "",
        "hunter2",
        "rw:",
        "root:hunter2",
        "rw:hunter2,",
        "rw:hunter2,ro:hunter2",
        "rw@Upper:hunter2",
        " rw:hunter2",
        "rw:hunter2 x",
    ] {
        let ran = Setup::new().tokens(list).run(&["--port", "0"]);
        assert_eq!(ran.code, Some(1), "{list:?} {ran:?}");
        assert!(ran.err.starts_with("traza-server: "), "{ran:?}");
        assert!(ran.err.contains("auth configuration: "), "{ran:?}");
        assert!(!ran.err.contains("hunter2"), "{ran:?}");
    }
}

#[test]
fn without_tokens_only_this_machine_is_served() {
    for host in ["0.0.0.0", "::", "192.0.2.1", "example.invalid"] {
        let ran = Setup::new().run(&["--host", host, "--port", "0"]);
        assert_eq!(ran.code, Some(1), "{host} {ran:?}");
        assert!(
            ran.err
                .contains("refusing unauthenticated non-loopback bind"),
            "{ran:?}"
        );
        assert!(
            ran.err.contains("--allow-unauthenticated-non-loopback"),
            "{ran:?}"
        );
    }
    let server = Server::with(["--host", "0.0.0.0", "--allow-unauthenticated-non-loopback"]);
    assert_eq!(server.address.ip().to_string(), "0.0.0.0");
    server.get("/v1/stats").expect(200);
    let server = Server::with(["--host", "LOCALHOST"]);
    assert!(server.address.ip().is_loopback());
    Setup::new()
        .tokens("ro:r")
        .args(["--host", "0.0.0.0"])
        .start();
}

#[test]
fn the_page_is_served_without_a_token_and_the_api_is_not() {
    let server = Setup::new().tokens("ro:r").start();
    for target in ["/", "/dashboard", "/dashboard/"] {
        let answer = server.get(target).expect(200);
        assert_eq!(
            answer.field("content-type"),
            Some("text/html; charset=utf-8")
        );
    }
    server.get("/v1/stats").expect(401);
}
